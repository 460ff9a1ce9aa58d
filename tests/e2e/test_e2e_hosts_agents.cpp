// Agents on a host that is not the home of what they share: their tool servers and hooks are as good as there.
#include <algorithm>
#include <csignal>

#include "tests/support/cluster_of_nodes.hpp"
#include "tests/support/mcp_client.hpp"

using namespace swarm::testing;

namespace {

const environment in_scope{{"SWARM_MCP_SCOPE", "shared"}};

/// A checkout of the same repository on each of two hosts, both in the scope that the tests share.
struct two_checkouts {
  cluster_of_nodes c;
  test_node b;
  temp_dir trees;
  std::string here = trees.text() + "/here", there = trees.text() + "/there";
  std::string ann;

  two_checkouts() {
    c.join(b, "b");
    for (const auto& root : {here, there}) {
      fs::create_directories(root + "/.git");
      fs::create_directories(root + "/src");
      std::ofstream{root + "/.git/config"} << "[remote \"origin\"]\n\turl = https://host.example/me/game\n";
    }
    ann = c.home.ctl_json(in_shared({"register", "--label", "name:ann", "--lease-seconds", "600"}), at_home())["id"];
  }
  run_options at_home() const { return {.directory = here}; }
  run_result home(std::vector<std::string> arguments) const { return c.home.ctl(in_shared(std::move(arguments)), at_home()); }
  json home_json(std::vector<std::string> arguments) const { return c.home.ctl_json(in_shared(std::move(arguments)), at_home()); }

  bool is_listed(const std::string& id) const {
    const auto rows = home_json({"instances"});
    return std::any_of(rows.begin(), rows.end(), [&](const json& row) { return row["id"] == id; });
  }
  /// Who holds the file, which is named as the home has it; empty: nobody.
  std::string holder_of(const std::string& file) const {
    const auto rows = home_json({"locks"});
    for (const auto& row : rows)
      if (row["file"] == here + "/" + file)
        return row["instance_id"];
    return {};
  }
};

/// An agent's tool server in the checkout of b.
struct agent_of_b : mcp_client {
  explicit agent_of_b(const two_checkouts& w) : mcp_client(w.b, {.env = in_scope, .directory = w.there}) { initialize(); }
};

/// What the hook of an agent in the checkout of b says before the event; empty: nothing.
std::string hook_of_b(const two_checkouts& w, const std::string& session, const std::string& event, json input) {
  input["session_id"] = session;
  input["cwd"] = w.there;
  auto said = w.b.ctl({"hook", "claude", event}, {.input = input.dump(), .env = in_scope, .directory = w.there});
  CHECK(said.status == 0);
  CHECK(said.err.empty());
  return said.out;
}
std::string denial_of_b(const two_checkouts& w, const std::string& session, const std::string& file) {
  auto said = hook_of_b(w, session, "pre-tool-use", {{"tool_name", "Write"}, {"tool_input", {{"file_path", file}}}, {"tool_use_id", "t1"}});
  if (said.empty())
    return {};
  const auto output = json::parse(said).at("hookSpecificOutput");
  CHECK(output.at("permissionDecision") == "deny");
  return output.at("permissionDecisionReason");
}

} // namespace

TEST_CASE("an agent's tool server on a member shares sessions, locks, messages and waits with the home") {
  two_checkouts w;
  agent_of_b bob{w};
  auto me = bob.enroll("name:bob", {{"scope", "shared"}});
  CHECK(me.at("scope") == "shared");
  CHECK(me.at("root") == w.there);
  CHECK(w.is_listed(bob.id()));
  // A file is one file in both checkouts, and each sees its own path.
  REQUIRE(bob.ask("lock_file", {{"file", "src/x.c"}}).at("ok") == true);
  CHECK(w.holder_of("src/x.c") == bob.id());
  CHECK(w.home({"lock", "src/x.c", "--as", w.ann}).status == 1);
  REQUIRE(w.home({"lock", "src/y.c", "--as", w.ann}).status == 0);
  auto refused = bob.ask("lock_file", {{"file", "src/y.c"}});
  CHECK(refused.at("active").at("instance_id") == w.ann);
  CHECK(refused.at("active").at("file") == w.there + "/src/y.c");
  // A message, both ways, and the wait for it.
  auto wait = bob.call_later("wait_for_activity", {{"timeout_seconds", 60}});
  bob.ask("whoami"); // so the wait has begun
  CHECK(!bob.is_answered(wait));
  REQUIRE(w.home({"send", "--as", w.ann, "--to", bob.id(), "look at x.c"}).status == 0);
  const auto woken = bob.reply_to(wait).value();
  CHECK(woken.at("changes") == json{"new_messages"});
  CHECK(woken.at("messages")[0].at("content") == "look at x.c");
  CHECK(woken.at("messages")[0].at("sender") == w.ann);
  REQUIRE(bob.text("send_message", {{"recipient", w.ann}, {"content", "done"}}) == "Message sent to " + w.ann);
  CHECK(w.home({"wait", "--seconds", "60", "--as", w.ann}).out.find("done") != std::string::npos);
  // A task of the home's is worked on there.
  auto task = w.home_json({"request-task", "fix", "mend it", "--as", w.ann})["id"].get<std::string>();
  REQUIRE(bob.ask("claim_task", {{"task_id", task}}).contains("ok"));
  CHECK(w.home_json({"task", task})["assignee"] == bob.id());
}

