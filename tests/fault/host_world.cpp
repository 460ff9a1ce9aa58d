#include "tests/fault/host_world.hpp"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "actors/base/limits.hpp"
#include "tests/support/free_ports.hpp"

namespace swarm::testing {

namespace {

constexpr auto link_patience = std::chrono::seconds{60};
constexpr std::uint64_t disk_bytes = 256 * limits::mib;
constexpr int exit_gave_up = 70; // of swarmd, when its parts fail again and again

bool loopback_wanted() {
  const auto* v = std::getenv("SWARM_TEST_LOOPBACK");
  return v && std::string{v} == "1";
}

void expect(const run_result& r, const std::string& what) {
  if (r.status != 0)
    throw std::runtime_error(what + " ended with " + std::to_string(r.status) + ": " + r.out + r.err);
}

std::string logs_of(const test_node& node) {
  auto all = file_text(fs::path{node.work()}.parent_path() / "swarmd.err");
  std::error_code ec;
  for (const auto& f : fs::directory_iterator{node.dir().log_dir(), ec})
    all += file_text(f.path());
  return all;
}

} // namespace

host_world::host_world(unsigned seed, const std::string& given) : seed_(seed), network_(hosts, !loopback_wanted()), port_(free_ports()) {
  auto no_disks = small_disk::obstacle();
  kind_ = network_.kind() + (no_disks.empty() ? "; each on a disk of its own" : "; no disks of their own: " + no_disks) +
          (machine_clock::may_be_set() ? "; the machine's clock jumps" : "; the clock stays as it is (SWARM_TEST_CLOCK=1 sets it)");
  auto* disk = disks_.begin();
  for (auto& n : nodes_) {
    n = std::make_unique<test_node>();
    fs::create_directories(n->dir().root);
    fs::permissions(n->dir().root, fs::perms::owner_all);
    if (no_disks.empty())
      *disk++ = std::make_unique<small_disk>(n->dir().root, disk_bytes);
    // Agents of every host have programs started on the others.
    std::ofstream{n->dir().config_file()} << "[accept.spawn]\nprincipals = [\"*\"]\nsession_harnesses = [\"*\"]\n[limits]\ndisk_low_bytes = "
                                          << limits::disk_low_bytes.lowest() << "\ndisk_critical_bytes = " << limits::disk_critical_bytes.lowest()
                                          << "\n"
                                          << given;
  }
  found();
  for (std::size_t m = 1; m < hosts; ++m)
    join(m);
  lead_through_proxy(2);
  if (!network_.separate())
    lead_through_proxy(1);
  if (!linked(link_patience))
    throw std::runtime_error("the hosts do not come together:\n" + ctl(home, {"nodes"}).out + logs_of(node(home)) + logs_of(node(2)));
}

host_world::~host_world() { heal(); }

void host_world::found() {
  expect(ctl(home, {"up", "--node-name", name(home), "--listen", network_.address(home) + ":" + std::to_string(port_), "--insecure-ca"}), "up");
}

void host_world::join(std::size_t member) {
  auto made = ctl(home, {"join-token", "create"});
  expect(made, "join-token create");
  secrets_.push_back(lines_of(made.out).back());
  expect(ctl(member, {"join", secrets_.back(), "--node-name", name(member)}), "join");
}

/// A member calls its home where its file says that it is.
void host_world::lead_through_proxy(std::size_t member) {
  auto at = network_.router_address(member);
  network_.inside(host_network::router, [&] {
    proxies_[member] = std::make_unique<tcp_proxy>(at, port_, network_.address(home), port_, seed_ + static_cast<unsigned>(member));
  });
  network_.inside(member, [&] { expect(nodes_[member]->down(), "down"); });
  auto file = nodes_[member]->dir().root / "cluster" / "cluster.json";
  auto facts = json::parse(file_text(file));
  facts.at("home_address") = at + ":" + std::to_string(port_);
  std::ofstream{file} << facts.dump(2) << "\n";
  start_node(member);
}

std::string host_world::log(std::size_t host) const { return logs_of(node(host)); }

std::vector<const test_node*> host_world::nodes() const {
  std::vector<const test_node*> out;
  for (const auto& n : nodes_)
    out.push_back(n.get());
  return out;
}

run_result host_world::ctl(std::size_t host, std::vector<std::string> arguments) const {
  run_result out;
  network_.inside(host, [&] { out = nodes_[host]->ctl(std::move(arguments)); });
  return out;
}

json host_world::ctl_json(std::size_t host, std::vector<std::string> arguments) const {
  json out;
  network_.inside(host, [&] { out = nodes_[host]->ctl_json(std::move(arguments)); });
  return out;
}

std::string host_world::link(std::size_t seen_by, std::size_t other) const {
  auto said = ctl(seen_by, {"nodes", "--json"}).parsed();
  if (said.is_object())
    for (const auto& n : said["nodes"])
      if (n["name"] == name(other))
        return n["link"];
  return "unknown";
}

bool host_world::linked(std::chrono::milliseconds deadline, std::size_t but) const {
  return eventually(
    [&] {
      for (std::size_t m = 1; m < hosts; ++m)
        if (m != but && (link(home, m) != "up" || link(m, home) != "up"))
          return false;
      return true;
    },
    deadline);
}

// -- harms ---------------------------------------------------------------------------------

void host_world::cut(std::size_t member, bool to_home, bool to_member) {
  if (network_.separate()) {
    auto other = proxies_[member] ? host_network::router : home;
    if (to_home)
      network_.cut(member, other);
    if (to_member)
      network_.cut(other, member);
    return;
  }
  proxy_way held;
  held.fate = proxy_way::hold;
  if (to_home)
    proxies_[member]->set(tcp_proxy::to_server, held);
  if (to_member)
    proxies_[member]->set(tcp_proxy::to_client, held);
}

void host_world::mend(std::size_t member) {
  for (auto other : {home, host_network::router}) {
    network_.mend(member, other);
    network_.mend(other, member);
  }
  if (proxies_[member])
    proxies_[member]->heal();
}

void host_world::heal() {
  clock_.set_right();
  for (const auto& disk : disks_)
    if (disk)
      disk->empty();
  for (std::size_t m = 1; m < hosts; ++m)
    mend(m);
  for (std::size_t i = 0; i < hosts; ++i)
    thaw(i);
}

void host_world::kill_node(std::size_t host) {
  auto pid = nodes_[host]->node_pid();
  if ((pid == 0 || !is_running(pid)) && misdeeds_.empty())
    misdeeds_ = "the node of " + name(host) + " had ended by itself:\n" + logs_of(node(host));
  nodes_[host]->kill_node();
}

void host_world::start_node(std::size_t host) {
  network_.inside(host, [&] { nodes_[host]->start(); });
}

void host_world::kill_keeper(std::size_t host) {
  // Before it happens: who sees a terminal end looks here.
  ++keeper_kills_[host];
  nodes_[host]->kill_keeper();
}

void host_world::freeze(std::size_t host) const {
  if (auto pid = nodes_[host]->node_pid(); pid != 0)
    kill(pid, SIGSTOP);
}

void host_world::thaw(std::size_t host) const {
  if (auto pid = nodes_[host] ? nodes_[host]->node_pid() : 0; pid != 0)
    kill(pid, SIGCONT);
}

void host_world::fill_disk(std::size_t host) const {
  if (disks_[host])
    disks_[host]->fill();
}

void host_world::free_disk(std::size_t host) {
  if (!disks_[host])
    return;
  disks_[host]->empty();
  eventually([&] {
    if (auto status = nodes_[host]->wait_for_exit(std::chrono::milliseconds{0}); status == exit_gave_up)
      start_node(host);
    return ctl(host, {"status", "--json"}).status == 0;
  });
}

std::string host_world::misdeeds() const {
  if (!misdeeds_.empty())
    return misdeeds_;
  for (std::size_t i = 0; i < hosts; ++i) {
    auto pid = nodes_[i]->node_pid();
    auto said = logs_of(node(i));
    if (pid == 0 || !is_running(pid))
      return "the node of " + name(i) + " has ended by itself:\n" + said;
    if (auto at = said.find("Sanitizer"); at != std::string::npos)
      return name(i) + ": " + said.substr(at, 4'000);
    for (const auto& s : secrets_)
      if (said.find(s) != std::string::npos)
        return "a join token stands in a log of " + name(i);
  }
  return {};
}

} // namespace swarm::testing
