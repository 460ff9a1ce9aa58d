// What `swarmctl mcp` has beyond swarm-mcp: further tools, and the name under which it stands in for swarm-mcp.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

namespace {

struct member : mcp_client {
  explicit member(const test_node& node, const std::string& label = "identity:work") : mcp_client(node) {
    initialize();
    enroll(label);
  }
};

/// The hooks of an agent whose program is this test, and those of an agent that it did not start.
struct hooks {
  const test_node& node;
  std::string session;
  bool strange = false;
  std::vector<std::string> flags = {};

  run_result send(const std::string& event, json input = json::object()) const {
    input["session_id"] = session;
    input["cwd"] = node.work();
    std::vector<std::string> arguments{"hook", "claude", event};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    if (!strange)
      return node.ctl(arguments, {.input = input.dump()});
    arguments.insert(arguments.begin(), {"/usr/bin/timeout", "60", program("swarmctl").string()});
    return child_process{arguments, node.env(), node.work(), input.dump()}.finish();
  }
  /// Starts the session; its id.
  std::string start() const {
    auto said = send("session-start", {{"source", "startup"}}).out;
    auto at = said.find("Instance `");
    REQUIRE_MESSAGE(at != said.npos, said);
    return said.substr(at + 10, 36);
  }
  bool may_write(const std::string& file) const {
    json tool{{"tool_name", "Write"}, {"tool_use_id", "t"}, {"tool_input", {{"file_path", node.work() + "/" + file}}}};
    auto allowed = send("pre-tool-use", tool).out.find("\"deny\"") == std::string::npos;
    send("post-tool-use", tool);
    return allowed;
  }
};

std::vector<std::string> instances(const test_node& node) {
  std::vector<std::string> out;
  for (const auto& row : node.ctl_json({"instances"}))
    out.push_back(row.at("id"));
  return out;
}

} // namespace

TEST_CASE("lock_acquire gives a fence, and lock_verify tells whether it still holds") {
  test_node node;
  member me{node};
  auto got = me.ask("lock_acquire", {{"file", "a.c"}, {"reason", "refactor"}, {"ttl_seconds", 3600}});
  CHECK(got.at("ok") == true);
  CHECK(got.at("file") == node.work() + "/a.c");
  CHECK(got.at("expires_at").get<std::int64_t>() > 0);
  auto fence = got.at("fence").get<std::int64_t>();
  CHECK(me.ask("lock_verify", {{"file", "a.c"}, {"fence", fence}}).at("ok") == true);
  auto newer = me.ask("lock_acquire", {{"file", "a.c"}}).at("fence").get<std::int64_t>();
  CHECK(newer > fence);
  auto old = me.ask("lock_verify", {{"file", "a.c"}, {"fence", fence}});
  CHECK(old.at("ok") == false);
  CHECK(old.at("current_fence") == newer);
  me.text("unlock_file", {{"file", "a.c"}});
  CHECK(me.ask("lock_verify", {{"file", "a.c"}, {"fence", newer}}).at("ok") == false);
}

TEST_CASE("lock_acquire waits in line for the lock, beside later calls") {
  test_node node;
  member holder{node};
  member next{node};
  holder.ask("lock_acquire", {{"file", "a.c"}});
  CHECK(next.ask("lock_acquire", {{"file", "a.c"}}).at("error") == "File is already locked");
  auto waiting = next.call_later("lock_acquire", {{"file", "a.c"}, {"wait_seconds", 60}});
  CHECK(next.ask("whoami").at("id") == next.id());
  REQUIRE(eventually([&] { return node.ctl({"locks", "--json"}).out.find("\"waiters\": 1") != std::string::npos; }));
  CHECK_FALSE(next.is_answered(waiting));
  holder.text("unlock_file", {{"file", "a.c"}});
  CHECK(next.reply_to(waiting).value().at("ok") == true);
  CHECK(holder.ask("get_file_lock", {{"file", "a.c"}}).at("active").at("instance_id") == next.id());
}

