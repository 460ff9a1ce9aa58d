// Agents and people under one uid: what a program called `claude` starts is the agent's, and a person is never taken for one.
#include <csignal>
#include <fstream>

#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/support/login.hpp"
#include "tests/support/node_client.hpp"

using namespace swarm::testing;

namespace {

std::string ctl() { return program("swarmctl").string(); }

bool is_there(const char* name) { return fs::exists(fs::path{"/usr/bin"} / name); }

/// A node, and a shell that is called claude.
struct trust_node : test_node {
  std::string claude;

  trust_node() : claude(work() + "/bin/claude") {
    fs::create_directories(work() + "/bin");
    fs::copy_file(fs::canonical("/bin/bash"), claude);
    REQUIRE(ctl({"up"}).status == 0);
  }
  run_result agent(const std::string& script, const environment& more = {}) const {
    return child_process{{claude, "-c", script + "\n:"}, env(more), work()}.finish();
  }
  json explained_to_agent(const std::string& before = {}) const { return agent(before + ::ctl() + " whoami --explain --json").parsed(); }
};

bool is_refused(const run_result& r) { return r.out.find("status 1") != std::string::npos; }

std::string with_status(const std::string& arguments) { return ctl() + " " + arguments + "; echo status $?"; }

} // namespace

TEST_CASE("an agent in a user's terminal is not the operator, whatever its shell runs") {
  trust_node node;
  const auto pid = node.node_pid();
  const auto peer = node.session("name:peer");
  REQUIRE(node.ctl({"lock", "f", "--as", peer}).status == 0);
  const auto terminal = node.ctl_json({"pty", "new", "--json", "--", "cat"}).at("id").get<std::string>();
  for (const auto& line : {std::string{"down"}, "backup " + node.work() + "/stolen.db", std::string{"graph"}, "unlock f --as " + peer,
                           "pty send " + terminal + " y --enter", std::string{"dispatch x --harness exec -- true"}, std::string{"kv set k v"}}) {
    auto r = node.agent(with_status(line));
    CHECK_MESSAGE(is_refused(r), line, ": ", r.out, r.err);
    CHECK_MESSAGE(r.err.find("whoami --explain") != std::string::npos, line, ": ", r.err);
  }
  CHECK(is_running(pid));
  CHECK_FALSE(fs::exists(node.work() + "/stolen.db"));
  CHECK(node.ctl_json({"locks"}).size() == 1);
  node.ctl({"pty", "kill", terminal});
}

TEST_CASE("who is refused down is counted under what was asked, and down names its reason in whole sentences") {
  trust_node node;
  auto r = node.agent(with_status("down"));
  CHECK(is_refused(r));
  CHECK_MESSAGE(r.err.find(". This process was started by the agent claude (process ") != std::string::npos, r.err);
  const auto refused = node.ctl_json({"status"}).at("refusals");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].at("who") == "agent");
  CHECK(refused[0].at("operation") == "node_shutdown");
  CHECK(refused[0].at("count") == 1);
}

TEST_CASE("an agent is told who it is and what a person can do, and so is a person") {
  trust_node node;
  auto e = node.explained_to_agent();
  CHECK(e.at("rule") == "agent_unregistered");
  CHECK(e.at("principal").at("kind") == "agent");
  CHECK_FALSE(e.at("ways_out").empty());
  auto text = node.agent(ctl() + " whoami --explain").out;
  CHECK_MESSAGE(text.find("agent claude") != std::string::npos, text);
  CHECK_MESSAGE(text.find("way out") != std::string::npos, text);
  auto person = node.ctl_json({"whoami", "--explain"});
  CHECK(person.at("rule") == "user");
  CHECK(person.at("principal").at("kind") == "operator");
}

TEST_CASE("a symbolic link called claude is an agent, too") {
  trust_node node;
  const auto link = node.work() + "/claude";
  fs::create_symlink(fs::canonical("/bin/bash"), link);
  auto r = child_process{{link, "-c", with_status("down") + "\n:"}, node.env(), node.work()}.finish();
  CHECK_MESSAGE(is_refused(r), r.out, r.err);
}

