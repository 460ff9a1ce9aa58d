// Where a home listens: an address that it cannot take, a port that is taken when it starts, and a copy of its state directory beside it.
#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Somebody else's program at a port of loopback.
class stranger {
public:
  explicit stranger(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const int on = 1;
    setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    REQUIRE(bind(socket_.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
    REQUIRE(listen(socket_.get(), 8) == 0);
  }
  void go() { socket_.reset(); }

private:
  swarm::unique_fd socket_;
};

/// As `cp -a` of the state directory, without what a running node has open.
void copy_membership(const test_node& from, const test_node& to) {
  fs::create_directories(to.dir().root);
  fs::permissions(to.dir().root, fs::perms::owner_all);
  fs::copy_file(from.dir().root / "node.json", to.dir().root / "node.json");
  fs::copy(from.dir().root / "cluster", to.dir().root / "cluster", fs::copy_options::recursive);
}

std::string down_reason(const test_node& home) { return cluster_of_nodes::row_seen_by(home, "a")["down_reason"]; }

} // namespace

TEST_CASE("a home that cannot take a new address refuses it, and goes on at the one before") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  const auto file = c.home.dir().root / "cluster" / "cluster.json";
  const auto before = file_text(file);
  const auto taken = "127.0.0.1:" + std::to_string(free_ports());
  stranger other{taken};
  for (const auto& [wrong, why] : {std::pair<std::string, std::string>{"192.0.2.1:7400", "this machine does not have the address"},
                                   {taken, "another program has the port"},
                                   {"0.0.0.0:7400", "nobody can call 0.0.0.0:7400"}}) {
    auto refused = c.home.ctl({"up", "--listen", wrong});
    CHECK(refused.status == 1);
    CHECK_MESSAGE(has(refused.err, why), refused.err);
    CHECK(file_text(file) == before);
    CHECK(down_reason(c.home).empty());
    CHECK(cluster_of_nodes::link_seen_by(b, "a") == "up");
  }
  // Who was away meanwhile finds it.
  b.kill_node();
  REQUIRE(b.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  // One that is free is taken.
  other.go();
  CHECK(c.home.ctl({"up", "--listen", taken}).status == 0);
  CHECK(has(file_text(file), taken));
}

TEST_CASE("a home that has moved lets nodes join at its new address, also while a token of the old one is valid") {
  cluster_of_nodes c;
  test_node b;
  c.home.ctl_json({"join-token", "create"});
  REQUIRE(c.home.ctl({"up", "--listen", "127.0.0.1:" + std::to_string(free_ports())}).status == 0);
  c.join(b, "b");
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
}

TEST_CASE("a home whose port is taken when it starts says so everywhere, and listens once the port is free") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(c.home.down().status == 0);
  stranger other{c.address};
  auto up = c.home.ctl({"up"});
  CHECK(up.status == 0);
  const auto reason = "cannot listen at " + c.address + ": another program has the port";
  CHECK_MESSAGE(has(up.err, "other hosts do not reach this home: " + reason), up.err);
  CHECK(has(up.err, "It tries again until it can; `swarmctl up --listen HOST:PORT` names another address"));
  CHECK(has(c.home.ctl({"status"}).out, reason));
  CHECK(has(c.home.ctl({"nodes"}).out, reason));
  CHECK(down_reason(c.home) == reason);
  auto doctor = c.home.ctl({"doctor"});
  CHECK(doctor.status == 1);
  CHECK_MESSAGE(has(doctor.out, reason), doctor.out);
  other.go();
  CHECK(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "up"; }));
  CHECK(down_reason(c.home).empty());
}

TEST_CASE("a copy of a home's state directory does not start beside the home, and says why not") {
  cluster_of_nodes c;
  test_node copy;
  const auto ann = register_shared(c.home, "name:ann");
  REQUIRE(c.home.ctl(in_shared({"lock", "/f.c", "--as", ann})).status == 0);
  copy_membership(c.home, copy);
  auto refused = copy.ctl({"up"});
  CHECK(refused.status != 0);
  CHECK_MESSAGE(has(refused.err, "another node answers that shows the certificate of this one"), refused.err);
  // Nor is it started by what needs a node.
  auto locks = copy.ctl(in_shared({"locks"}));
  CHECK(locks.status != 0);
  CHECK_MESSAGE(has(locks.err, "another node answers that shows the certificate of this one"), locks.err);
  CHECK(eventually([&] { return copy.node_pid() == 0; }));
  CHECK(c.home.ctl_json(in_shared({"locks"})).size() == 1);
  // Without the other one it is the home.
  REQUIRE(c.home.down().status == 0);
  CHECK(copy.ctl({"up"}).status == 0);
  CHECK(down_reason(copy).empty());
}

TEST_CASE("of a home and its copy that both wait for the port, the one that does not get it stops") {
  cluster_of_nodes c;
  test_node copy;
  copy_membership(c.home, copy);
  REQUIRE(c.home.down().status == 0);
  stranger other{c.address};
  REQUIRE(c.home.ctl({"up"}).status == 0);
  REQUIRE(copy.ctl({"up"}).status == 0);
  other.go();
  CHECK(eventually([&] { return (c.home.node_pid() == 0) != (copy.node_pid() == 0); }));
  auto& stopped = c.home.node_pid() == 0 ? c.home : copy;
  auto up = stopped.ctl({"up"});
  CHECK(up.status != 0);
  CHECK_MESSAGE(has(up.err, "another node answers that shows the certificate of this one"), up.err);
}
