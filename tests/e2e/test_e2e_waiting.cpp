// Waiting across processes: lines for locks, time limits, deadlocks, wake-ups.
#include <algorithm>
#include <csignal>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/node_client.hpp"

using namespace swarm::testing;

namespace {

/// Standing in line is no event; a session that asks for the lock is told how many wait.
bool stands_in_line(const test_node& node, std::uint32_t how_many, const std::string& file = "a") {
  node_client client{node};
  auto query = client.query();
  query.mutable_get_lock()->set_path(node.work() + "/" + file);
  return eventually([&] { return client.ask(query).lock().active().waiters() >= how_many; });
}

std::string holder_of(const test_node& node) {
  auto locks = node.ctl_json({"locks"});
  return locks.empty() ? std::string{} : locks[0].at("instance_id").get<std::string>();
}

} // namespace

TEST_CASE("a lock is handed on in the order in which processes came to the line") {
  test_node node;
  auto holder = node.session("name:holder");
  REQUIRE(node.ctl({"lock", "a", "--as", holder}).status == 0);
  constexpr std::size_t count = 4;
  std::vector<std::string> sessions;
  std::vector<child_process> waiters;
  for (std::size_t i = 0; i < count; ++i) {
    sessions.push_back(node.session("name:waiter-" + std::to_string(i)));
    waiters.push_back(node.ctl_start({"lock", "a", "--wait", "60", "--json", "--as", sessions[i]}));
    REQUIRE(stands_in_line(node, static_cast<std::uint32_t>(i + 1)));
  }
  std::uint64_t fence = 0;
  auto previous = holder;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(node.ctl({"unlock", "a", "--as", previous}).status == 0);
    auto granted = waiters[i].finish();
    REQUIRE_MESSAGE(granted.status == 0, granted.err);
    CHECK(holder_of(node) == sessions[i]);
    CHECK(granted.parsed().at("fence").get<std::uint64_t>() > fence);
    fence = granted.parsed().at("fence");
    previous = sessions[i];
  }
}

TEST_CASE("a lock with a time limit passes on when it is over, and its fence is no longer valid") {
  // Nothing expires in the first seconds of a node (limits::restart_grace()), so this takes as long as that.
  test_node node;
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  auto fence = node.ctl_json({"lock", "a", "--ttl", "1.5", "--as", one}).at("fence").get<std::uint64_t>();
  REQUIRE(node.ctl({"lock", "nobody-waits", "--ttl", "1.5", "--as", one}).status == 0);
  CHECK(node.ctl({"lock", "verify", "a", "--fence", std::to_string(fence)}).status == 0);
  auto got = node.ctl({"lock", "a", "--wait", "30", "--json", "--as", two});
  REQUIRE_MESSAGE(got.status == 0, got.err);
  CHECK(got.parsed().at("fence").get<std::uint64_t>() > fence);
  auto stale = node.ctl({"lock", "verify", "a", "--fence", std::to_string(fence), "--json"});
  CHECK(stale.status == 1);
  CHECK(stale.parsed().at("ok") == false);
  CHECK(stale.parsed().at("current_fence") == got.parsed().at("fence"));
  CHECK(eventually([&] { return node.ctl_json({"locks"}).size() == 1; }));
  CHECK(holder_of(node) == two);
  node.ctl({"unlock", "a", "--fence", std::to_string(fence), "--as", one});
  CHECK(holder_of(node) == two);
}

TEST_CASE("waiting that would close a circle is refused at once") {
  test_node node;
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  REQUIRE(node.ctl({"lock", "a", "--as", one}).status == 0);
  REQUIRE(node.ctl({"lock", "b", "--as", two}).status == 0);
  auto waiter = node.ctl_start({"lock", "b", "--wait", "60", "--as", one});
  REQUIRE(stands_in_line(node, 1, "b"));
  auto refused = node.ctl({"lock", "a", "--wait", "60", "--as", two}, {.deadline = std::chrono::seconds{10}});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("Waiting would never end") != std::string::npos, refused.err);
  REQUIRE(node.ctl({"unlock", "b", "--as", two}).status == 0);
  CHECK(waiter.finish().status == 0);
}

TEST_CASE("Ctrl-C leaves the line, so that the next one gets the lock") {
  test_node node;
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  auto three = node.session("name:three");
  REQUIRE(node.ctl({"lock", "a", "--as", one}).status == 0);
  auto gives_up = node.ctl_start({"lock", "a", "--wait", "60", "--as", two});
  REQUIRE(stands_in_line(node, 1));
  auto stays = node.ctl_start({"lock", "a", "--wait", "60", "--as", three});
  REQUIRE(stands_in_line(node, 2));
  gives_up.signal(SIGINT);
  CHECK(gives_up.finish().status == 128 + SIGINT);
  REQUIRE(node.ctl({"unlock", "a", "--as", one}).status == 0);
  CHECK(stays.finish().status == 0);
  CHECK(holder_of(node) == three);
}

