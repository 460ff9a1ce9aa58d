// Who calls: the operator outside every worker, a session inside one, and nobody who pretends.
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "tests/support/node_client.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;

namespace {

/// Runs a script in a worker and gives what it printed.
std::string in_worker(const test_node& node, const std::string& script, std::vector<std::string> options = {}) {
  static int run = 0;
  auto title = "worker " + std::to_string(++run);
  std::vector<std::string> args{"dispatch", title, "--harness", "exec", "--json"};
  args.insert(args.end(), options.begin(), options.end());
  args.insert(args.end(), {"--", "sh", "-c", script});
  auto r = node.ctl(args);
  auto got = r.parsed();
  return got.is_object() && got.contains("output_tail") ? got["output_tail"].get<std::string>() : r.out + r.err;
}

std::string ctl() { return program("swarmctl").string(); }

/// A program of ours that is called claude runs the script: what that starts is an agent's.
std::string in_agent(const test_node& node, const std::string& script, const environment& variables = {}) {
  const auto claude = node.work() + "/bin/claude";
  fs::create_directories(node.work() + "/bin");
  if (!fs::exists(claude))
    fs::copy_file("/bin/sh", claude);
  auto done = child_process{{claude, "-c", script + "; true"}, node.env(variables), node.work(), ""}.finish();
  return done.out + done.err;
}

/// The command line for one event of the session, whose file it writes.
std::string hook(const test_node& node, const std::string& session, const std::string& event, json input = json::object()) {
  static int number = 0;
  input["session_id"] = session;
  input["cwd"] = node.work();
  const auto file = node.work() + "/event" + std::to_string(++number) + ".json";
  std::ofstream{file} << input.dump();
  return ctl() + " hook claude " + event + " < " + file;
}

std::string writing(const test_node& node, const std::string& session, const std::string& file) {
  return hook(node, session, "pre-tool-use",
              {{"tool_name", "Write"}, {"tool_use_id", "t"}, {"tool_input", {{"file_path", node.work() + "/" + file}}}});
}

/// The command line for a tool server that is asked one thing.
std::string tool(const std::string& name, const json& arguments = json::object()) {
  const json call{{"jsonrpc", "2.0"}, {"id", 1}, {"method", "tools/call"}, {"params", {{"name", name}, {"arguments", arguments}}}};
  return "echo '" + call.dump() + "' | " + ctl() + " mcp";
}

std::vector<std::string> labels(const test_node& node) {
  std::vector<std::string> out;
  for (const auto& row : node.ctl_json({"instances"}))
    out.push_back(row.at("label").is_string() ? row.at("label").get<std::string>() : "");
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("a process in a worker's tree without its token is not the operator") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto pid = node.node_pid();
  auto out = in_worker(node, "env -u SWARM_TOKEN " + ctl() + " down; echo status $?");
  CAPTURE(out);
  CHECK(out.find("status 1") != std::string::npos);
  CHECK(is_running(pid));
  out = in_worker(node, "env -u SWARM_TOKEN " + ctl() + " backup " + node.work() + "/stolen.db; echo status $?");
  CHECK(out.find("status 1") != std::string::npos);
  CHECK_FALSE(fs::exists(node.work() + "/stolen.db"));
  // With the token neither.
  out = in_worker(node, ctl() + " down; echo status $?");
  CHECK(out.find("status 1") != std::string::npos);
  CHECK(is_running(pid));
  // An empty environment changes nothing.
  out = in_worker(node, "env -i SWARM_HOME=" + node.dir().root.string() + " " + ctl() + " down; echo status $?");
  CHECK(out.find("status 1") != std::string::npos);
  CHECK(is_running(pid));
}

TEST_CASE("a daemon that a worker forked twice into a session of its own is not the operator") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto pid = node.node_pid();
  auto file = node.work() + "/verdict";
  auto script = "( setsid sh -c '( env -u SWARM_TOKEN " + ctl() + " down; echo status $? > " + file + ".new; mv " + file + ".new " + file +
                " ) & ' & ) ; while [ ! -e " + file + " ]; do sleep 0.05; done; cat " + file;
  auto out = in_worker(node, script);
  CAPTURE(out);
  CHECK(out.find("status 1") != std::string::npos);
  CHECK(is_running(pid));
}