TEST_CASE("a tool server on a member that ends, or is killed, takes its session, locks and claims with it at the home") {
  two_checkouts w;
  for (auto killed : {false, true}) {
    CAPTURE(killed);
    agent_of_b bob{w};
    bob.enroll("name:bob", {{"scope", "shared"}});
    REQUIRE(bob.ask("lock_file", {{"file", "src/x.c"}}).at("ok") == true);
    auto task = w.home_json({"request-task", "fix", "mend it", "--as", w.ann})["id"].get<std::string>();
    REQUIRE(bob.ask("claim_task", {{"task_id", task}}).contains("ok"));
    bob.call_later("wait_for_activity", {{"timeout_seconds", 60}});
    bob.ask("whoami");
    REQUIRE(w.holder_of("src/x.c") == bob.id());
    auto next = w.c.home.ctl_start(in_shared({"lock", "src/x.c", "--as", w.ann, "--wait", "60"}), w.at_home());
    killed ? bob.signal(SIGKILL) : bob.close_input();
    CHECK(bob.finish() == (killed ? 128 + SIGKILL : 0));
    if (killed)
      CHECK(eventually([&] { return !w.is_listed(bob.id()); }));
    else
      CHECK_FALSE(w.is_listed(bob.id())); // it has left before it ended
    CHECK(next.finish().status == 0);
    CHECK(w.holder_of("src/x.c") == w.ann);
    CHECK(w.home_json({"task", task})["status"] == "open");
    REQUIRE(w.home({"unlock", "src/x.c", "--as", w.ann}).status == 0);
  }
}

TEST_CASE("the hook of an agent on a member denies a write to what a session of the home has locked, and is of the tool server's session") {
  two_checkouts w;
  auto greeting = hook_of_b(w, "of-bob", "session-start", {{"source", "startup"}});
  agent_of_b bob{w};
  const std::string id = bob.ask("whoami").at("id");
  CHECK(greeting.find("Instance `" + id + "`") != std::string::npos);
  CHECK(w.is_listed(id));
  REQUIRE(w.home({"lock", "src/y.c", "--as", w.ann, "--note", "tidying up"}).status == 0);
  CHECK(denial_of_b(w, "of-bob", w.there + "/src/y.c") == "swarm lock blocked Write for " + w.there + "/src/y.c: held by name:ann (tidying up)");
  CHECK(denial_of_b(w, "of-bob", "src/y.c").find("held by name:ann") != std::string::npos);
  CHECK(denial_of_b(w, "of-bob", w.there + "/src/z.c").empty());
  // Its own, and again what was let go.
  REQUIRE(bob.ask("lock_file", {{"file", "src/x.c"}}).at("ok") == true);
  CHECK(denial_of_b(w, "of-bob", w.there + "/src/x.c").empty());
  REQUIRE(w.home({"unlock", "src/y.c", "--as", w.ann}).status == 0);
  CHECK(denial_of_b(w, "of-bob", w.there + "/src/y.c").empty());
  CHECK(hook_of_b(w, "of-bob", "session-end", {{"reason", "exit"}}).empty());
  bob.close_input();
  CHECK(bob.finish() == 0);
  CHECK_FALSE(w.is_listed(id));
  CHECK(w.holder_of("src/x.c").empty());
}

