// What is said of hosts that are not linked, were lost or are out of the cluster, on each of three hosts.
#include <csignal>
#include <map>

#include "tests/support/cluster_of_nodes.hpp"

using namespace swarm::testing;

namespace {

constexpr const char* watchful = "link_heartbeat = 1000\nlink_silence = 2000\nhost_lease = 4000\n";
/// What a host holds stays while it is away.
constexpr const char* patient = "host_lease = 240000\n";

struct three_hosts {
  cluster_of_nodes c;
  test_node b, d;
  explicit three_hosts(const std::string& limits = {}) : c(limits) {
    c.join(b, "b");
    c.join(d, "d");
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string id_of(const json& asked) { return asked.contains("task") ? asked["task"]["id"].get<std::string>() : asked["task_id"].get<std::string>(); }

} // namespace

TEST_CASE("a list that a host which is not linked has a part in names that host, on the home and on another member") {
  three_hosts w{patient};
  auto bob = register_shared(w.b, "name:bob");
  CHECK(w.d.ctl({"pty", "list", "--all"}).err.empty());
  w.b.kill_node();
  for (const auto* node : {&w.c.home, &w.d}) {
    REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(*node, "b") == "down"; }));
    CHECK(cluster_of_nodes::row_seen_by(*node, "b")["reachable"] == false);
    CHECK(has(node->ctl({"nodes"}).out, "down for "));
    for (const auto& args :
         {std::vector<std::string>{"pty", "list", "--all"}, {"pty", "list", "--all", "--json"}, {"pty", "prune", "--all-scopes"}}) {
      auto listed = node->ctl(args);
      CHECK_MESSAGE(has(listed.err, "not linked, and so not asked: b (down for "), (listed.out + listed.err));
    }
    auto instances = node->ctl(in_shared({"instances"}));
    CHECK(has(instances.out, "name:bob"));
    CHECK_MESSAGE(has(instances.err, "b is not linked (down for "), instances.err);
  }
  w.c.home.kill_node();
  REQUIRE(eventually([&] { return has(w.d.ctl({"nodes"}).out, "out of reach"); }));
  auto listed = w.d.ctl({"pty", "list", "--all"});
  CHECK_MESSAGE(has(listed.err, "not asked: a (down for "), listed.err);
  CHECK_MESSAGE(has(listed.err, "b (out of reach: the home is down)"), listed.err);
}

TEST_CASE("a list of all scopes has those of the home on a member, too, and says so when the home is away") {
  three_hosts w;
  REQUIRE(w.c.home.ctl(in_shared({"request-task", "fix", "mend it", "--as", register_shared(w.c.home, "name:ann")})).status == 0);
  REQUIRE(w.c.home.ctl(in_shared({"send", "--to", "operator", "--as", "ann", "look at it"})).status == 0);
  CHECK(has(w.b.ctl({"tasks", "--all-scopes"}).out, "mend it"));
  CHECK(has(w.b.ctl({"messages", "--mine", "--all-scopes"}).out, "look at it"));
  w.c.home.kill_node();
  REQUIRE(eventually([&] { return has(w.b.ctl({"status"}).out, "home a, down for"); }));
  for (const auto& args : {std::vector<std::string>{"tasks", "--all-scopes"}, {"messages", "--mine", "--all-scopes"}}) {
    auto listed = w.b.ctl(args);
    CHECK(listed.status == 0);
    CHECK_MESSAGE(has(listed.err, "the home a was not asked"), listed.err);
  }
}

