// Agents on our terminals: started, told of their task, woken for mail, looked at. The agent is a script that behaves as the real programs
// were recorded to; those run in tests/agents.
#include <csignal>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/mcp_client.hpp"
#include "tests/support/node_client.hpp"
#include "tests/support/screen_agent.hpp"

using namespace swarm::testing;

namespace {

const std::string does_its_task = "  swarmctl bootstrap > bootstrap.json\n"
                                  "  case \"$line\" in *\"for task \"*) swarmctl update-task $SWARM_TASK_ID --status done --note finished;; esac";

class agent_node {
public:
  explicit agent_node(const std::string& work = does_its_task, const std::string& limits = {}) {
    auto file = node.work() + "/agent.sh";
    write_screen_agent(file, work);
    fs::create_directories(node.dir().root);
    std::ofstream{node.dir().config_file()} << "[limits]\nagent_silence = 600\n" << limits;
    options.env["SWARM_HARNESS_HERMES"] = file;
    node.start();
  }
  json dispatch(const std::string& title, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"dispatch", title, "--harness", "hermes"};
    words.insert(words.end(), more.begin(), more.end());
    return node.ctl_json(words, options);
  }
  std::string typed() const { return file_text(node.work() + "/typed.log"); }
  bool is_typed(const std::string& text, std::size_t times = 1) const {
    return eventually([&] {
      std::size_t n = 0;
      auto all = typed();
      for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
        ++n;
      return n >= times;
    });
  }
  /// The one agent there is.
  json agent() const {
    auto all = node.ctl_json({"agents"});
    return all.empty() ? json{} : all[0];
  }
  bool becomes(const std::string& state) const {
    return eventually([&] {
      auto a = agent();
      return a.is_object() && a.at("state") == state;
    });
  }
  /// Starts the agent and lets it do a task, after which it is idle until it is told something: whose silence means nothing any more.
  std::string rests() {
    REQUIRE(dispatch("fix it", {"--wait-for-completion", "30"}).at("completion").at("status") == "completed");
    auto id = agent().at("instance_id").get<std::string>();
    REQUIRE(node.ctl({"report-agent", "idle", "--as", id}).status == 0);
    REQUIRE(becomes("idle"));
    return id;
  }
  json last_message_to(const std::string& id) const { return node.ctl_json({"messages", "--to", id, "--limit", "1"}).at(0); }
  bool has_read(const std::string& id) const {
    return eventually([&] { return last_message_to(id).at("read") == 1; });
  }

  test_node node;
  run_options options;
};

const std::string woken = "typed: A peer sent you a swarm message";
constexpr const char* not_heard = "it could not be told within 2000 ms";

} // namespace

TEST_CASE("a dispatch to an agent starts it on a terminal, tells it of its task once it waits, and ends in done") {
  agent_node a;
  auto reply = a.dispatch("fix it", {"--wait-for-completion", "30"});
  CHECK(reply.at("completion").at("status") == "completed");
  CHECK(reply.at("completion").at("task").at("result") == "finished");
  CHECK(a.typed().find(woken + " for task " + reply.at("task_id").get<std::string>() + ".") == 0);
  auto boot = json::parse(file_text(a.node.work() + "/bootstrap.json"));
  REQUIRE(boot.at("unread_messages").size() == 1);
  CHECK(boot.at("unread_messages")[0].at("content").get<std::string>().find("fix it") != std::string::npos);
  // Its terminal is published under the key that swarm-mcp uses.
  auto key = "identity/workspace/pty/" + a.agent().at("instance_id").get<std::string>();
  CHECK(json::parse(a.node.ctl_json({"kv", "get", key}).at("value").get<std::string>()).at("handle") == a.agent().at("pty"));
}