TEST_CASE("a script in the background whose parent has ended is told that it sees no approvals and no conversations") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto file = node.work() + "/verdict";
  std::string asks;
  for (const char* verb : {"approvals", "approvals --json", "approvals --follow", "chat list", "chat list --all-scopes", "chat read 12345678"})
    asks += ctl() + " " + verb + " 2>&1; echo status $?; ";
  const auto script =
    "( while kill -0 $$; do sleep 0.05; done; ( " + asks + ") > " + file + ".new; mv " + file + ".new " + file + " ) > /dev/null 2>&1 < /dev/null &";
  child_process{{"/usr/bin/setsid", "-w", "/bin/sh", "-c", script}, node.env(), node.work(), ""}.finish();
  REQUIRE(eventually([&] { return fs::exists(file); }));
  const auto said = file_text(file);
  CAPTURE(said);
  std::size_t refused = 0, told = 0;
  for (auto at = said.find("status 1\n"); at != said.npos; at = said.find("status 1\n", at + 1))
    ++refused;
  for (auto at = said.find("Nobody who could be asked"); at != said.npos; at = said.find("Nobody who could be asked", at + 1))
    ++told;
  CHECK(refused == 6);
  CHECK(told >= 6);
}

TEST_CASE("a daemon that outlives its worker gets no rights by it") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto pid = node.node_pid();
  auto file = node.work() + "/verdict";
  // The worker ends at once. Its tree is ended with it; if the daemon gets to ask at all, it must be refused.
  auto script = "setsid sh -c 'trap \"\" HUP TERM; while [ ! -e " + node.work() + "/go ]; do sleep 0.05; done; env -u SWARM_TOKEN " + ctl() +
                " down; echo status $? > " + file + "' > /dev/null 2>&1 & exit 0";
  in_worker(node, script);
  std::ofstream{node.work() + "/go"};
  auto asked = eventually([&] { return fs::exists(file) && !file_text(file).empty(); }, std::chrono::seconds{3});
  if (asked)
    CHECK(file_text(file).find("status 0") == std::string::npos);
  CHECK(is_running(pid));
}

TEST_CASE("a worker acts as its own session and as no other") {
  test_node node;
  auto other = node.session("name:other");
  REQUIRE(node.ctl({"lock", "a.cpp", "--as", other}).status == 0);
  auto whoami = in_worker(node, ctl() + " whoami --json; echo session $SWARM_MCP_INSTANCE_ID");
  CAPTURE(whoami);
  auto at = whoami.find("session ");
  REQUIRE(at != std::string::npos);
  auto own = whoami.substr(at + 8, 36);
  CHECK(whoami.find("\"id\": \"" + own + "\"") != std::string::npos);
  for (const auto& attempt : {" unlock a.cpp --as " + other, " deregister --as " + other, " lock b.cpp --as " + other,
                              " send --to " + other + " --as " + other + " hello"}) {
    auto out = in_worker(node, ctl() + attempt + "; echo status $?");
    CHECK_MESSAGE(out.find("status 1") != std::string::npos, attempt, ": ", out);
    out = in_worker(node, "env -u SWARM_TOKEN " + ctl() + attempt + "; echo status $?");
    CHECK_MESSAGE(out.find("status 1") != std::string::npos, attempt, ": ", out);
  }
  auto locks = node.ctl_json({"locks"});
  REQUIRE(locks.size() == 1);
  CHECK(locks[0].at("instance_id") == other);
  // Its own work is its own.
  auto good = in_worker(node, ctl() + " lock c.cpp && " + ctl() + " kv set by-worker yes && echo fine");
  CHECK(good.find("fine") != std::string::npos);
  CHECK(node.ctl({"kv", "get", "by-worker"}).out == "yes\n");
}