TEST_CASE("what an agent has registered is what its shell acts as, also after the node has started again") {
  trust_node node;
  const auto go = node.work() + "/go";
  const auto script = ctl() + " register --lease-seconds 600 --json > registered; while [ ! -e " + go + " ]; do sleep 0.05; done; " + ctl() +
                      " whoami --explain --json > explained; " + ctl() + " lock mine; echo status $?; " + ctl() + " down; echo down $?";
  child_process agent{{node.claude, "-c", script + "\n:"}, node.env(), node.work()};
  REQUIRE(eventually([&] { return !json::parse(file_text(node.work() + "/registered"), nullptr, false).is_discarded(); }));
  const auto id = json::parse(file_text(node.work() + "/registered")).at("id");
  node.kill_node();
  REQUIRE(node.ctl({"up"}).status == 0);
  std::ofstream{go};
  auto r = agent.finish();
  auto e = json::parse(file_text(node.work() + "/explained"), nullptr, false);
  CAPTURE(r.out);
  CAPTURE(r.err);
  REQUIRE(e.is_object());
  CHECK(e.at("rule") == "agent_root");
  CHECK(e.at("principal").at("id") == id);
  CHECK(r.out.find("status 0") != std::string::npos);
  CHECK(r.out.find("down 1") != std::string::npos);
  auto locks = node.ctl_json({"locks"});
  REQUIRE(locks.size() == 1);
  CHECK(locks[0].at("instance_id") == id);
}

TEST_CASE("a background job that an agent has left behind is not the operator") {
  trust_node node;
  const auto verdict = node.work() + "/verdict";
  // It waits until its starter, the shell of a tool, has gone: the first process has it then.
  std::ofstream{node.work() + "/tool"} << "( while kill -0 $$ 2> /dev/null; do sleep 0.05; done; " << ctl()
                                       << " whoami --explain --json > explained; " << ctl() << " down 2> why; echo status $? > " << verdict
                                       << " ) > /dev/null 2>&1 < /dev/null &\n";
  for (const auto& [variables, rule] : {std::pair{environment{}, "orphan"}, std::pair{environment{{"CLAUDECODE", "1"}}, "mark"}}) {
    fs::remove(verdict);
    node.agent("setsid -w /bin/bash tool", variables);
    REQUIRE(eventually([&] { return !file_text(verdict).empty(); }));
    CHECK(file_text(verdict) == "status 1\n");
    CHECK(json::parse(file_text(node.work() + "/explained")).at("rule") == rule);
    CHECK(file_text(node.work() + "/why").find("whoami --explain") != std::string::npos);
  }
}

TEST_CASE("over ssh an agent does not become the operator of another host's node") {
  trust_node node;
  const auto called = node.work() + "/ssh-was-called";
  std::ofstream{node.work() + "/bin/ssh"} << "#!/bin/sh\ntouch " << called << "\nexit 255\n";
  fs::permissions(node.work() + "/bin/ssh", fs::perms::owner_all);
  const environment path{{"PATH", node.work() + "/bin:/usr/bin:/bin"}, {"XDG_CONFIG_HOME", node.work() + "/config"}};
  REQUIRE(node.ctl({"context", "set", "far", "--ssh", "host.example"}, {.env = path}).status == 0);
  for (const auto& home : {std::string{}, "SWARM_HOME=" + node.work() + "/none "}) { // no node there: by its own eyes
    auto r = node.agent("export PATH; " + home + with_status("--context far down"), path);
    CHECK_MESSAGE(is_refused(r), r.out, r.err);
    CHECK_MESSAGE(r.err.find("over ssh") != std::string::npos, r.err);
    CHECK_FALSE(fs::exists(called));
  }
  CHECK(node.ctl({"--context", "far", "status"}, {.env = path}).status != 0);
  CHECK(fs::exists(called)); // a person's does
}