TEST_CASE("what ended with its host says whether that was lost, was revoked or has left") {
  for (const std::string how : {"lost", "revoked", "left"}) {
    CAPTURE(how);
    cluster_of_nodes c{how == "lost" ? watchful : ""};
    test_node b;
    c.join(b, "b");
    register_shared(b, "name:bob");
    auto asked =
      c.home.ctl_json(in_shared({"dispatch", "doomed", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sleep", "600"}));
    auto row = [&] { return c.home.ctl_json(in_shared({"task", id_of(asked)})); };
    REQUIRE(eventually([&] { return row()["status"] == "in_progress"; }));
    if (how == "lost")
      b.kill_node();
    else
      REQUIRE((how == "revoked" ? c.home.ctl({"node", "revoke", "b"}) : b.ctl({"leave", "--force"})).status == 0);
    REQUIRE(eventually([&] { return row()["status"] == "failed"; }));
    const auto words = how == "left" ? "host b has left the cluster" : "host b was " + how;
    CHECK_MESSAGE(has(row().dump(), words), row().dump());
    CHECK(has(row().dump(), "host_lost"));
    std::string events;
    CHECK(eventually([&] {
      events = c.home.ctl(in_shared({"events", "--since", "0"})).out;
      return has(events, "has ended, " + words + ": name:bob") && has(events, "worker ended: " + words);
    }));
    CAPTURE(events);
    auto again = c.home.ctl(in_shared({"dispatch", "more", "--on", "b", "--directory", b.work(), "--harness", "exec", "--", "true"}));
    CHECK(again.status == 1);
    CHECK_MESSAGE(has(again.err, how == "lost"      ? "b: it is not linked just now"
                                 : how == "revoked" ? "b: its certificate has been revoked"
                                                    : "b: it has left the cluster"),
                  again.err);
  }
}

TEST_CASE("who revokes a host that is not linked is told that it does not hear of it") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  b.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "down"; }));
  auto revoked = c.home.ctl({"node", "revoke", "b"});
  CHECK(revoked.status == 0);
  CHECK_MESSAGE(has(revoked.err, "b is not linked (down for "), revoked.err);
  CHECK(has(revoked.err, "swarmctl leave --force"));
}

TEST_CASE("who revokes a host that is linked is told how to end what runs there") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  REQUIRE(b.ctl({"pty", "new", "--", "sleep", "600"}).status == 0);
  auto revoked = c.home.ctl({"node", "revoke", "b"});
  CHECK(revoked.status == 0);
  CHECK_MESSAGE(has(revoked.err, "Programs that run there go on until they end"), revoked.err);
  CHECK(has(revoked.err, "swarmctl leave --force"));
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(b, "a") == "revoked"; }));
  CHECK(has(b.ctl({"pty", "list", "--all"}).out, "sleep"));
}