TEST_CASE("an idle agent on our terminal is really woken and polls, and the sender sees stored, delivered, read") {
  agent_node a;
  a.dispatch("fix it", {"--wait-for-completion", "30"});
  REQUIRE(a.becomes("idle"));
  auto id = a.agent().at("instance_id").get<std::string>();
  auto told = a.node.ctl_json({"prompt-peer", "--to", id, "--message", "have a look"});
  CHECK(told.at("message_sent") == true);
  CHECK(told.at("nudged") == true);
  CHECK(told.at("workspace_backend") == "pty");
  CHECK(told.at("workspace_handle") == a.agent().at("pty"));
  CHECK(a.is_typed(woken + ". "));
  auto last = [&] { return a.node.ctl_json({"messages", "--to", id, "--limit", "1"})[0]; };
  CHECK(eventually([&] { return last().at("read") == 1; }));
  CHECK(last().at("content") == "have a look");
  CHECK(last().contains("delivered_at"));
}

TEST_CASE("a busy agent is woken at its next idle, with force at once") {
  agent_node a;
  a.dispatch("fix it", {"--wait-for-completion", "30"});
  REQUIRE(a.becomes("idle"));
  auto id = a.agent().at("instance_id").get<std::string>();
  REQUIRE(a.node.ctl({"report-agent", "working", "--as", id}).status == 0);
  auto told = a.node.ctl_json({"prompt-peer", "--to", id, "--message", "when you can"});
  CHECK(told.at("nudged") == false);
  CHECK(told.at("nudge_skipped") == "target workspace handle is working; pass force=true to inject anyway");
  CHECK(told.at("agent_status") == "working");
  auto forced = a.node.ctl_json({"prompt-peer", "--to", id, "--message", "now", "--force"});
  CHECK(forced.at("nudged") == true);
  CHECK(a.is_typed(woken, 2));
  CHECK(eventually([&] { return a.node.ctl_json({"messages", "--to", id, "--limit", "1"})[0].at("read") == 1; }));
  auto later = a.node.ctl_json({"prompt-peer", "--to", id, "--message", "later"});
  CHECK(later.at("nudged") == false);
  REQUIRE(a.node.ctl({"report-agent", "idle", "--as", id}).status == 0);
  CHECK(a.is_typed(woken, 3));
}

TEST_CASE("prompt_peer (woken): an idle agent on our terminal is told, and the answer says where it is") {
  agent_node a;
  auto id = a.rests();
  mcp_client me{a.node};
  me.enroll("name:me");
  auto told = me.call("prompt_peer", {{"recipient", id}, {"message", "have a look"}, {"task_id", "T1"}});
  CHECK(told.keys() == "message_sent sender recipient nudged workspace_backend workspace_handle handle_kind agent_status");
  CHECK(told.value() == json{{"message_sent", true},
                             {"sender", me.id()},
                             {"recipient", id},
                             {"nudged", true},
                             {"workspace_backend", "pty"},
                             {"workspace_handle", a.agent().at("pty")},
                             {"handle_kind", "pty"},
                             {"agent_status", "idle"}});
  CHECK(a.is_typed(woken + " for task T1."));
  CHECK(a.has_read(id));
  CHECK(a.last_message_to(id).at("content") == "[task:T1] have a look");
  REQUIRE(a.node.ctl({"report-agent", "working", "--as", id}).status == 0);
  auto busy = me.call("prompt_peer", {{"recipient", id}, {"message", "when you can"}});
  CHECK(busy.keys() == "message_sent sender recipient nudged nudge_skipped workspace_backend workspace_handle handle_kind agent_status");
  CHECK(busy.value().at("nudge_skipped") == "target workspace handle is working; pass force=true to inject anyway");
  CHECK(busy.value().at("agent_status") == "working");
}