TEST_CASE("a pane of a terminal server is a person's, also when an agent has started the server") {
  if (!is_there("tmux")) {
    MESSAGE("no tmux here");
    return;
  }
  trust_node node;
  const auto socket = node.work() + "/tmux";
  auto in_pane = [&](const std::string& file) {
    return "tmux -S " + socket + " new-session -d '" + ctl() + " whoami --explain --json > " + file + "'";
  };
  auto rule_in = [&](const std::string& file) {
    json e;
    REQUIRE(eventually([&] { return (e = json::parse(file_text(file), nullptr, false)).is_object(); }));
    return e.at("rule").get<std::string>();
  };
  // A server ends with its last session.
  node.agent("tmux -S " + socket + " new-session -d cat; " + in_pane(node.work() + "/inside"), {{"CLAUDECODE", "1"}});
  CHECK(rule_in(node.work() + "/inside") == "user");
  // And an agent in a pane is one.
  const auto outside = node.work() + "/outside";
  child_process{
    {"/usr/bin/tmux", "-S", socket, "new-session", "-d", node.claude + " -c '" + ctl() + " whoami --explain --json > " + outside + "; :'"},
    node.env(),
    node.work()}
    .finish();
  CHECK(rule_in(outside) == "agent_unregistered");
}

TEST_CASE("a caller from outside of the node's PID namespace is refused, and told why") {
  if (geteuid() != 0) {
    MESSAGE("only root makes a PID namespace here");
    return;
  }
  test_node node;
  child_process inside{
    {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc", program("swarmd").string(), "--state-dir", node.dir().root.string()},
    node.env(),
    node.work()};
  REQUIRE(eventually([&] { return fs::exists(node.dir().socket()); }));
  auto r = node.ctl({"down", "--no-autostart"});
  CHECK_MESSAGE(r.status == 1, r.out, r.err);
  CHECK_MESSAGE(r.err.find("PID namespace") != std::string::npos, r.err);
  auto e = node.ctl_json({"whoami", "--explain"});
  CHECK(e.at("rule") == "unreadable");
  CHECK(e.at("principal").is_null());
  inside.signal(SIGKILL);
}

TEST_CASE("a process in a PID namespace below an agent is the agent's") {
  if (geteuid() != 0) {
    MESSAGE("only root makes a PID namespace here");
    return;
  }
  trust_node node;
  auto r = node.agent("unshare --pid --fork --mount-proc " + ctl() + " whoami --explain --json");
  REQUIRE_MESSAGE(r.parsed().is_object(), r.out, r.err);
  CHECK(r.parsed().at("rule") == "agent_unregistered");
}

TEST_CASE("the token of one worker counts for nothing in another one, nor in an agent") {
  trust_node node;
  const auto token = node.work() + "/token";
  REQUIRE(node
            .ctl({"dispatch", "first", "--harness", "exec", "--detach", "--", "sh", "-c",
                  "echo $SWARM_TOKEN > " + token + ".new; " + ctl() + " lock f; mv " + token + ".new " + token +
                    "; while [ ! -e go ]; do sleep 0.05; done"})
            .status == 0);
  REQUIRE(eventually([&] { return fs::exists(token); }));
  const auto stolen = file_text(token).substr(0, 64);
  const auto attempt = "SWARM_TOKEN=" + stolen + " " + with_status("unlock f");
  auto r = node.ctl_json({"dispatch", "second", "--harness", "exec", "--", "sh", "-c", attempt});
  CHECK_MESSAGE(r.at("output_tail").get<std::string>().find("status 1") != std::string::npos, r.dump());
  auto a = node.agent(attempt);
  CHECK_MESSAGE(is_refused(a), a.out, a.err);
  CHECK_MESSAGE(a.err.find("another worker or agent") != std::string::npos, a.err);
  CHECK(node.ctl_json({"locks"}).size() == 1);
  CHECK(node.ctl({"unlock", "f"}, {.env = {{"SWARM_TOKEN", stolen}}}).status == 0); // a person's hands are its own
  std::ofstream{node.work() + "/go"};
}

TEST_CASE("without a node an agent or worker ends no programs, and starts none that a person has stopped") {
  trust_node node;
  const auto ended = [&](const char* name) { return file_text(node.work() + "/" + name); };
  const auto in_worker = [&](const std::string& before, const std::string& file) {
    return before + with_status("down --yes") + " > " + file + ".new 2>&1; mv " + file + ".new " + file + "; ";
  };
  const auto id = node
                    .ctl_json({"pty", "new", "--", "sh", "-c",
                               "while [ ! -e go ]; do sleep 0.05; done; " + in_worker("", "worker") +
                                 in_worker("env -i SWARM_HOME=" + node.dir().root.string() + " ", "bare") + "exec sleep 1000"})
                    .at("id")
                    .get<std::string>();
  node.kill_node();
  for (const auto& [before, variables] : {std::pair{"", environment{}}, std::pair{"setsid -w ", environment{}}}) {
    auto r = node.agent(before + with_status("down --yes"), variables);
    CHECK_MESSAGE(is_refused(r), r.out, r.err);
    CHECK_MESSAGE(r.err.find("keeping a node down is for a person to do, and this process was started by the agent claude") != std::string::npos,
                  r.err);
  }
  CHECK(node.ctl({"down", "--yes"}, {.env = {{"CLAUDECODE", "1"}}}).status == 1);
  std::ofstream{node.work() + "/go"};
  REQUIRE(eventually([&] { return !ended("bare").empty(); }));
  CHECK_MESSAGE(ended("worker").find("status 1") != std::string::npos, ended("worker"));
  CHECK_MESSAGE(ended("bare").find("status 1") != std::string::npos, ended("bare"));
  CHECK_FALSE(fs::exists(node.dir().stopped_mark()));
  CHECK(node.agent(with_status("up")).out.find("status 0") != std::string::npos); // agents start what they need
  CHECK(node.ctl_json({"pty", "list"})[0].at("running") == true);
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  for (const auto* how : {"up", "up --foreground", "up --take-keeper"}) {
    auto r = node.agent(with_status(how));
    CHECK_MESSAGE(is_refused(r), how, ": ", r.out, r.err);
  }
  for (const std::string how : {"--end-programs", "--restore x", "--restore x --if-wanted", ""}) {
    auto r = node.agent(program("swarmd").string() + " " + how + "; echo status $?");
    CHECK_MESSAGE(is_refused(r), how, ": ", r.out, r.err);
    CHECK_MESSAGE(r.err.find("for a person to do") != std::string::npos, how, ": ", r.err);
  }
  CHECK(fs::exists(node.dir().stopped_mark()));
  CHECK(node.node_pid() == 0);
  CHECK(node.ctl({"up"}).status == 0);
  CHECK(node.ctl_json({"pty", "list"})[0].at("running") == true);
  CHECK(node.ctl({"pty", "kill", id}).status == 0);
}

TEST_CASE("an agent puts no other store in place, and a person does") {
  trust_node node;
  const auto backup = node.work() + "/backup.db";
  REQUIRE(node.ctl({"backup", backup}).status == 0);
  REQUIRE(node.ctl({"kv", "set", "k", "v"}).status == 0);
  node.kill_node();
  auto r = node.agent(with_status("restore " + backup));
  CHECK_MESSAGE(is_refused(r), r.out, r.err);
  CHECK_MESSAGE(r.err.find("for a person to do") != std::string::npos, r.err);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "k"}).out == "v\n");
  REQUIRE(node.ctl({"down"}).status == 0);
  CHECK(node.ctl({"restore", backup}).status == 0);
}