TEST_CASE("who gives up waiting for a lock, at the time given or by a cancellation, leaves the line") {
  test_node node;
  member holder{node};
  member next{node};
  holder.ask("lock_acquire", {{"file", "a.c"}});
  auto nobody_waits = [&] { return node.ctl({"locks", "--json"}).out.find("waiters") == std::string::npos; };
  auto late = next.call("lock_acquire", {{"file", "a.c"}, {"wait_seconds", 0.3}});
  CHECK_MESSAGE(late.value().contains("error"), late.text());
  CHECK(nobody_waits());
  auto waiting = next.call_later("lock_acquire", {{"file", "a.c"}, {"wait_seconds", 60}});
  REQUIRE(eventually([&] { return !nobody_waits(); }));
  next.notify("notifications/cancelled", {{"requestId", waiting}});
  CHECK(eventually(nobody_waits));
  holder.text("unlock_file", {{"file", "a.c"}});
  CHECK(next.ask("get_file_lock", {{"file", "a.c"}}).at("active").is_null());
  CHECK_FALSE(next.is_answered(waiting));
}

TEST_CASE("a worker whose tool server is killed in line for a lock stands there no more, while the worker goes on") {
  test_node node;
  auto holder = node.session(), next = node.session();
  REQUIRE(node.ctl({"lock", "a.c", "--as", holder}).status == 0);
  auto script =
    "mkfifo in; " + program("swarmctl").string() +
    " mcp < in > out & echo $! > pid; exec 3> in; "
    R"(echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lock_acquire","arguments":{"file":"a.c","wait_seconds":600}}}' >&3; )"
    "while [ ! -e over ]; do sleep 0.02; done";
  REQUIRE(node.ctl({"dispatch", "wait", "--harness", "exec", "--detach", "--", "sh", "-c", script}).status == 0);
  auto waiters = [&] { return node.ctl_json({"locks"})[0].value("waiters", 0); };
  REQUIRE(eventually([&] { return waiters() == 1; }));
  kill(std::stoi(file_text(node.work() + "/pid")), SIGKILL);
  CHECK(eventually([&] { return waiters() == 0; }));
  CHECK(instances(node).size() == 3);
  REQUIRE(node.ctl({"unlock", "a.c", "--as", holder}).status == 0);
  CHECK(node.ctl_json({"locks"}).empty());
  CHECK(node.ctl({"lock", "a.c", "--as", next}).status == 0);
  std::ofstream{node.work() + "/over"};
}

TEST_CASE("a routine that is followed says how far it has come, and ends with its cancellation") {
  test_node node;
  fs::create_directories(node.dir().root / "routines");
  std::ofstream{node.dir().root / "routines" / "chain.toml"}
    << "name = \"chain\"\nsummary = \"a, b\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = [\"a\"]\n";
  member gateway{node, "identity:work mode:gateway"};
  member worker{node, "identity:work role:implementer"};
  auto id = gateway.request(
    "tools/call",
    {{"name", "routine_run"}, {"arguments", {{"name", "chain"}, {"completion_wait_seconds", 600}}}, {"_meta", {{"progressToken", "run"}}}});
  REQUIRE(eventually([&] { return worker.text("poll_messages") != "[]"; }));
  auto task = worker.ask("claim_next_task").at("task").at("id");
  double last = 0;
  gateway.await([&](const json& m) {
    if (m.value("method", "") != "notifications/progress")
      return false;
    const auto& told = m.at("params");
    CHECK(told.at("progressToken") == "run");
    CHECK(told.at("progress").get<double>() > last);
    last = told.at("progress");
    return told.at("message").get<std::string>().find("1 in_progress") != std::string::npos;
  });
  gateway.notify("notifications/cancelled", {{"requestId", id}});
  gateway.ask("whoami");
  auto from = gateway.received().size();
  worker.ask("complete_task", {{"task_id", task}, {"summary", "did A"}});
  gateway.ask("whoami");
  gateway.close_input();
  CHECK(gateway.finish() == 0);
  for (auto i = from; i < gateway.received().size(); ++i)
    CHECK(gateway.received()[i].value("method", "") != "notifications/progress");
  CHECK_FALSE(gateway.is_answered(id));
}