TEST_CASE("prompt_peer (nudge_error): a person types at the agent's terminal, the mail is stored, and the agent is told later") {
  agent_node a{does_its_task, "pty_person_hold = 6000\n"};
  auto id = a.rests();
  mcp_client me{a.node};
  me.enroll("name:me");
  // Ctrl-U: the line is empty and not echoed, so that the agent has seen nothing.
  REQUIRE(a.node.ctl({"pty", "send", a.agent().at("pty").get<std::string>(), "\x15"}).status == 0);
  auto told = me.call("prompt_peer", {{"recipient", id}, {"message", "when you can"}});
  CHECK_FALSE(told.is_error);
  CHECK(told.keys() == "message_sent sender recipient nudged nudge_error workspace_backend workspace_handle handle_kind agent_status");
  CHECK(told.value().at("message_sent") == true);
  CHECK(told.value().at("nudged") == false);
  CHECK_MESSAGE(told.value().at("nudge_error").get<std::string>().starts_with(not_heard), told.text());
  CHECK(told.value().at("workspace_handle") == a.agent().at("pty"));
  auto stored = a.last_message_to(id);
  CHECK(stored.at("content") == "when you can");
  CHECK(stored.at("read") == 0);
  CHECK_FALSE(stored.contains("delivered_at"));
  CHECK(a.is_typed(woken + ". "));
  CHECK(a.has_read(id));
  CHECK(a.last_message_to(id).contains("delivered_at"));
}

TEST_CASE("prompt-peer to a program that does not read its terminal: nudge_error, and the program is told when it reads again") {
  agent_node a{"  case \"$line\" in *\"swarm message\"*)\n" + does_its_task + "\n  ;;\n  esac", "pty_person_hold = 375\n"};
  auto id = a.rests();
  auto terminal = a.node.ctl_json({"pty", "list"}).at(0);
  auto pid = terminal.at("pid").get<pid_t>();
  kill(pid, SIGSTOP);
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += std::string(1000, 'x') + "\n";
  // As much as the kernel keeps for it, and a bit.
  REQUIRE(eventually([&] {
    return a.node.ctl({"pty", "send", terminal.at("id").get<std::string>(), "--stdin", "--timeout", "1"}, {.input = lines}).status == 4;
  }));
  auto told = a.node.ctl_json({"prompt-peer", "--to", id, "--message", "one"});
  CHECK(told.at("message_sent") == true);
  CHECK(told.at("nudged") == false);
  CHECK_FALSE(told.contains("nudge_skipped"));
  CHECK_MESSAGE(told.value("nudge_error", "").starts_with(not_heard), told.dump());
  CHECK(told.at("workspace_handle") == terminal.at("id"));
  CHECK(told.at("agent_status") == "idle");
  auto again = a.node.ctl({"prompt-peer", "--to", id, "--message", "two"});
  CHECK(again.status == 0);
  CHECK_MESSAGE(again.out.find(id.substr(0, 8) + " (" + not_heard) != std::string::npos, again.out);
  CHECK(a.last_message_to(id).at("read") == 0);
  kill(pid, SIGCONT);
  CHECK(a.is_typed(woken + ". "));
  CHECK(a.has_read(id));
  CHECK(a.last_message_to(id).at("content") == "two");
}

TEST_CASE("a nudge that reaches nobody leaves the mail stored") {
  test_node node;
  mcp_client peer{node};
  peer.enroll("name:peer");
  auto told = node.ctl_json({"prompt-peer", "--to", peer.id(), "--message", "look"});
  CHECK(told.at("message_sent") == true);
  CHECK(told.at("nudged") == false);
  CHECK(told.at("nudge_skipped") == "no workspace identity is published for that instance");
  auto mail = peer.ask("poll_messages");
  REQUIRE(mail.size() == 1);
  CHECK(mail[0].at("content") == "look");
}