TEST_CASE("an agent or worker does not say where commands go") {
  trust_node node;
  const environment plain{{"SWARM_HOME", ""}}; // with it no context counts
  REQUIRE(node.ctl({"context", "set", "lab", "--state-dir", node.work() + "/lab"}, {.env = plain}).status == 0);
  const auto file = fs::path{node.env().at("HOME")} / ".config/swarm/contexts.toml";
  const auto before = file_text(file);
  REQUIRE_FALSE(before.empty());
  for (const auto& line : {"context set lab --state-dir " + node.work() + "/x", std::string{"context set other --ssh h"},
                           std::string{"context use lab"}, std::string{"context delete lab"}, std::string{"context use default"}}) {
    auto r = node.agent(with_status(line), plain);
    CHECK_MESSAGE(is_refused(r), line, ": ", r.out, r.err);
    CHECK_MESSAGE(r.err.find("for a person to do") != std::string::npos, line, ": ", r.err);
    for (const std::string how : {"", "env -u SWARM_SPAWN_ID -u SWARM_TOKEN "}) {
      auto w = node.ctl_json({"dispatch", how + line, "--harness", "exec", "--", "sh", "-c", how + with_status(line)});
      CHECK_MESSAGE(w.at("output_tail").get<std::string>().find("status 1") != std::string::npos, line, ": ", w.dump());
    }
  }
  CHECK(file_text(file) == before);
  CHECK(node.agent(with_status("context list"), plain).out.find("status 0") != std::string::npos);
}