TEST_CASE("who cancels a task whose worker is on a host that is not linked is told that the program goes on") {
  cluster_of_nodes c{patient};
  test_node b;
  c.join(b, "b");
  auto asked =
    c.home.ctl_json(in_shared({"dispatch", "far", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sleep", "600"}));
  REQUIRE(eventually([&] { return c.home.ctl_json(in_shared({"task", id_of(asked)}))["status"] == "in_progress"; }));
  b.kill_node();
  REQUIRE(eventually([&] { return cluster_of_nodes::link_seen_by(c.home, "b") == "down"; }));
  auto cancelled = c.home.ctl(in_shared({"cancel", id_of(asked)}));
  CHECK(cancelled.status == 0);
  CHECK_MESSAGE(has(cancelled.err, "its worker is on the host b, which is not linked (down for "), cancelled.err);
  CHECK(has(cancelled.err, "until it ends or the host is linked again"));
}

TEST_CASE("who cancels a task whose host has fallen silent is told that the program goes on, before the link is known to be down") {
  cluster_of_nodes c{std::string{patient} + "link_silence = 120000\n"};
  test_node b;
  c.join(b, "b");
  auto asked =
    c.home.ctl_json(in_shared({"dispatch", "far", "--on", "b", "--directory", b.work(), "--detach", "--harness", "exec", "--", "sleep", "600"}));
  REQUIRE(eventually([&] { return c.home.ctl_json(in_shared({"task", id_of(asked)}))["status"] == "in_progress"; }));
  REQUIRE(kill(b.node_pid(), SIGSTOP) == 0);
  REQUIRE(eventually([&] { return cluster_of_nodes::unheard_ms(c.home, "b") > 8'000; }));
  auto cancelled = c.home.ctl(in_shared({"cancel", id_of(asked)}));
  kill(b.node_pid(), SIGCONT);
  CHECK(cancelled.status == 0);
  CHECK_MESSAGE(has(cancelled.err, "its worker is on the host b, which has said nothing for "), cancelled.err);
}

TEST_CASE("a scope is neither shared nor unshared while the home is away, and the refusal does not wait for it") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  fs::create_directories(b.work() + "/.git");
  REQUIRE(b.ctl({"scope", "share", "--as", "game"}).status == 0);
  c.home.kill_node();
  for (const auto& line : {std::vector<std::string>{"scope", "unshare"}, {"scope", "share", "--as", "other"}, {"scope", "share", "--as", "game"}}) {
    auto refused = b.ctl(line);
    CHECK_MESSAGE(refused.status == 1, refused.err); // and not at the deadline
    CHECK_MESSAGE(has(refused.err, "a, has not been reached for "), refused.err);
  }
}

TEST_CASE("who follows a task is told once that the home is away, and that it is back") {
  cluster_of_nodes c{patient};
  test_node b;
  c.join(b, "b");
  const auto go = b.work() + "/go";
  auto follows = b.ctl_start(in_shared(
    {"dispatch", "patient", "--on", "b", "--harness", "exec", "--", "sh", "-c", "echo begun; while [ ! -e " + go + " ]; do sleep 0.05; done"}));
  REQUIRE(follows.read_until("begun"));
  c.home.kill_node();
  CHECK(follows.read_until("waiting: the home of this scope, a, has not been reached for "));
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK(follows.read_until("the home is back"));
  std::ofstream{go};
  auto end = follows.finish();
  CHECK_MESSAGE(end.status == 0, end.err);
  CHECK(end.err.find("waiting: ") == end.err.rfind("waiting: "));
}

TEST_CASE("who follows a task goes on when its stream is renewed while the home is away") {
  cluster_of_nodes c{patient};
  test_node b;
  configure(b, "server_wait_max = 7500\n");
  c.join(b, "b");
  const auto go = b.work() + "/go";
  auto follows = b.ctl_start(in_shared(
    {"dispatch", "patient", "--on", "b", "--harness", "exec", "--", "sh", "-c", "echo begun; while [ ! -e " + go + " ]; do sleep 0.05; done"}));
  REQUIRE(follows.read_until("begun"));
  c.home.kill_node();
  REQUIRE(follows.read_until("waiting: the home of this scope, a, has not been reached for "));
  REQUIRE(eventually([&] { return cluster_of_nodes::unheard_ms(b, "a") > 12'000; }));
  REQUIRE(c.home.ctl({"up"}).status == 0);
  CHECK_MESSAGE(follows.read_until("the home is back"), follows.so_far().err);
  std::ofstream{go};
  auto end = follows.finish();
  CHECK_MESSAGE(end.status == 0, end.err);
}

TEST_CASE("who follows events or tasks or output in a shared checkout is told that the home is away and that it is back") {
  cluster_of_nodes c{patient};
  test_node b;
  c.join(b, "b");
  fs::create_directories(b.work() + "/.git");
  REQUIRE(b.ctl({"scope", "share", "--as", "game"}).status == 0);
  const auto go = b.work() + "/go";
  std::map<std::string, child_process> follow;
  auto begin = [&](const std::string& name, const std::vector<std::string>& line, const std::string& first) {
    auto& started = follow.emplace(name, b.ctl_start(line)).first->second;
    REQUIRE_MESSAGE(started.read_until(first), started.so_far().err);
  };
  begin("dispatch", {"dispatch", "patient", "--harness", "exec", "--", "sh", "-c", "echo begun; while [ ! -e " + go + " ]; do sleep 0.05; done"},
        "begun");
  begin("events", {"events", "--follow", "--since", "0"}, "task.created");
  begin("tasks", {"tasks", "--watch"}, "patient");
  begin("logs", {"logs", "-f", b.ctl_json({"tasks"})[0]["id"].get<std::string>()}, "begun");
  c.home.kill_node();
  for (auto& [name, started] : follow)
    CHECK_MESSAGE(started.read_until("waiting: the home of this scope, a, has not been reached for "), name);
  REQUIRE(c.home.ctl({"up"}).status == 0);
  for (auto& [name, started] : follow)
    CHECK_MESSAGE(started.read_until("the home is back"), name);
  std::ofstream{go};
  CHECK(follow.at("dispatch").finish().status == 0);
  CHECK(follow.at("logs").finish().status == 0);
}

TEST_CASE("the result of an earlier run of the same line says on which host that was, if it was another one") {
  cluster_of_nodes c;
  test_node b;
  c.join(b, "b");
  const auto line = in_shared({"dispatch", "once", "--on", "b", "--directory", b.work(), "--harness", "exec", "--", "true"});
  REQUIRE(c.home.ctl(line).status == 0);
  auto again = c.home.ctl(line);
  CHECK(again.status == 0);
  CHECK_MESSAGE(has(again.err, "ago on b; this is its result"), again.err);
}