TEST_CASE("an agent on a member whose environment names the shared scope is there when it registers, as the session of its hook if it has one") {
  two_checkouts w;
  {
    agent_of_b bob{w};
    CHECK(bob.enroll("name:bob").at("scope") == "shared");
    CHECK(w.is_listed(bob.id()));
  }
  auto greeting = hook_of_b(w, "of-eve", "session-start", {{"source", "startup"}});
  agent_of_b eve{w};
  CHECK(eve.enroll("name:eve").at("scope") == "shared");
  CHECK(greeting.find("Instance `" + eve.id() + "`") != std::string::npos);
}

TEST_CASE("a command and a hook of an agent on a member are refused at once while the home is away and say so") {
  two_checkouts w;
  const auto dir = w.b.work();
  const auto ctl = program("swarmctl").string();
  // What is called claude and starts the hooks is the agent.
  fs::copy_file("/bin/sh", dir + "/claude");
  const json event{{"session_id", "of-bob"}, {"cwd", w.there}, {"source", "startup"}};
  auto writes = event;
  writes.update({{"tool_name", "Write"}, {"tool_use_id", "t1"}, {"tool_input", {{"file_path", w.there + "/src/x.c"}}}});
  std::ofstream{dir + "/start"} << event.dump();
  std::ofstream{dir + "/write"} << writes.dump();
  std::string script =
    ctl + " hook claude session-start < " + dir + "/start; touch " + dir + "/ready; while [ ! -e " + dir + "/go ]; do sleep 0.05; done";
  const std::vector<std::string> commands{
    "locks", "instances", "tasks", "whoami", "lock src/x.c", "send --to operator hello", "kv get k", "register --label name:eve"};
  // However long the caller would wait.
  for (const auto& command : commands)
    script += "; " + ctl + " --timeout 600 " + command + " 2>&1; echo \"status $? of " + command + "\"";
  script += "; echo; " + ctl + " --timeout 600 hook claude pre-tool-use --fail-closed < " + dir + "/write; echo";
  child_process agent{{dir + "/claude", "-c", script}, w.b.env(in_scope), w.there, ""};
  REQUIRE(eventually([&] { return fs::exists(dir + "/ready"); }));
  w.c.home.kill_node();
  // Longer than the node of the agent remembers whose session it is, and than a restart of the home may take.
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.b, "a")["link"] == "down" && cluster_of_nodes::unheard_ms(w.b, "a") > 8'000; }));
  std::ofstream{dir + "/go"};
  const auto said = agent.finish().out;
  CAPTURE(said);
  for (const auto& command : commands)
    CHECK_MESSAGE(said.find("status 1 of " + command) != std::string::npos, command);
  const std::string refusal = "the home of this scope, a, has not been reached for ";
  std::size_t refused = 0;
  for (auto at = said.find(refusal); at != std::string::npos; at = said.find(refusal, at + 1))
    ++refused;
  CHECK(refused == commands.size() + 1);
  CHECK(said.find("\"deny\"") != std::string::npos);
}

TEST_CASE("an agent on a member that begins to follow something while the home is away is told so and that it is back") {
  two_checkouts w;
  const auto dir = w.b.work();
  const auto ctl = program("swarmctl").string();
  fs::copy_file("/bin/sh", dir + "/claude");
  std::ofstream{dir + "/start"} << json{{"session_id", "of-bob"}, {"cwd", w.there}, {"source", "startup"}}.dump();
  const auto script = ctl + " hook claude session-start < " + dir + "/start; touch " + dir + "/ready; while [ ! -e " + dir +
                      "/go ]; do sleep 0.05; done; " + ctl + " events --follow; echo";
  child_process agent{{dir + "/claude", "-c", script}, w.b.env(in_scope), w.there, ""};
  REQUIRE(eventually([&] { return fs::exists(dir + "/ready"); }));
  w.c.home.kill_node();
  // Longer than the node of the agent remembers whose session it is.
  REQUIRE(eventually([&] { return cluster_of_nodes::row_seen_by(w.b, "a")["link"] == "down" && cluster_of_nodes::unheard_ms(w.b, "a") > 8'000; }));
  std::ofstream{dir + "/go"};
  CHECK_MESSAGE(agent.read_until("waiting: the home of this scope, a, has not been reached for "), agent.so_far().err);
  REQUIRE(w.c.home.ctl({"up"}).status == 0);
  CHECK_MESSAGE(agent.read_until("the home is back"), agent.so_far().err);
  agent.signal(SIGKILL);
}