TEST_CASE("a worker that runs is not taken out of the swarm by others, but may leave it") {
  test_node node;
  REQUIRE(node.ctl({"dispatch", "work", "--detach", "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; " + ctl() + " deregister"}).status ==
          0);
  REQUIRE(eventually([&] { return node.ctl_json({"tasks"})[0].at("status") == "in_progress"; }));
  const auto task = node.ctl_json({"tasks"})[0];
  const auto worker = task.at("assignee").get<std::string>();
  for (const auto& line : {std::vector<std::string>{"remove-instance", worker}, {"deregister", "--as", worker}}) {
    auto refused = node.ctl(line);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("swarmctl cancel " + task.at("id").get<std::string>().substr(0, 8)) != std::string::npos, refused.err);
  }
  CHECK(node.ctl_json({"tasks"})[0].at("status") == "in_progress");
  CHECK_FALSE(node.ctl_json({"instances"}).empty());
  std::ofstream{node.work() + "/go"};
  CHECK(eventually([&] { return node.ctl_json({"instances"}).empty(); }));
  CHECK(node.ctl({"events", "--since", "0", "--type", "instance.deregistered"}).out.find("instance.deregistered") != std::string::npos);
}

TEST_CASE("a worker's process keeps its session when somebody writes the token away") {
  test_node node;
  auto out = in_worker(node, "env -u SWARM_TOKEN -u SWARM_MCP_INSTANCE_ID " + ctl() + " kv set whose mine; echo status $?");
  CHECK(out.find("status 0") != std::string::npos);
  auto events = lines_of(node.ctl({"events", "--since", "0", "--json", "--type", "kv."}).out);
  REQUIRE(events.size() == 1);
  CHECK(json::parse(events[0]).at("principal").at("kind") == "session");
}

TEST_CASE("a live session cannot be adopted, neither by its id nor by a worker") {
  test_node node;
  node.start();
  node_client client{node};
  auto first = client.execute(client.registration_of_process(getpid()));
  REQUIRE_MESSAGE(!first.has_refusal(), first.refusal().text());
  auto id = first.session().session().id();
  auto take = client.registration();
  take.mutable_register_session()->set_adopt_session_id(id);
  take.mutable_register_session()->set_adopt_only(true);
  auto refused = client.execute(take);
  CHECK(refused.refusal().code() == v1::Refusal::CONFLICT);
  take = client.registration();
  take.mutable_register_session()->set_preassigned_id(id);
  CHECK(client.execute(take).refusal().code() == v1::Refusal::CONFLICT);
  CHECK(node.ctl({"bootstrap", "--adopt-instance-id", id}).status == 1);
  auto out = in_worker(node, ctl() + " register --adopt-instance-id " + id + "; echo status $?");
  CHECK_MESSAGE(out.find("status 1") != std::string::npos, out);
}

