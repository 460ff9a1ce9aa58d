#include "tests/fault/host_world.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <sys/stat.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "tests/fault/fault_world.hpp"
#include "tests/support/free_ports.hpp"

namespace swarm::testing {

namespace {

constexpr auto link_patience = std::chrono::seconds{60};
constexpr std::uint64_t disk_bytes = 256 * limits::mib;
constexpr int exit_gave_up = 70; // of swarmd, when its parts fail again and again
/// Of a node since all were up. With sanitizers 130 MiB were seen under the load of nine clients, most of it what the sanitizer keeps beside
/// pieces of memory. A node that kept what a flood on a terminal (host_streams.cpp) brings would be above.
constexpr std::uint64_t growth_most = 320 * limits::mib;

bool loopback_wanted() {
  const auto* v = std::getenv("SWARM_TEST_LOOPBACK");
  return v && std::string{v} == "1";
}

void expect(const run_result& r, const std::string& what) {
  if (r.status != 0)
    throw std::runtime_error(what + " ended with " + std::to_string(r.status) + ": " + r.out + r.err);
}

/// What was freed counts as used for as long as the sanitizer keeps it.
void keep_little_of_what_is_freed() {
  std::string was = std::getenv("ASAN_OPTIONS") ? std::getenv("ASAN_OPTIONS") : "";
  if (was.find("quarantine_size_mb") == std::string::npos)
    setenv("ASAN_OPTIONS", (was + (was.empty() ? "" : ":") + "quarantine_size_mb=4").c_str(), 1);
}

std::uint64_t resident_bytes(pid_t pid) {
  for (const auto& line : lines_of(file_text("/proc/" + std::to_string(pid) + "/status")))
    if (line.starts_with("VmRSS:"))
      return std::stoull(line.substr(6)) * limits::kib;
  return 0;
}

std::string megabytes(std::uint64_t bytes) { return std::to_string(bytes / limits::mib) + " MiB"; }

fs::path passphrase_file(const test_node& home) { return fs::path{home.work()}.parent_path() / "passphrase"; }

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
  keep_little_of_what_is_freed();
  auto* disk = disks_.begin();
  for (std::size_t i = 0; i < hosts; ++i) {
    nodes_[i] = std::make_unique<test_node>();
    fs::create_directories(nodes_[i]->dir().root);
    fs::permissions(nodes_[i]->dir().root, fs::perms::owner_all);
    if (no_disks.empty())
      *disk++ = std::make_unique<small_disk>(nodes_[i]->dir().root, disk_bytes);
    configure(i, given);
    // Not by swarmctl, which would start it without the sanitizer's options.
    network_.inside(i, [&] { nodes_[i]->start({"--node-name", name(i)}); });
  }
  found();
  for (std::size_t m = 1; m < hosts; ++m)
    join(m);
  lead_through_proxy(2);
  if (!network_.separate())
    lead_through_proxy(1);
  if (!linked(link_patience))
    throw std::runtime_error("the hosts do not come together:\n" + ctl(home, {"nodes"}).out + logs_of(node(home)) + logs_of(node(2)));
  for (std::size_t i = 0; i < hosts; ++i)
    resident_at_first_[i] = resident_bytes(nodes_[i]->node_pid());
}

host_world::~host_world() { heal(); }

void host_world::configure(std::size_t host, const std::string& given) {
  auto file = nodes_[host]->dir().config_file();
  // Agents of every host have programs started on the others.
  std::ofstream{file} << "[accept.spawn]\nprincipals = [\"*\"]\nsession_harnesses = [\"*\"]\n[limits]\ndisk_low_bytes = "
                      << limits::disk_low_bytes.lowest() << "\ndisk_critical_bytes = " << limits::disk_critical_bytes.lowest() << "\n"
                      << given;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
}

void host_world::found() {
  auto passphrase = make_token();
  std::ofstream{passphrase_file(node(home))} << passphrase << "\n";
  secrets_.insert(passphrase);
  expect(ctl(home, {"up", "--node-name", name(home), "--listen", network_.address(home) + ":" + std::to_string(port_), "--passphrase-file",
                    passphrase_file(node(home))}),
         "up");
}

void host_world::unlock() { expect(ctl(home, {"ca", "unlock", "--passphrase-file", passphrase_file(node(home))}), "ca unlock"); }

void host_world::join(std::size_t member) {
  unlock();
  auto made = ctl(home, {"join-token", "create"});
  expect(made, "join-token create");
  auto token = lines_of(made.out).back();
  secrets_.insert(token);
  run_result joined;
  // The home's listener for those who join is opened again with its certificate, which some tests let renew every other second.
  network_.inside(member, [&] {
    eventually([&] {
      joined = nodes_[member]->ctl({"join", "-", "--node-name", name(member)}, {.input = token + "\n"});
      auto turned_away =
        joined.err.find("onnection refused") != std::string::npos || joined.err.find("it closed the connection") != std::string::npos;
      return joined.status == 0 || !turned_away;
    });
  });
  expect(joined, "join");
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
  if (pid == 0 || !is_running(pid))
    misdeed("the node of " + name(host) + " had ended by itself:\n" + logs_of(node(host)));
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

// -- what must not be ----------------------------------------------------------------------

/// The first one is told.
void host_world::misdeed(std::string what) {
  if (misdeeds_.empty())
    misdeeds_ = std::move(what);
}

void host_world::look_at_memory(std::size_t host) {
  auto now = resident_bytes(nodes_[host]->node_pid()), first = resident_at_first_[host];
  auto grown = now > first ? now - first : 0;
  grown_most_ = std::max(grown_most_, grown);
  if (grown > growth_most)
    misdeed("the node of " + name(host) + " takes " + megabytes(now) + ", and took " + megabytes(first) + " at first");
}

/// Of the node, its keeper and all that runs below that. What they were given by environment is a secret, too.
void host_world::look_at_arguments(std::size_t host) {
  auto node = nodes_[host]->node_pid(), keeper = nodes_[host]->keeper_pid();
  std::map<pid_t, std::string> arguments;
  for (const auto& p : list_processes())
    if (!p.is_dead() && (p.pid == node || (keeper != 0 && is_descendant(p.pid, keeper).value_or(false)))) {
      arguments[p.pid] = file_text("/proc/" + std::to_string(p.pid) + "/cmdline");
      if (auto token = environment_of(p.pid, "SWARM_TOKEN"))
        secrets_.insert(*token);
    }
  auto look_for = [&](const std::string& secret) {
    for (const auto& [pid, words] : arguments)
      if (words.find(secret) != std::string::npos)
        misdeed("a secret stands in the arguments of process " + std::to_string(pid) + " on " + name(host) + ": " + words);
  };
  for (const auto& s : secrets_)
    look_for(s);
  for (const auto& s : session_tokens())
    look_for(s);
}

/// Nobody else reads the state directory. What opens something stands in none of its files; keys of nodes are in files of their own.
void host_world::look_at_files(std::size_t host) {
  std::vector<std::string> secrets{secrets_.begin(), secrets_.end()};
  for (const auto& hex : session_tokens()) {
    secrets.push_back(hex);
    secrets.push_back(from_hex(hex));
  }
  std::size_t regular = 0;
  auto options = fs::directory_options::skip_permission_denied;
  std::error_code ec;
  for (fs::recursive_directory_iterator i{nodes_[host]->dir().root, options, ec}, end; !ec && i != end; i.increment(ec)) {
    struct stat info {};
    if (lstat(i->path().c_str(), &info) != 0)
      continue; // gone meanwhile
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      misdeed("others have rights on " + i->path().string());
    if (!S_ISREG(info.st_mode))
      continue;
    ++regular;
    auto text = file_text(i->path());
    for (const auto& s : secrets)
      if (text.find(s) != std::string::npos)
        misdeed("a secret stands in " + i->path().string());
  }
  constexpr std::size_t fewest = 8; // the store, the log, keys: a look at nothing finds nothing
  if (regular < fewest)
    misdeed("only " + std::to_string(regular) + " files were found in the state directory of " + name(host));
}

void host_world::look() {
  for (std::size_t i = 0; i < hosts; ++i) {
    look_at_memory(i);
    look_at_arguments(i);
  }
}

std::string host_world::misdeeds() {
  look();
  for (std::size_t i = 0; i < hosts; ++i) {
    auto pid = nodes_[i]->node_pid();
    auto said = logs_of(node(i));
    if (pid == 0 || !is_running(pid))
      misdeed("the node of " + name(i) + " has ended by itself:\n" + said);
    if (auto at = said.find("Sanitizer"); at != std::string::npos)
      misdeed(name(i) + ": " + said.substr(at, 4'000));
    look_at_files(i);
    for (const auto& s : secrets_)
      if (said.find(s) != std::string::npos)
        misdeed("a secret stands in what was logged on " + name(i));
  }
  return misdeeds_;
}

} // namespace swarm::testing