TEST_CASE("kv_set_ttl writes a key that goes by itself") {
  test_node node;
  member me{node};
  auto written = me.ask("kv_set_ttl", {{"key", "busy"}, {"value", "yes"}, {"ttl_seconds", 1}});
  CHECK(written.at("expires_at").get<std::int64_t>() > 0);
  CHECK(eventually([&] { return me.text("kv_get", {{"key", "busy"}}) == "Key \"busy\" not found"; }));
  CHECK(me.call("kv_set_ttl", {{"key", "busy"}, {"value", "yes"}, {"ttl_seconds", 0}}).is_error);
}

TEST_CASE("events_since goes on where it was, and shows only the types asked for") {
  test_node node;
  member me{node};
  for (const auto* key : {"a", "b", "c"})
    me.text("kv_set", {{"key", key}, {"value", "1"}});
  auto first = me.ask("events_since", {{"types", {"kv."}}, {"limit", 2}});
  REQUIRE(first.at("events").size() == 2);
  CHECK(first.at("events")[0].at("subject") == "a");
  CHECK(first.at("events")[0].at("actor") == me.id());
  CHECK(first.at("more") == true);
  auto rest = me.ask("events_since", {{"types", {"kv."}}, {"revision", first.at("next")}});
  REQUIRE(rest.at("events").size() == 1);
  CHECK(rest.at("events")[0].at("subject") == "c");
  CHECK(rest.at("more") == false);
  auto none = me.ask("events_since", {{"revision", rest.at("next")}});
  CHECK(none.at("events").empty());
  CHECK(me.ask("events_since").at("events")[0].at("type") == "instance.registered");
}

TEST_CASE("request_spawn starts one worker for a key, for who may spawn") {
  test_node node;
  member gateway{node, "identity:work mode:gateway"};
  json wanted = {{"role", "helper"}, {"idempotency_key", "k"}, {"harness", "exec"}, {"argv", {"sleep", "1000"}}};
  auto asked = gateway.ask("request_spawn", wanted);
  CHECK(asked.at("existing") == false);
  auto again = gateway.ask("request_spawn", wanted);
  CHECK(again.at("existing") == true);
  CHECK(again.at("spawn_id") == asked.at("spawn_id"));
  CHECK(eventually([&] { return gateway.ask("request_spawn", wanted).at("status") == "running"; }));
  member worker{node};
  CHECK(worker.ask("request_spawn", wanted).contains("error"));
  wanted["argv"] = {"./none"};
  wanted["idempotency_key"] = "other";
  CHECK(gateway.ask("request_spawn", wanted).at("error").get<std::string>().find("There is no program ./none") == 0);
}

TEST_CASE("under the name swarm-mcp it is the server, and with a verb the command line") {
  test_node node;
  auto name = node.work() + "/swarm-mcp";
  std::filesystem::create_symlink(program("swarmctl"), name);
  auto hello = json{{"jsonrpc", "2.0"}, {"id", 1}, {"method", "initialize"}, {"params", {{"protocolVersion", "2025-06-18"}}}}.dump() + "\n";
  for (const auto& arguments : {std::vector<std::string>{name}, std::vector<std::string>{name, "serve"}}) {
    child_process server{arguments, node.env(), node.work(), hello};
    auto said = server.finish();
    CHECK(said.status == 0);
    CHECK_MESSAGE(said.out.find("\"protocolVersion\":\"2025-06-18\"") != std::string::npos, said.out);
  }
  child_process tasks{{name, "tasks", "--json"}, node.env(), node.work()};
  CHECK(json::parse(tasks.finish().out) == json::array());
  auto status_of = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), name);
    return child_process{arguments, node.env(), node.work()}.finish().status;
  };
  CHECK(status_of({"frobnicate"}) == 1);
  CHECK(status_of({"locks", "--frobnicate"}) == 1);
  CHECK(status_of({"kv", "get", "none"}) == 1);
  CHECK(status_of({"kv", "get", "none", "--json"}) == 0);
  CHECK(status_of({"dispatch", "it fails", "--harness", "exec", "--", "/bin/sh", "-c", "exit 3"}) == 0);
}