TEST_CASE("the same dispatch to an agent twice, also from a second coordinator, gives one task and one worker") {
  agent_node a{"  sleep 1"};
  std::vector<child_process> callers;
  for (int i = 0; i < 4; ++i)
    callers.push_back(a.node.ctl_start({"dispatch", "fix it", "--harness", "hermes", "--json"}, a.options));
  std::set<std::string> tasks;
  for (auto& c : callers) {
    auto done = c.finish();
    REQUIRE_MESSAGE(done.status == 0, done.err);
    tasks.insert(done.parsed().at("task_id").get<std::string>());
  }
  mcp_client gateway{a.node, a.options};
  gateway.enroll("name:second mode:gateway");
  auto again = gateway.ask("dispatch", {{"title", "fix it"}, {"harness", "hermes"}});
  tasks.insert(again.at("task_id").get<std::string>());
  CHECK(tasks.size() == 1);
  CHECK(a.node.ctl_json({"spawns"}).size() == 1);
  CHECK(a.node.ctl_json({"tasks"}).size() == 1);
}

TEST_CASE("a session registers, is listed, does its part and leaves") {
  test_node node;
  mcp_client one{node};
  auto me = one.enroll("name:one");
  CHECK(one.ask("whoami").at("id") == me.at("id"));
  auto seen = node.ctl_json({"instances"});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].at("id") == me.at("id"));
  CHECK(one.ask("bootstrap").at("instance").at("id") == me.at("id"));
  one.close_input();
  CHECK(one.finish() == 0);
  CHECK(eventually([&] { return node.ctl_json({"instances"}).empty(); }));
}

TEST_CASE("what one of two peers broadcasts the other has within 5 s") {
  test_node node;
  mcp_client one{node};
  mcp_client two{node};
  one.enroll("name:one");
  two.enroll("name:two");
  auto waiting = two.call_later("wait_for_activity", {{"timeout_seconds", 5}});
  CHECK(one.text("broadcast", {{"content", "hello"}}) == "Broadcast sent to 1 instance(s)");
  auto heard = two.reply_to(waiting).value();
  REQUIRE(heard.at("messages").size() == 1);
  CHECK(heard.at("messages")[0].at("content") == "hello");
}

TEST_CASE("peek_peer shows a peer's terminal as text, and nobody's own") {
  agent_node a{"  echo working on it"};
  a.dispatch("fix it");
  REQUIRE(a.is_typed(woken));
  mcp_client me{a.node};
  me.enroll("name:me");
  auto id = a.agent().at("instance_id").get<std::string>();
  json shown;
  CHECK(eventually([&] {
    shown = me.ask("peek_peer", {{"recipient", id}});
    return shown.value("text", "").find("working on it\n>") != std::string::npos;
  }));
  CHECK(shown.at("peeked") == true);
  CHECK(shown.at("workspace_backend") == "pty");
  CHECK(shown.at("text").get<std::string>().find('\x1b') == std::string::npos);
  CHECK(shown.at("text").get<std::string>().rfind("welcome\n", 0) == 0);
  auto cli = a.node.ctl({"peek", id, "--lines", "1"});
  CHECK(cli.out == ">\n");
  mcp_client stranger{a.node};
  stranger.enroll("identity:home");
  CHECK(stranger.ask("peek_peer", {{"recipient", id}}).at("error") == "Instance " + id + " is not active in this scope");
}