TEST_CASE("the line survives kill -9 of the node, and its processes get their locks") {
  test_node node;
  node.start();
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  auto three = node.session("name:three");
  REQUIRE(node.ctl({"lock", "a", "--as", one}).status == 0);
  auto first = node.ctl_start({"lock", "a", "--wait", "60", "--as", two});
  REQUIRE(stands_in_line(node, 1));
  auto second = node.ctl_start({"lock", "a", "--wait", "60", "--as", three});
  REQUIRE(stands_in_line(node, 2));
  node.kill_node();
  node.start();
  CHECK(holder_of(node) == one);
  REQUIRE(node.ctl({"unlock", "a", "--as", one}).status == 0);
  CHECK(first.finish().status == 0);
  CHECK(holder_of(node) == two);
  REQUIRE(node.ctl({"unlock", "a", "--as", two}).status == 0);
  CHECK(second.finish().status == 0);
  CHECK(holder_of(node) == three);
}

TEST_CASE("a wait for a lock outlasts down --keep-programs, and down ends it and says until when the place stays") {
  test_node node;
  node.start();
  auto one = node.session("name:one");
  auto two = node.session("name:two");
  REQUIRE(node.ctl({"lock", "a", "--as", one}).status == 0);
  auto waits = node.ctl_start({"lock", "a", "--wait", "60", "--as", two});
  REQUIRE(stands_in_line(node, 1));
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  REQUIRE(node.ctl({"unlock", "a", "--as", one}).status == 0);
  auto got = waits.finish();
  CHECK_MESSAGE(got.status == 0, got.err);
  auto ends = node.ctl_start({"lock", "a", "--wait", "60", "--as", one});
  REQUIRE(stands_in_line(node, 1));
  REQUIRE(node.ctl({"down"}).status == 0);
  auto said = ends.finish();
  CHECK(said.status == 3);
  CHECK_MESSAGE(said.err.find("the place in line goes 15.0 s after the node's next start") != std::string::npos, said.err);
}

TEST_CASE("a key with a time limit is gone when it is over") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "short", "v", "--ttl", "0.7"}).status == 0);
  REQUIRE(node.ctl({"kv", "set", "long", "v", "--ttl", "600"}).status == 0);
  CHECK(node.ctl_json({"kv", "get", "long"}).contains("expires_at"));
  CHECK(eventually([&] { return node.ctl({"kv", "get", "short"}).status == 1; }, std::chrono::seconds{10}));
  CHECK(node.ctl({"kv", "get", "long"}).status == 0);
  // The first session that writes a key takes it.
  CHECK(node.ctl({"kv", "set", "leader", "me", "--if-revision", "0"}).status == 0);
  CHECK(node.ctl({"kv", "set", "leader", "you", "--if-revision", "0"}).status == 1);
}

TEST_CASE("wait is woken by a message, a task, a key and a lock") {
  test_node node;
  auto me = node.session("name:me");
  auto other = node.session("name:other");
  struct wake {
    std::vector<std::string> cause;
    std::string change;
  };
  const std::vector<wake> wakes{
    {{"send", "--to", me, "--as", other, "hello"}, "new_messages"},
    {{"request-task", "fix", "something"}, "task_updates"},
    {{"kv", "set", "news", "1"}, "kv_updates"},
    {{"lock", "a", "--as", other}, "lock_updates"},
  };
  for (const auto& w : wakes) {
    // Everything so far is known; a message that came along with a task is taken first.
    node.ctl({"wait", "--seconds", "0.05", "--locks", "--as", me});
    auto since = std::to_string(json::parse(lines_of(node.ctl({"events", "--json", "--limit", "1"}).out).at(0)).at("revision").get<std::uint64_t>());
    auto waiting = node.ctl_start({"wait", "--seconds", "60", "--locks", "--json", "--since", since, "--as", me});
    auto cause = node.ctl(w.cause);
    REQUIRE_MESSAGE(cause.status == 0, cause.err);
    auto woken = waiting.finish(std::chrono::seconds{10});
    CAPTURE(woken.out);
    REQUIRE(woken.status == 0);
    auto changes = woken.parsed().at("changes");
    CHECK_MESSAGE(std::find(changes.begin(), changes.end(), json(w.change)) != changes.end(), w.change);
  }
}

TEST_CASE("a wait that is already standing is woken within a second") {
  test_node node;
  auto me = node.session("name:me");
  auto waiting = node.ctl_start({"wait", "--seconds", "60", "--json", "--as", me});
  REQUIRE(eventually([&] {
    auto graph = node.ctl_json({"status"});
    return graph.at("calls_in_flight").get<int>() >= 2; // the status call itself, and the one that waits
  }));
  auto began = std::chrono::steady_clock::now();
  REQUIRE(node.ctl({"send", "--to", me, "now"}).status == 0);
  auto woken = waiting.finish();
  CHECK(woken.status == 0);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{3});
  CHECK(woken.parsed().at("messages")[0].at("content") == "now");
}