TEST_CASE("a token makes its holder that session, and one that is wrong, malformed or of an ended session is refused") {
  test_node node;
  node.start();
  node_client operator_client{node};
  auto token = make_token();
  auto session = operator_client.execute(operator_client.registration_with_token(token)).session().session().id();
  node_client holder{node, token};
  auto mine = holder.command();
  mine.mutable_set_kv()->set_key("k");
  mine.mutable_set_kv()->set_value("v");
  CHECK_FALSE(holder.execute(mine).has_refusal());
  CHECK(node.ctl({"kv", "set", "x", "y"}, {.env = {{"SWARM_TOKEN", token}}}).status == 0);

  for (const auto& wrong : {make_token(), std::string{"00"}, std::string{"not hex"}}) {
    node_client stranger{node, wrong};
    v1::ExecuteRequest request;
    *request.mutable_id() = stranger.next_id();
    *request.mutable_command() = mine;
    v1::Reply reply;
    CHECK(stranger.execute(request, reply).error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(node.ctl({"kv", "set", "x", "z"}, {.env = {{"SWARM_TOKEN", wrong}}}).status == 1);
  }
  auto end = operator_client.command();
  end.mutable_remove_session()->set_session_id(session);
  REQUIRE_FALSE(operator_client.execute(end).has_refusal());
  v1::ExecuteRequest late;
  *late.mutable_id() = holder.next_id();
  *late.mutable_command() = mine;
  v1::Reply reply;
  auto status = holder.execute(late, reply);
  CHECK((!status.ok() || reply.has_refusal()));
  CHECK(node.ctl({"kv", "set", "x", "late"}, {.env = {{"SWARM_TOKEN", token}}}).status == 1);
  CHECK(node.ctl({"kv", "get", "x"}).out == "y\n");
}

TEST_CASE("a session registers no rights or identity for itself, neither over its own row nor in a new one") {
  test_node node;
  node.start();
  node_client operator_client{node};
  auto token = make_token();
  auto first = operator_client.execute(operator_client.registration_with_token(token, "identity:work"));
  REQUIRE_MESSAGE(!first.has_refusal(), first.refusal().text());
  auto session = first.session().session().id();
  node_client holder{node, token};
  for (const auto& label : {"identity:work mode:gateway", "identity:private", "name:nobody"}) {
    CAPTURE(label);
    auto again = holder.registration(label);
    again.mutable_register_session()->set_preassigned_id(session);
    CHECK(holder.execute(again).refusal().code() == v1::Refusal::FORBIDDEN);
    auto second = make_token();
    CHECK(holder.execute(holder.registration_with_token(second, label)).refusal().code() == v1::Refusal::FORBIDDEN);
    CHECK(node.ctl({"kv", "set", "x", "y"}, {.env = {{"SWARM_TOKEN", second}}}).status == 1);
  }
  CHECK(node.ctl_json({"instances"}).size() == 1);
  auto fine = holder.execute(holder.registration_with_token(make_token(), "identity:work name:helper"));
  CHECK_MESSAGE(!fine.has_refusal(), fine.refusal().text());
  // The same from the command line inside a worker.
  auto out = in_worker(node, ctl() + " register --label mode:gateway; echo status $?");
  CHECK_MESSAGE(out.find("status 1") != std::string::npos, out);
}

TEST_CASE("a worker sees its own identity's things and lists its own, but not those of others") {
  test_node node;
  auto other = node.session("identity:private");
  REQUIRE(node.ctl({"kv", "set", "secret", "hidden-value", "--as", other}).status == 0);
  REQUIRE(node.ctl({"request-task", "other", "hidden-title", "--as", other}).status == 0);
  for (const std::string strip : {"", "env -u SWARM_TOKEN ", "env -u SWARM_TOKEN -u SWARM_MCP_INSTANCE_ID "}) {
    auto out = in_worker(node, strip + ctl() + " kv get secret; echo status $?");
    CHECK_MESSAGE(out.find("status 1") != std::string::npos, out);
    CHECK(out.find("hidden-value") == std::string::npos);
    out = in_worker(node, strip + ctl() + " tasks --json; echo status $?");
    CHECK_MESSAGE(out.find("status 0") != std::string::npos, out);
    CHECK(out.find("hidden-title") == std::string::npos);
  }
  REQUIRE(node.ctl({"lock", "a.cpp", "--note", "hidden-note", "--as", other}).status == 0);
  auto locks = in_worker(node, ctl() + " locks --json");
  CHECK_MESSAGE(locks.find("/a.cpp") != std::string::npos, locks);
  CHECK(locks.find(R"("instance_id": "hidden")") != std::string::npos);
  CHECK(locks.find(other) == std::string::npos);
  CHECK(locks.find("hidden-note") == std::string::npos);
  for (const std::string list : {"tasks", "locks", "kv list", "spawns", "messages", "instances", "whoami", "subscriptions", "events"}) {
    auto out = in_worker(node, ctl() + " " + list + "; echo status $?");
    CHECK_MESSAGE(out.find("status 0") != std::string::npos, list, ": ", out);
  }
}

TEST_CASE("what a client writes into the principal is ignored") {
  test_node node;
  node.start();
  node_client operator_client{node};
  auto token = make_token();
  auto session = operator_client.execute(operator_client.registration_with_token(token)).session().session().id();
  node_client holder{node, token};
  auto command = holder.command();
  command.mutable_principal()->set_kind(v1::Principal::NODE);
  command.mutable_expire_session()->set_session_id(session);
  CHECK(holder.execute(command).refusal().code() == v1::Refusal::FORBIDDEN);
  grpc::ClientContext context;
  holder.prepare(context);
  v1::ShutdownReply reply;
  CHECK(holder.node().Shutdown(&context, {}, &reply).error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("every event says who caused it") {
  test_node node;
  auto session = node.session("name:one");
  REQUIRE(node.ctl({"lock", "a.cpp", "--as", session}).status == 0);
  REQUIRE(node.ctl_json({"dispatch", "work", "--harness", "exec", "--", ctl(), "kv", "set", "a", "b"}).at("exit_status") == 0);
  REQUIRE(node.ctl({"deregister", "--as", session}).status == 0);
  auto lines = lines_of(node.ctl({"events", "--since", "0", "--json"}).out);
  CHECK(lines.size() >= 8);
  std::set<std::string> kinds;
  for (const auto& line : lines) {
    auto event = json::parse(line);
    auto kind = event.at("principal").at("kind").get<std::string>();
    kinds.insert(kind);
    CHECK_MESSAGE(kind != "unknown", line);
    if (kind == "session")
      CHECK_MESSAGE(event.at("principal").at("id").is_string(), line);
  }
  CHECK(kinds == std::set<std::string>{"operator", "session", "node"});
}

TEST_CASE("a worker that was granted spawn opens a terminal, when its environment says that it means to") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  const auto opens = ctl() + " pty new --name mine -- cat 2>&1; echo status $?";
  auto out = in_worker(node, "export SWARM_MCP_ALLOW_SPAWN=yes; " + opens, {"--grant", "spawn"});
  CHECK_MESSAGE(has(out, "status 0"), out);
  out = in_worker(node, opens, {"--grant", "spawn"});
  CHECK_MESSAGE(has(out, "SWARM_MCP_ALLOW_SPAWN=1"), out);
  CHECK(has(out, "status 1"));
  out = in_worker(node, "export SWARM_MCP_ALLOW_SPAWN=1; " + opens);
  CHECK_MESSAGE(has(out, "status 1"), out);
}

TEST_CASE("a worker sees and uses its own terminal only, unless it was granted more") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto id = node.ctl_json({"pty", "new", "--json", "--", "cat"}).at("id").get<std::string>();
  for (const auto& what : {"read " + id, "kill " + id, "send " + id + " x"}) {
    auto refused = in_worker(node, ctl() + " pty " + what + " 2>&1");
    CHECK_MESSAGE(has(refused, "without the grant pty."), refused);
  }
  auto script = ctl() + " pty list --json; " + ctl() + " pty read " + id + "; echo status $?";
  auto listed = "\"id\": \"" + id + "\"";
  auto out = in_worker(node, script);
  CAPTURE(out);
  CHECK(out.find(listed) == std::string::npos);
  CHECK(out.find("status 1") != std::string::npos);
  out = in_worker(node, script, {"--grant", "pty"});
  CHECK(out.find(listed) != std::string::npos);
  CHECK(out.find("status 0") != std::string::npos);
  // It may not pass the right on, and what names everybody's files is not for workers.
  CHECK(in_worker(node, ctl() + " register --grant pty; echo status $?", {"--grant", "pty"}).find("status 1") != std::string::npos);
  CHECK(in_worker(node, ctl() + " graph; echo status $?").find("status 1") != std::string::npos);
  node.ctl({"pty", "kill", id});
}

// -- hooks and tool servers below an agent's program ---------------------------------------------

TEST_CASE("a stranger's leased row and its lock stay the stranger's, whatever an agent runs in its directory") {
  test_node node;
  const auto peer = node.session("session:peer");
  REQUIRE(node.ctl({"lock", "a.c", "--as", peer}).status == 0);
  const std::string me = "11111111-2222-4333-8444-555555555555";
  // The tool server alone, which had taken it over, and with a hook before.
  CHECK(has(in_agent(node, tool("whoami")), "Not registered"));
  auto out = in_agent(node, hook(node, me, "session-start", {{"source", "startup"}}) + "; " + tool("whoami") + "; echo; " + writing(node, me, "a.c"));
  CAPTURE(out);
  CHECK_FALSE(has(out, "Instance `" + peer));
  CHECK_FALSE(has(out, "\"id\\\": \\\"" + peer));
  CHECK(has(out, "\"permissionDecision\":\"deny\""));
  CHECK(has(out, "held by session:peer"));
  for (const auto& line : {ctl() + " register --adopt-instance-id " + peer, "SWARM_MCP_INSTANCE_ID=" + peer + " " + ctl() + " register",
                           ctl() + " unlock a.c --as " + peer, ctl() + " deregister --as " + peer}) {
    out = in_agent(node, line + "; echo status $?");
    CHECK_MESSAGE(has(out, "status 1"), line, ": ", out);
  }
  out = in_agent(node, ctl() + " register --label session:peer --lease-seconds 600; " + ctl() + " lock a.c; echo status $?");
  CHECK_MESSAGE(has(out, "status 1"), out);
  CHECK(has(in_agent(node, tool("register", {{"directory", node.work()}, {"adopt_instance_id", peer}})), "Could not adopt"));
  CHECK(node.ctl_json({"locks"})[0].at("instance_id") == peer);
}

TEST_CASE("hooks and tool server of one agent are one session, which begins anew after /clear") {
  test_node node;
  const json call{{"jsonrpc", "2.0"},
                  {"id", 1},
                  {"method", "tools/call"},
                  {"params", {{"name", "lock_file"}, {"arguments", {{"file", node.work() + "/a.c"}, {"reason", "mine"}}}}}};
  std::ofstream{node.work() + "/call"} << call.dump() << "\n";
  const auto script = hook(node, "first", "session-start", {{"source", "startup"}}) + "; mkfifo in; " + ctl() +
                      " mcp < in > out & exec 3> in; cat call >&3; while [ ! -s out ]; do sleep 0.02; done; " + writing(node, "first", "a.c") + "; " +
                      ctl() + " instances --json > one.json; " + hook(node, "first", "session-end", {{"reason", "clear"}}) + "; " +
                      hook(node, "second", "session-start", {{"source", "clear"}}) + "; " + ctl() + " lock b.c; echo status $?; " + ctl() +
                      " whoami --json > two.json; exec 3>&-; wait";
  const auto out = in_agent(node, script) + file_text(node.work() + "/out");
  CAPTURE(out);
  CHECK_FALSE(has(out, "deny"));
  CHECK(has(out, "status 0"));
  const auto one = json::parse(file_text(node.work() + "/one.json"));
  REQUIRE(one.size() == 1);
  const auto two = json::parse(file_text(node.work() + "/two.json"));
  CHECK(two.at("id") != one[0].at("id"));
  CHECK(has(two.at("label"), "session:second"));
}

TEST_CASE("identity, coordination and rights of an agent's session are those with which a person started it") {
  test_node node;
  node.start();
  auto out = in_agent(
    node, ctl() + " register --label 'identity:other mode:gateway role:x' --lease-seconds 600; " + ctl() + " register --grant pty; echo status $?",
    {{"AGENT_IDENTITY", "work"}});
  CAPTURE(out);
  CHECK(has(out, "identity:other was left out of the label"));
  CHECK(has(out, "mode:gateway was left out of the label"));
  CHECK(has(out, "status 1"));
  CHECK(labels(node) == std::vector<std::string>{"identity:work role:x"});
  // What a command inside sets changes nothing; what the program was started with counts.
  in_agent(node, "SWARM_ROLE=gateway AGENT_IDENTITY=other " + hook(node, "plain", "session-start", {{"source", "startup"}}));
  in_agent(node, hook(node, "lead", "session-start", {{"source", "startup"}}), {{"SWARM_CC_ROLE", "gateway"}, {"SWARM_CC_GRANTS", "spawn"}});
  const auto all = labels(node);
  REQUIRE(all.size() == 3);
  CHECK_FALSE(has(all[1], "mode:gateway"));
  CHECK_FALSE(has(all[1], "identity:"));
  CHECK(has(all[2], "mode:gateway"));
}

TEST_CASE("an agent that an agent starts has the rights of the outer one") {
  test_node node;
  node.start();
  const auto out = in_agent(node, "SWARM_ROLE=gateway AGENT_IDENTITY=other " + node.work() + "/bin/claude -c '" + ctl() +
                                    " register --label \"identity:other mode:gateway name:inner\" --lease-seconds 600; true'");
  CAPTURE(out);
  CHECK(labels(node) == std::vector<std::string>{"name:inner"});
}