TEST_CASE("resolve_workspace_handle finds the session behind a terminal of ours, without a backend and by its name") {
  agent_node a{"  true"};
  a.dispatch("fix it");
  REQUIRE(a.is_typed(woken));
  auto id = a.agent().at("instance_id").get<std::string>();
  auto pty = a.agent().at("pty").get<std::string>();
  mcp_client me{a.node};
  me.enroll("name:me");
  for (const auto& arguments : {json{{"handle", pty}}, json{{"handle", pty}, {"backend", "pty"}}}) {
    auto found = me.ask("resolve_workspace_handle", arguments);
    CHECK(found.at("backend") == "pty");
    CHECK(found.at("instance_id") == id);
    CHECK(found.at("ambiguous") == false);
    REQUIRE(found.at("matches").size() == 1);
    CHECK(found.at("matches")[0].at("source") == "kv");
    CHECK(found.at("matches")[0].at("handle_kind") == "pty");
  }
  CHECK(a.node.ctl({"resolve-workspace-handle", pty}).out.rfind("pty:" + pty + " → " + id.substr(0, 8), 0) == 0);
  CHECK(me.call("resolve_workspace_handle", {{"handle", pty}, {"backend", "tmux"}}).text() ==
        "Unsupported workspace backend \"tmux\". Currently registered: pty, herdr.");
  // What another program publishes is found as well.
  REQUIRE(
    a.node.ctl({"kv", "set", "identity/workspace/herdr/" + me.id(), R"({"backend":"herdr","handle":"pane-3","handle_aliases":["p3"]})"}).status == 0);
  // Nonsense in one row spoils it for nobody.
  REQUIRE(a.node.ctl({"kv", "set", "identity/workspace/pty/" + me.id(), R"({"handle":"p3","handle_kind":5})"}).status == 0);
  CHECK(me.ask("resolve_workspace_handle", {{"handle", "p3"}, {"backend", "pty"}}).at("handle_kind") == "pty");
  REQUIRE(a.node.ctl({"kv", "del", "identity/workspace/pty/" + me.id()}).status == 0);
  auto herdr = me.ask("resolve_workspace_handle", {{"handle", "p3"}});
  CHECK(herdr.at("backend") == "herdr");
  CHECK(herdr.at("canonical_handle") == "pane-3");
  CHECK(herdr.at("instance_id") == me.id());

  // Lists, locks and refusals say where their owner can be seen.
  auto file = a.node.work() + "/held";
  REQUIRE(me.ask("lock_file", {{"file", file}}).at("ok") == true);
  mcp_client other{a.node};
  other.enroll("name:other");
  std::map<std::string, json> rows;
  for (const auto& row : other.ask("list_instances", json::object()))
    rows[row.at("id")] = row;
  CHECK(rows.at(me.id()).at("workspace_backend") == "herdr");
  CHECK(rows.at(me.id()).at("workspace_handle") == "pane-3");
  CHECK(rows.at(me.id()).at("handle_kind") == "pane");
  CHECK(rows.at(me.id()).at("pane_id") == "pane-3");
  CHECK(rows.at(id).at("workspace_handle") == pty);
  CHECK(rows.at(id).at("pane_id").is_null());
  CHECK_FALSE(rows.at(other.id()).contains("workspace_backend"));
  auto held = other.ask("get_file_lock", {{"file", file}}).at("active");
  CHECK(held.at("workspace").at("handle") == "pane-3");
  CHECK(held.at("owner").at("pane_id") == "pane-3");
  CHECK(a.node.ctl_json({"locks"}).at(0).at("pane_id") == "pane-3");
  CHECK(a.node.ctl({"locks"}).out.find(" (pane pane-3)  " + file) != std::string::npos);
  CHECK(a.node.ctl({"instances"}).out.find("  pane=pane-3") != std::string::npos);
}

TEST_CASE("report-agent: states by source, refused when they make no sense") {
  test_node node;
  auto id = node.session("name:me");
  CHECK(node.ctl({"report-agent", "working", "--as", id, "--seq", "5", "--source", "x"}).out == id.substr(0, 8) + " is working\n");
  CHECK(node.ctl({"report-agent", "idle", "--as", id, "--seq", "5", "--source", "x"}).out == id.substr(0, 8) + " is working\n");
  CHECK(node.ctl({"report-agent", "idle", "--as", id, "--seq", "6", "--source", "x", "--ttl", "60"}).out == id.substr(0, 8) + " is idle\n");
  CHECK(node.ctl({"report-agent", "asleep", "--as", id}).status == 2);
  CHECK(node.ctl({"report-agent", "idle", "--as", id, "--ttl", "999999999"}).status != 0);
}