TEST_CASE("what was asked right before the end of input is answered") {
  test_node node;
  std::string lines;
  auto request = [&](int id, const std::string& tool, const json& arguments) {
    lines += json{{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", {{"name", tool}, {"arguments", arguments}}}}.dump() + "\n";
  };
  request(1, "register", {{"directory", node.work()}});
  request(2, "kv_set", {{"key", "k"}, {"value", "v"}});
  request(3, "wait_for_activity", json::object());
  child_process server{{program("swarmctl").string(), "mcp"}, node.env(), node.work(), lines};
  auto said = server.finish();
  CHECK(said.status == 0);
  CHECK_MESSAGE(said.out.find("Set \\\"k\\\"") != std::string::npos, said.out);
  CHECK(said.err.empty());
  CHECK(node.ctl_json({"kv", "get", "k"}).at("value") == "v");
  CHECK(node.ctl_json({"instances"}).empty());
}

TEST_CASE("terminals are for sessions with the right to them: listed, read, typed into and waited for") {
  test_node node;
  auto id = node.ctl_json({"pty", "new", "--", "sh", "-c", "echo ready; while read -r line; do echo got-$line; done"}).at("id").get<std::string>();
  member stranger{node};
  const auto offered = stranger.result("tools/list");
  for (const auto& t : offered.at("tools"))
    CHECK(t.at("name").get<std::string>().rfind("pty_", 0) != 0);
  CHECK(stranger.call("pty_list").text() == "MCP error -32602: Tool pty_list not found");
  auto allowed =
    node.ctl_json({"register", "--label", "identity:work session:abc", "--lease-seconds", "60", "--grant", "pty"}).at("id").get<std::string>();
  mcp_client me{node};
  me.initialize();
  me.enroll("identity:work session:abc", {{"adopt_instance_id", allowed}});
  me.await_notification("notifications/tools/list_changed", nullptr);
  auto rows = me.ask("pty_list");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("id") == id);
  CHECK(rows[0].at("running") == true);
  REQUIRE(eventually([&] { return me.ask("pty_read", {{"pty", id}}).at("data").get<std::string>().find("ready") != std::string::npos; }));
  auto waiting = me.call_later("pty_wait", {{"pty", id}, {"text", "got-hello"}});
  CHECK(me.ask("pty_send", {{"pty", id}, {"text", "hello"}, {"enter", true}}).at("accepted") == 6);
  auto seen = me.reply_to(waiting).value();
  CHECK(seen.at("matched") == true);
  CHECK(seen.at("data").get<std::string>().find("got-hello") != std::string::npos);
  auto again = me.ask("pty_read", {{"pty", id}, {"from", 0}, {"bytes", 5}});
  CHECK(again.at("data") == "ready");
  CHECK(again.at("next") == 5);
  auto late = me.ask("pty_wait", {{"pty", id}, {"text", "never"}, {"timeout_seconds", 1}});
  CHECK(late.at("matched") == false);
  CHECK(late.at("timeout") == true);
  auto to_the_end = me.call_later("pty_wait", {{"pty", id}, {"text", "never"}});
  REQUIRE(node.ctl({"pty", "kill", id}).status == 0);
  CHECK(me.reply_to(to_the_end).value().at("ended") == true);
  CHECK(me.call("pty_read", {{"pty", "none"}}).value().contains("error"));
}

TEST_CASE("a session that another one has removed can register again, also when the node has forgotten its token") {
  test_node node;
  member me{node};
  member other{node};
  other.text("remove_instance", {{"instance_id", me.id()}});
  // The node knows a token for some seconds after its session has gone.
  REQUIRE(eventually([&] { return node.ctl({"instances", "--json"}).out.find(me.id()) == std::string::npos; }));
  auto before = me.id();
  REQUIRE(eventually([&] { return me.text("kv_list") == "Not registered. Call register first."; }));
  CHECK(me.enroll("identity:work").at("id") != before);
  CHECK(me.ask("whoami").at("id") == me.id());
}

TEST_CASE("taking over another session ends the one before") {
  test_node node;
  member me{node};
  auto before = me.id();
  auto leased = node.ctl_json({"register", "--label", "identity:work session:abc", "--lease-seconds", "60"}).at("id").get<std::string>();
  me.ask("lock_file", {{"file", "kept"}});
  me.enroll("identity:work session:abc", {{"adopt_instance_id", leased}});
  CHECK(me.id() == leased);
  auto ids = node.ctl({"instances", "--json"}).out;
  CHECK(ids.find(before) == std::string::npos);
  CHECK(me.ask("get_file_lock", {{"file", "kept"}}).at("active").is_null());
}

// -- hooks and the tool server of one agent --------------------------------------------------

TEST_CASE("an agent that registers takes over the session that its own hook has registered, no matter who else is there") {
  test_node node;
  mcp_client server{node};
  server.initialize();
  REQUIRE(server.text("whoami").starts_with("Not registered"));
  hooks mine{node, "mine"}, others{node, "others", true};
  auto id = mine.start(), other = others.start();
  SUBCASE("by asking for it") { CHECK(server.ask("register", {{"directory", node.work()}, {"label", "role:tester"}}).at("id") == id); }
  SUBCASE("from another directory of the scope") {
    fs::create_directories(node.work() + "/sub");
    CHECK(server.ask("register", {{"directory", node.work() + "/sub"}, {"scope", node.work()}}).at("id") == id);
  }
  SUBCASE("by using it") { CHECK(server.ask("whoami").at("id") == id); }
  CHECK(server.ask("lock_file", {{"file", node.work() + "/a.c"}}).at("ok") == true);
  CHECK(mine.may_write("a.c"));
  CHECK_FALSE(others.may_write("a.c"));
  CHECK(instances(node) == std::vector{id, other});
}

TEST_CASE("a hook of an agent that has registered already is of that session, which its tool server ends") {
  test_node node;
  hooks mine{node, "mine"}, others{node, "others", true};
  mcp_client server{node};
  server.initialize();
  auto id = server.enroll("role:tester").at("id").get<std::string>();
  CHECK(mine.start() == id);
  auto other = others.start();
  CHECK(other != id);
  CHECK(server.ask("lock_file", {{"file", "a.c"}}).at("ok") == true);
  CHECK(mine.may_write("a.c"));
  CHECK_FALSE(others.may_write("a.c"));
  // Again, and after the agent has forgotten everything: it is still that one.
  CHECK(mine.start() == id);
  mine.send("session-end");
  hooks next{node, "next"};
  CHECK(next.send("session-start", {{"source", "clear"}}).out.empty());
  CHECK(next.may_write("a.c"));
  CHECK(instances(node) == std::vector{id, other});
}

TEST_CASE("a hook finds out that its agent has registered again") {
  test_node node;
  hooks mine{node, "mine"}, others{node, "others", true};
  auto id = mine.start();
  others.start();
  mcp_client server{node};
  server.initialize();
  REQUIRE(server.ask("whoami").at("id") == id);
  server.text("deregister");
  auto renewed = server.ask("register", {{"directory", node.work()}}).at("id").get<std::string>();
  REQUIRE(renewed != id);
  CHECK(server.ask("lock_file", {{"file", "a.c"}}).at("ok") == true);
  SUBCASE("when it meets a lock") {}
  SUBCASE("when a turn begins") { mine.send("prompt-submit"); }
  SUBCASE("when it is to take a lock itself") {
    mine.flags = {"--enforce", "--fail-closed"};
    CHECK(mine.may_write("b.c"));
    // Given back after the tool.
    CHECK(node.ctl_json({"locks"}).size() == 1);
  }
  CHECK(mine.may_write("a.c"));
  CHECK_FALSE(others.may_write("a.c"));
  CHECK(instances(node).size() == 2);
}

TEST_CASE("of an agent with several sessions none is taken for another") {
  test_node node;
  hooks one{node, "one"}, two{node, "two"};
  auto first = one.start(), second = two.start();
  REQUIRE(first != second);
  mcp_client server{node};
  server.initialize();
  auto third = server.ask("register", {{"directory", node.work()}}).at("id").get<std::string>();
  CHECK(third != first);
  CHECK(third != second);
  CHECK(server.ask("lock_file", {{"file", "a.c"}}).at("ok") == true);
  CHECK_FALSE(one.may_write("a.c"));
  CHECK_FALSE(two.may_write("a.c"));
  CHECK(instances(node).size() == 3);
}