TEST_CASE("an agent does not take its guard out or weaken it, and may strengthen it") {
  trust_node node;
  const auto settings = fs::path{node.env().at("HOME")} / ".claude/settings.json";
  REQUIRE(node.ctl({"install", "--host", "claude", "--enforce", "--fail-closed"}).status == 0);
  const auto before = file_text(settings);
  REQUIRE_FALSE(before.empty());
  for (const auto* how :
       {"--uninstall --yes --host claude", "--uninstall --yes", "--host claude --yes", "--host all --enforce --yes", "--fail-closed --yes",
        "--uninstall --dry-run=false --yes --host claude", "--host claude --yes --enforce=false --fail-closed=false"}) {
    auto r = node.agent(with_status("install " + std::string{how}));
    CHECK_MESSAGE(is_refused(r), how, ": ", r.out, r.err);
    CHECK_MESSAGE(r.err.find("for a person to do") != std::string::npos, how, ": ", r.err);
  }
  CHECK(file_text(settings) == before);
  for (const auto* how : {"--uninstall --dry-run --host claude", "--host claude --enforce --fail-closed", "--host gemini"})
    CHECK_MESSAGE(node.agent(with_status("install " + std::string{how})).out.find("status 0") != std::string::npos, how);
  CHECK(file_text(settings) == before);
  CHECK(node.ctl({"install", "--uninstall", "--host", "claude"}).status == 0);
}

TEST_CASE("who has logged in below an agent does what is a person's, and an agent is not asked for a passphrase to be set") {
  if (!is_there("script")) {
    MESSAGE("no script here");
    return;
  }
  trust_node node;
  terminal_process agent{{node.claude, "-c", with_status("login --set")}, node.env(), node.work()};
  CHECK(agent.read_until("status 1"));
  CHECK_MESSAGE(agent.screen().find("passphrase for") == std::string::npos, agent.screen());
  set_passphrase(node);
  const auto line = with_status("context set lab --state-dir " + node.work() + "/lab") + " >> said\n";
  terminal_process terminal{{node.claude, "-c", std::string{terminal_with_shell} + "; :"}, node.env(), node.work()};
  terminal.type(line);
  REQUIRE(eventually([&] { return file_text(node.work() + "/said") == "status 1\n"; }));
  log_in(terminal);
  terminal.type(line);
  CHECK(eventually([&] { return file_text(node.work() + "/said").ends_with("status 0\n"); }));
  terminal.type("exit\n");
  terminal.finish();
}
