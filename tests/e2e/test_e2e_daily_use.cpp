// What a person at a shell trips over in the first weeks: names that hit the wrong thing, a node that comes back by itself, pipes, terminals.
#include <csignal>
#include <fstream>
#include <optional>

#include <doctest/doctest.h>

#include "tests/support/mcp_client.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

/// A Git repository of its own, which is a scope.
std::string repository(const test_node& node, const std::string& name) {
  auto path = fs::path{node.work()} / name;
  fs::create_directories(path / ".git");
  return path.string();
}

json terminal(const test_node& node, const std::string& id) {
  for (const auto& p : node.ctl_json({"pty", "list", "--all"}))
    if (p.at("id") == id)
      return p;
  return nullptr;
}

run_result shell(const test_node& node, const std::string& script) {
  auto with_path = node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}});
  return child_process{{"/bin/bash", "-c", script}, with_path, node.work()}.finish();
}

} // namespace

// -- names ------------------------------------------------------------------------------------

TEST_CASE("a word that is one terminal's name and the beginning of another one's id is refused by every verb, in every scope") {
  test_node node;
  auto one = repository(node, "one"), two = repository(node, "two");
  std::string other = node.ctl_json({"pty", "new", "--name", "other", "--", "sleep", "1000"}, {.directory = one}).at("id");
  auto name = other.substr(0, 6);
  std::string mine = node.ctl_json({"pty", "new", "--name", name, "--", "sleep", "1000"}, {.directory = two}).at("id");
  for (const auto& line : {std::vector<std::string>{"pty", "kill", name},
                           {"pty", "send", name, "x"},
                           {"pty", "read", name},
                           {"pty", "resize", name, "--columns", "100", "--rows", "30"},
                           {"pty", "attach", name},
                           {"pty", "kill", "absent", name}}) {
    auto ambiguous = node.ctl(line, {.directory = two});
    CHECK(ambiguous.status == 1);
    CHECK_MESSAGE(ambiguous.err.find("the beginning of another one's id") != std::string::npos, line[1], ": ", ambiguous.err);
    CHECK(ambiguous.err.find(mine) != std::string::npos);
  }
  CHECK(terminal(node, mine).at("running") == true);
  CHECK(terminal(node, other).at("running") == true);
  CHECK(node.ctl({"pty", "kill", mine}, {.directory = two}).status == 0);
  CHECK(eventually([&] { return terminal(node, mine).at("running") == false; }));
  CHECK(terminal(node, other).at("running") == true);
}

TEST_CASE("a terminal is killed by its name or the beginning of its id in this scope, of another one by its whole id") {
  test_node node;
  auto one = repository(node, "one"), two = repository(node, "two");
  std::string other = node.ctl_json({"pty", "new", "--name", "other", "--", "sleep", "1000"}, {.directory = one}).at("id");
  std::string mine = node.ctl_json({"pty", "new", "--name", "mine", "--", "sleep", "1000"}, {.directory = two}).at("id");
  CHECK(node.ctl({"pty", "kill", "mine"}, {.directory = two}).status == 0);
  CHECK(eventually([&] { return terminal(node, mine).at("running") == false; }));
  auto refused = node.ctl({"pty", "kill", other.substr(0, 8)}, {.directory = two});
  CHECK(refused.status == 1);
  CHECK(refused.err.find(other) != std::string::npos);
  CHECK(terminal(node, other).at("running") == true);
  CHECK(node.ctl({"pty", "read", other.substr(0, 8)}, {.directory = two}).status == 0);
  CHECK(node.ctl({"pty", "kill", other}, {.directory = two}).status == 0);
}

TEST_CASE("tasks are meant by the beginning of their ids, and @last is what this terminal made last") {
  test_node node;
  auto me = node.session("name:me");
  std::string first = node.ctl_json({"request-task", "fix", "first"}).at("id");
  std::string second = node.ctl_json({"request-task", "fix", "second", "--depends-on", first.substr(0, 8)}).at("id");
  CHECK(node.ctl_json({"task", second.substr(0, 8)}).at("depends_on") == json{first});
  CHECK(node.ctl_json({"task", "@last"}).at("id") == second);
  CHECK(node.ctl({"claim", first.substr(0, 8), "--as", me}).status == 0);
  CHECK(node.ctl({"report-progress", first.substr(0, 8), "half", "--as", me}).status == 0);
  CHECK(node.ctl({"complete-task", first.substr(0, 8), "--summary", "done", "--as", me}).status == 0);
  CHECK(node.ctl_json({"task", first.substr(0, 8)}).at("status") == "done");
  auto unknown = node.ctl({"task", "00000000"});
  CHECK(unknown.status == 1);
  CHECK(unknown.err.find("swarmctl tasks") != std::string::npos);
  CHECK(node.ctl({"cancel", ""}).status == 2);
  CHECK(node.ctl_json({"task", second}).at("status") == "open");
  // A person's own terminal has a newest task of its own.
  terminal_process person{{program("swarmctl").string(), "request-task", "fix", "mine"}, node.env(), node.work()};
  CHECK(person.finish() == 0);
  terminal_process same{
    {"/bin/sh", "-c", "swarmctl request-task fix of-this-terminal; swarmctl request-task fix x >/dev/null </dev/null; swarmctl task @last"},
    node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}}),
    node.work()};
  CHECK(same.finish() == 0);
  CHECK(same.screen().find("title: x") != std::string::npos);
}

TEST_CASE("@last of a script without a terminal is what that script made last, also in a container, and nobody else's") {
  test_node node;
  REQUIRE(node.ctl({"request-task", "fix", "somebody's"}).status == 0);
  const auto path = node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}});
  const std::string script =
    "swarmctl request-task fix mine >/dev/null && setsid -w swarmctl request-task fix others >/dev/null && swarmctl task @last";
  const auto run = [&](const std::string& line) { return child_process{{"/bin/sh", "-c", line}, path, node.work()}.finish(); };
  const auto last_in = [&](const std::string& before) { return run("exec " + before + " sh -c '" + script + "'"); };
  auto alone = last_in("setsid -w");
  REQUIRE_MESSAGE(alone.status == 0, alone.err);
  CHECK_MESSAGE(alone.out.find("title: mine") != std::string::npos, alone.out);
  // Who made nothing gets the newest one there is.
  auto nothing = run("exec setsid -w swarmctl task @last");
  CHECK_MESSAGE(nothing.out.find("title: others") != std::string::npos, nothing.out);
  // The session of what runs in there began outside, and has no number.
  const std::string container = "unshare --user --map-current-user --pid --fork --kill-child --mount-proc";
  if (run(container + " true").status != 0) {
    MESSAGE("no PID namespace can be made here");
    return;
  }
  auto contained = last_in(container);
  CHECK_MESSAGE(contained.out.find("title: mine") != std::string::npos, contained.err);
}

TEST_CASE("@last of each of two scripts that one shell has started without a terminal is its own, also where a wrapper made it") {
  test_node node;
  node.start();
  std::ofstream{fs::path{node.work()} / "x.sh"} << R"(#!/bin/bash
id=$(swarmctl request-task fix "$1" --json | tr -d '\n')
timeout 1000 swarmctl request-task fix "$1 again" >/dev/null
echo >"made-by-$1"
read -r <"go-$1"
(swarmctl task @last --json >"last-of-$1"; true)
)";
  const auto env = node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}});
  const std::string both = "mkfifo made-by-one made-by-two go-one go-two; bash x.sh one & bash x.sh two & "
                           "read -r <made-by-one; read -r <made-by-two; echo >go-one; echo >go-two; wait";
  auto ran = child_process{{"/usr/bin/setsid", "-w", "/bin/bash", "-c", both}, env, node.work()}.finish();
  REQUIRE_MESSAGE(ran.status == 0, ran.err);
  for (const std::string who : {"one", "two"})
    CHECK(json::parse(file_text(fs::path{node.work()} / ("last-of-" + who))).at("title") == who + " again");
}

TEST_CASE("a claim that unread mail refuses names a command after which it is accepted") {
  test_node node;
  auto me = node.session("role:builder name:max");
  std::string task = node.ctl_json({"request-task", "fix", "it"}).at("id");
  REQUIRE(node.ctl({"send", "--to", "name:max", "wait"}).status == 0);
  auto refused = node.ctl({"claim", task, "--as", "name:max"});
  CHECK(refused.status == 1);
  const auto reading = "swarmctl bootstrap --as " + me;
  CHECK_MESSAGE(refused.err.find(reading) != std::string::npos, refused.err);
  auto read = node.ctl({"bootstrap", "--as", me});
  CHECK_MESSAGE(read.out.find("\"wait\"") != std::string::npos, read.out);
  CHECK(node.ctl({"claim", task, "--as", "name:max"}).status == 0);
}

TEST_CASE("an unset variable is no mail and no name of a backup, under the name swarm-mcp it is mail") {
  test_node node;
  auto me = node.session("name:me");
  for (const auto& words : std::vector<std::vector<std::string>>{{"send", "--to", me, ""}, {"broadcast", " "}, {"backup", ""}}) {
    auto refused = node.ctl(words);
    CHECK_MESSAGE(refused.status == 2, words.front());
    CHECK_MESSAGE(refused.err.find("empty") != std::string::npos, refused.err);
  }
  CHECK(node.ctl_json({"messages", "--to", me}).empty());
  REQUIRE(shell(node, "ln -s $(command -v swarmctl) swarm-mcp").status == 0);
  CHECK(shell(node, "./swarm-mcp send --to " + me + " ''").status == 0);
}

// -- a node that was stopped --------------------------------------------------------------------

TEST_CASE("down stays down until up, and what needs a node says so") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "a", "1"}).status == 0);
  REQUIRE(node.ctl({"down"}).status == 0);
  auto verb = node.ctl({"kv", "get", "a"});
  CHECK(verb.status == 3);
  CHECK(verb.err.find("swarmctl up") != std::string::npos);
  auto hook = node.ctl({"hook", "claude", "pre-tool-use"},
                       {.input = R"({"session_id":"s","tool_name":"Edit","tool_input":{"file_path":")" + node.work() + R"(/a.c"}})"});
  CHECK(hook.status == 0);
  CHECK(node.node_pid() == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "a"}).out == "1\n");
  // A node that dies by itself comes back when it is needed.
  node.kill_node();
  CHECK(node.ctl({"kv", "get", "a"}).out == "1\n");
}

TEST_CASE("down sets its mark also when no node happens to run") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "a", "1"}).status == 0);
  node.kill_node();
  auto down = node.ctl({"down"});
  CHECK(down.status == 0);
  CHECK(down.out == "no node is running; it stays down until: swarmctl up\n");
  CHECK(down.err.find("programs in terminals go on") == std::string::npos);
  CHECK(node.ctl({"kv", "get", "a"}).status == 3);
  CHECK(node.node_pid() == 0);
  CHECK(node.ctl({"status"}).err.find("was stopped with swarmctl down") != std::string::npos);
  auto doctor = node.ctl({"doctor"});
  CHECK(doctor.status == 0);
  CHECK(doctor.out.find("database: " + node.dir().database().string()) != std::string::npos);
  CHECK(doctor.out.find("node: it was stopped with swarmctl down") != std::string::npos);
  CHECK(doctor.out.find("Nothing is wrong") == std::string::npos);
  CHECK(doctor.out.find("see the lines with WARN.") != std::string::npos);
}

TEST_CASE("down ends what down --keep-programs has left and names it, and the next node knows that it was killed") {
  test_node node;
  std::string task =
    node.ctl_json({"dispatch", "stay", "--harness", "exec", "--detach", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000"}).at("task_id");
  REQUIRE(eventually([&] { return count_lines(node.work() + "/pid") == 1; }));
  auto pid = std::stoi(file_text(node.work() + "/pid"));
  REQUIRE(node.down({"--keep-programs"}).status == 0);
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(is_running(pid));
  auto down = node.ctl({"down"});
  CHECK_MESSAGE(down.status == 0, down.err);
  CHECK_MESSAGE(down.err.find("ended 1 program:") != std::string::npos, down.err);
  CHECK_MESSAGE(down.err.find("sh -c echo $$ > pid; exec sleep 1000") != std::string::npos, down.err);
  CHECK_FALSE(is_running(pid));
  CHECK(node.ctl({"tasks"}).status == 3);
  auto third = node.ctl({"down"});
  CHECK(third.status == 0);
  CHECK(third.err.empty());
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return node.ctl_json({"task", task}).at("status") == "failed"; }));
  CHECK(node.ctl({"task", task}).out.find("it was ended on request") != std::string::npos);
}

TEST_CASE("the programs of a node that was killed go on after down --keep-programs, and are there after up") {
  test_node node;
  std::string id = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("id");
  node.kill_node();
  auto down = node.ctl({"down", "--keep-programs"});
  CHECK(down.status == 0);
  CHECK(down.out.find("programs in terminals go on") != std::string::npos);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return terminal(node, id).at("running") == true; }));
}

TEST_CASE("whoever follows what down has ended is told how to go on") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto task = node.ctl_start({"dispatch", "sleep", "--harness", "exec", "--", "sh", "-c", "echo begun; sleep 1000"});
  REQUIRE(task.read_until("begun"));
  auto events = node.ctl_start({"events", "--follow", "--since", "0"});
  auto by_hand = node.ctl_start({"events", "--follow", "--since", "0", "--no-autostart"});
  REQUIRE(events.read_until("task.created"));
  REQUIRE(by_hand.read_until("task.created"));
  std::string id = node.ctl_json({"pty", "new", "--", "sh", "-c", "echo ready; sleep 1000"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, node.env(), node.work()};
  REQUIRE(person.read_until("ready"));
  REQUIRE(node.ctl({"down", "--yes"}).status == 0);
  const auto how =
    "the node of " + node.dir().root.string() + " was stopped with swarmctl down, which ended its programs, and stays so until: swarmctl up";
  for (auto* follower : {&task, &events, &by_hand}) {
    auto end = follower->finish();
    CHECK(end.status == 3);
    CHECK_MESSAGE(end.err.find(how) != std::string::npos, end.err);
  }
  CHECK(person.finish() == 3);
  CHECK_MESSAGE(person.screen().find(how) != std::string::npos, person.screen());
  CHECK(person.screen().find("comes back with it") == std::string::npos);
  CHECK(node.node_pid() == 0);
}

TEST_CASE("down names what it ends, asks a person at a terminal, and lets programs go on") {
  test_node node;
  std::string id = node.ctl_json({"pty", "new", "--name", "build", "--", "sleep", "1000"}).at("id");
  terminal_process no{{program("swarmctl").string(), "down"}, node.env(), node.work()};
  REQUIRE(no.read_until("End them? [y/N]"));
  CHECK(no.screen().find("build  sleep 1000") != std::string::npos);
  no.type("n\r");
  CHECK(no.finish() == 1);
  CHECK(terminal(node, id).at("running") == true);
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return terminal(node, id).at("running") == true; }));
  auto down = node.ctl({"down", "--json"});
  CHECK(down.status == 0);
  CHECK(down.err.find("ended 1 program:\n  " + id.substr(0, 8) + "  build  sleep 1000") != std::string::npos);
  CHECK(down.parsed().at("ended").at(0).at("id") == id);
}

TEST_CASE("restore puts a backup in the place of the store, keeps the old one, and is refused while a node runs") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "a", "old"}).status == 0);
  auto backup = node.work() + "/b.db";
  REQUIRE(node.ctl({"backup", backup}).status == 0);
  REQUIRE(node.ctl({"kv", "set", "a", "new"}).status == 0);
  auto early = node.ctl({"restore", backup});
  CHECK(early.status == 1);
  CHECK(early.err.find("swarmctl down") != std::string::npos);
  mcp_client agent{node};
  agent.initialize();
  agent.call_later("wait_for_activity", {{"timeout_seconds", 60}});
  REQUIRE(node.ctl({"down"}).status == 0);
  std::ofstream{node.work() + "/junk.db"} << "no store";
  auto junk = node.ctl({"restore", node.work() + "/junk.db"});
  CHECK(junk.status == 1);
  CHECK(junk.err.find("junk.db") != std::string::npos);
  auto restored = node.ctl_json({"restore", backup});
  fs::path old{restored.at("replaced").get<std::string>()};
  CHECK(fs::exists(old / "swarm.db"));
  CHECK(node.node_pid() == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "a"}).out == "old\n");
  REQUIRE(node.ctl({"kv", "set", "x", "1"}).status == 0);
  REQUIRE(node.ctl({"down"}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(node.ctl({"kv", "get", "x"}).out == "1\n");
}

TEST_CASE("a restore that is killed in its middle is finished by the next start") {
  for (auto moved : {0, 1, 3}) { // files of the old store that were out of the way
    CAPTURE(moved);
    test_node node;
    REQUIRE(node.ctl({"kv", "set", "a", "old"}).status == 0);
    auto copy = node.dir().database().string() + ".restoring";
    REQUIRE(node.ctl({"backup", copy}).status == 0);
    REQUIRE(node.ctl({"kv", "set", "a", "new"}).status == 0);
    node.kill_node();
    auto away = node.dir().root / "replaced-before";
    fs::create_directory(away);
    std::ofstream{node.dir().root / "restore-under-way"} << "replaced-before";
    int n = 0;
    for (const auto* suffix : {"", "-wal", "-shm", ".commits"})
      if (fs::path file{node.dir().database().string() + suffix}; n < moved && fs::exists(file)) {
        fs::rename(file, away / file.filename());
        ++n;
      }
    REQUIRE(node.ctl({"up"}).status == 0);
    CHECK(node.ctl({"kv", "get", "a"}).out == "old\n");
    CHECK(fs::exists(away / "swarm.db"));
    CHECK_FALSE(fs::exists(copy));
    CHECK_FALSE(fs::exists(node.dir().root / "restore-under-way"));
  }
}

TEST_CASE("a node whose store is moved away ends instead of answering what is in no store") {
  test_node node;
  node.start();
  REQUIRE(node.ctl({"kv", "set", "a", "1"}).status == 0);
  fs::rename(node.dir().database(), node.dir().root / "moved.db");
  constexpr int store_moved = 74;
  CHECK(node.wait_for_exit() == store_moved);
  CHECK(file_text(node.dir().log_dir() / "swarmd.log").find("swarmctl restore FILE") != std::string::npos);
}

// -- terminals ----------------------------------------------------------------------------------

TEST_CASE("a user who leaves a terminal gets back the own one as it was") {
  test_node node;
  std::string id =
    node.ctl_json({"pty", "new", "--name", "vim", "--", "sh", "-c", R"(printf '\033[?1049h\033[?1000h\033[?25l\033=\033[31mready'; sleep 1000)"})
      .at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", "vim"}, node.env(), node.work()};
  REQUIRE(person.read_until("ready"));
  CHECK(person.screen().find("Ctrl-] leaves it") != std::string::npos);
  person.type("\x1d");
  CHECK(person.finish() == 0);
  auto undone = person.screen().substr(person.screen().find("ready"));
  // The program has drawn over the line that names the key, and not over the title of the window.
  CHECK(person.screen().find("\x1b[22;0t\x1b]2;vim (Ctrl-] leaves)\a") < person.screen().find("ready"));
  for (const auto* sequence : {"\x1b>", "\x1b[0m", "\x1b[?25h", "\x1b[?1000l", "\x1b[?1049l", "\x1b[23;0t"})
    CHECK_MESSAGE(undone.find(sequence) != std::string::npos, sequence);
}

TEST_CASE("the key that leaves a terminal is that of config.toml, and the hint names it") {
  test_node node;
  fs::create_directories(node.dir().root);
  std::ofstream{node.dir().config_file()} << "[terminal]\ndetach_key = \"ctrl-a\"\n";
  auto created = node.ctl_json({"dispatch", "Fix the Parser", "--detach", "--harness", "exec", "--", "sh", "-c", "echo ready; sleep 1000"});
  REQUIRE(eventually([&] { return node.ctl({"pty", "read", "fix-the-parser"}).out.find("ready") != std::string::npos; }));
  terminal_process person{{program("swarmctl").string(), "pty", "attach", "fix-the-parser"}, node.env(), node.work()};
  REQUIRE(person.read_until("ready"));
  CHECK(person.screen().find("attached to fix-the-parser (") != std::string::npos);
  CHECK(person.screen().find("Ctrl-A leaves it") != std::string::npos);
  person.type("\x01");
  CHECK(person.finish() == 0);
}

TEST_CASE("terminals that have ended go out of the list on request, those that run stay, and the output of a task is still there") {
  test_node node;
  auto created = node.ctl_json({"dispatch", "say hello", "--harness", "exec", "--", "sh", "-c", "echo hello"});
  std::string running = node.ctl_json({"pty", "new", "--name", "server", "--", "sleep", "1000"}).at("id");
  auto dry = node.ctl({"pty", "prune", "--dry-run"});
  CHECK(dry.out.find("  say-hello  exit 0") != std::string::npos);
  CHECK(node.ctl_json({"pty", "list"}).size() == 2);
  CHECK(node.ctl({"pty", "prune"}).status == 0);
  auto left = node.ctl_json({"pty", "list"});
  REQUIRE(left.size() == 1);
  CHECK(left[0].at("id") == running);
  CHECK(node.ctl({"logs", created.at("task_id").get<std::string>()}).out.find("hello") != std::string::npos);
  node.kill_node();
  CHECK(node.ctl_json({"pty", "list"}).size() == 1);
}

TEST_CASE("an agent writes to the person, who follows it and reads it on a terminal") {
  test_node node;
  auto ann = node.session("name:ann");
  REQUIRE(node.ctl({"send", "--to", "operator", "--as", ann, "which", "branch?"}).status == 0);
  auto mine = node.ctl_json({"messages", "--mine"});
  REQUIRE(mine.size() == 1);
  CHECK(mine[0].at("sender") == ann);
  CHECK(mine[0].at("content") == "which branch?");
  CHECK(mine[0].at("read") == 0);
  auto follower = node.ctl_start({"messages", "--mine", "--follow"});
  REQUIRE(follower.read_until("which branch?"));
  node.kill_node(); // it goes on over a restart
  REQUIRE(node.ctl({"send", "--to", "operator", "--as", ann, "never mind"}).status == 0);
  CHECK(follower.read_until("never mind"));
  terminal_process person{{program("swarmctl").string(), "messages", "--mine"}, node.env(), node.work()};
  CHECK(person.finish() == 0);
  CHECK(person.screen().find("* #") != std::string::npos);
  mine = node.ctl_json({"messages", "--mine"});
  REQUIRE(mine.size() == 2);
  CHECK(mine[0].at("read") == 1);
  CHECK(mine[1].at("content") == "never mind");
  CHECK(mine[1].at("read") == 1);
}

TEST_CASE("an attached terminal outlives the node's kill -9 and an upgrade, and misses no byte") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  std::string id = node.ctl_json({"pty", "new", "--", "sh", "-c", "while read -r line; do echo got-$line; done"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, node.env(), node.work()};
  person.type("one\r");
  REQUIRE(person.read_until("got-one"));
  node.kill_node();
  // What is typed while the node is away for longer than a restart takes is not kept; then it is there again, started by who needs it.
  CHECK(eventually([&] {
    person.type("two\r");
    return person.read_until("got-two", std::chrono::milliseconds{500});
  }));
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  CHECK(node.node_pid() == 0);
  CHECK(person.read_until("the node is away"));
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] {
    person.type("three\r");
    return person.read_until("got-three", std::chrono::milliseconds{500});
  }));
  person.type("\x1d");
  CHECK(person.finish() == 0);
}

TEST_CASE("a line that is typed while the node restarts arrives whole, or the person is told that keys are lost") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  std::string id = node.ctl_json({"pty", "new", "--", "sh", "-c", "stty -echo; echo ready; while read -r line; do echo got-$line.; done"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, node.env(), node.work()};
  REQUIRE(person.read_until("ready"));
  for (const std::string round : {"1", "2", "3"}) {
    const auto before = person.screen().size();
    person.type("rm-" + round + "-b");
    node.kill_node();
    person.type("uild");
    person.type("-cache\r");
    const auto came = [&](const std::string& text) { return person.screen().find(text, before) != std::string::npos; };
    const auto whole = "got-rm-" + round + "-build-cache.";
    // Which of the two depends on how soon the node is back, and on when the first keys got there.
    CHECK(eventually([&] {
      person.read_until(whole, std::chrono::milliseconds{20});
      return came(whole) || came("look at the line before you go on]");
    }));
    CHECK_FALSE(came("-b-cache."));
    CHECK(eventually([&] {
      person.type("\x15"
                  "next-" +
                  round + "\r"); // Ctrl-U: what is left of the line goes
      return person.read_until("got-next-" + round + ".", std::chrono::milliseconds{500});
    }));
  }
  person.type("\x1d");
  CHECK(person.finish() == 0);
}

TEST_CASE("a user who is attached while the node is away can leave") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  std::string id = node.ctl_json({"pty", "new", "--", "sh", "-c", "echo ready; sleep 1000"}).at("id");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, node.env(), node.work()};
  REQUIRE(person.read_until("ready"));
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(person.read_until("Ctrl-] leaves]"));
  person.type("\x1d");
  CHECK(person.finish() == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
}

// -- pipes --------------------------------------------------------------------------------------

TEST_CASE("what follows ends with its reader, and output that cannot be written is no success") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "a", "1"}).status == 0);
  auto head = shell(node, "swarmctl events --follow --since 0 | head -1; echo ${PIPESTATUS[0]}");
  CHECK(lines_of(head.out).back() == "141");
  REQUIRE(node.ctl({"pty", "new", "--name", "quiet", "--", "sh", "-c", "echo first; sleep 1000"}).status == 0);
  auto first = shell(node, "swarmctl pty read quiet --follow | head -1; echo ${PIPESTATUS[0]}");
  CHECK(lines_of(first.out).back() == "141");
  for (const auto* verb : {"tasks", "tasks --json", "--help", "status"}) {
    CAPTURE(verb);
    auto full = shell(node, std::string{"swarmctl "} + verb + " >/dev/full");
    CHECK(full.status == 1);
    CHECK(full.err.find("No space left on device") != std::string::npos);
  }
}

TEST_CASE("a standard stream that the caller has closed is never a socket or a file of ours") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(shell(node, "timeout 20 swarmctl mcp <&-").status == 0);
  auto closed = shell(node, "swarmctl status >&-");
  CHECK(closed.status == 1);
  CHECK_MESSAGE(closed.err.find("the output cannot be written: standard output is closed") != std::string::npos, closed.err);
  CHECK(shell(node, "swarmctl status 2>&- >/dev/null").status == 0);
  REQUIRE(node.down().status == 0);
  // The node is a child of the shell then, with what the shell has.
  auto streams =
    shell(node, "swarmd <&- >&- 2>&- & for i in $(seq 400); do swarmctl status --no-autostart >/dev/null 2>&1 && break; sleep 0.05; done; "
                "readlink /proc/$!/fd/0 /proc/$!/fd/1 /proc/$!/fd/2");
  CHECK(lines_of(streams.out) == std::vector<std::string>{"/dev/null", "/dev/null", "/dev/null"});
}

TEST_CASE("in a directory that was removed verbs that need none work, and the others say what is wrong") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto gone =
    shell(node, "mkdir gone && cd gone && rmdir ../gone && swarmctl status >/dev/null && swarmctl --scope team kv list >/dev/null && swarmctl tasks");
  CHECK(gone.status == 1);
  CHECK(gone.err.find("the working directory has been removed") != std::string::npos);
}

TEST_CASE("the node starts for somebody whose directory was removed, and doctor finds nothing against it") {
  test_node node;
  auto in_gone = [&](const std::string& line) { return shell(node, "mkdir gone && cd gone && rmdir ../gone && " + line); };
  auto needed = in_gone("swarmctl --scope team kv set a 1");
  CHECK_MESSAGE(needed.status == 0, needed.err);
  auto doctor = in_gone("swarmctl --scope team doctor");
  CHECK_MESSAGE(doctor.out.find("nothing keeps the node from starting") != std::string::npos, doctor.out);
  REQUIRE(node.down().status == 0);
  auto up = in_gone("swarmctl up");
  CHECK_MESSAGE(up.status == 0, up.err);
  CHECK(node.ctl({"--scope", "team", "kv", "get", "a"}).out == "1\n");
}

// -- honest answers -----------------------------------------------------------------------------

TEST_CASE("what was not there to be released, deleted or unsubscribed is not claimed to have been") {
  test_node node;
  auto bob = node.session("name:bob"), eve = node.session("name:eve");
  REQUIRE(node.ctl({"lock", "f", "--as", bob}).status == 0);
  auto unlock = node.ctl({"unlock", "f", "--as", eve});
  CHECK(unlock.status == 1);
  CHECK(unlock.err.find("name:eve does not hold " + node.work() + "/f; name:bob does") != std::string::npos);
  CHECK(node.ctl({"unlock", "f", "--as", eve, "--json"}).parsed().at("released") == false);
  CHECK(node.ctl({"kv", "del", "nope"}).status == 1);
  CHECK(node.ctl({"unsubscribe", "nope"}).status == 1);
  CHECK(node.ctl({"lock", "f", "--as", bob, "--exclusive"}).err.find("you hold it yourself") != std::string::npos);
  CHECK(node.ctl({"unlock", "f", "--as", bob}).status == 0);
  // The original claims success.
  fs::create_symlink(program("swarmctl"), fs::path{node.work()} / "swarm-mcp");
  CHECK(shell(node, "./swarm-mcp unlock f --as " + eve).status == 0);
  CHECK(shell(node, "./swarm-mcp kv del nope").status == 0);
}

TEST_CASE("a session is ended by its id or a word of its label, not by what merely occurs in it") {
  test_node node;
  auto ann = node.session("name:reviewer");
  auto wrong = node.ctl({"remove-instance", "e"});
  CHECK(wrong.status == 1);
  CHECK_MESSAGE(wrong.err.find("No instance matches") != std::string::npos, wrong.err);
  CHECK(node.ctl({"remove-instance", ann.substr(0, 3)}).status == 1);
  CHECK(node.ctl_json({"instances"}).size() == 1);
  CHECK(node.ctl({"remove-instance", "reviewer"}).status == 0);
  CHECK(node.ctl_json({"instances"}).empty());
}

TEST_CASE("events are told in words, and as JSON to programs") {
  test_node node;
  auto ann = node.session("name:ann");
  REQUIRE(node.ctl({"lock", "a.c", "--as", ann, "--note", "renaming"}).status == 0);
  REQUIRE(node.ctl({"unlock", "a.c", "--as", ann}).status == 0);
  REQUIRE(node.ctl({"kv", "set", "plan", "ship it"}).status == 0);
  auto told = node.ctl({"events"}).out;
  for (auto words : {"registered: name:ann", "locked: renaming", "a.c  unlocked\n", "plan  set: ship it"})
    CHECK_MESSAGE(told.find(words) != std::string::npos, told);
  CHECK(told.find('{') == std::string::npos);
  CHECK(node.ctl({"events", "--json"}).out.find("\"content\":\"renaming\"") != std::string::npos);
}

TEST_CASE("a terminal whose program has ended is not killed again, and the others are") {
  test_node node;
  std::string ended = node.ctl_json({"pty", "new", "--name", "short", "--", "sh", "-c", "exit 4"}).at("id");
  std::string id = node.ctl_json({"pty", "new", "--name", "long", "--", "sleep", "1000"}).at("id");
  REQUIRE(eventually([&] { return terminal(node, ended).at("running") == false; }));
  for (const auto& verb : {std::vector<std::string>{"pty", "kill", "short"}, std::vector<std::string>{"pty", "kill", "short", "--signal", "TERM"}}) {
    auto refused = node.ctl(verb);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("short has ended already (exit 4, ") != std::string::npos, refused.err);
    CHECK(refused.err.find(" ago)") != std::string::npos);
  }
  auto both = node.ctl({"pty", "kill", "short", "long"});
  CHECK(both.status == 1);
  CHECK(both.out == "ended " + id.substr(0, 8) + "\n");
  CHECK(eventually([&] { return terminal(node, id).at("running") == false; }));
}

TEST_CASE("what only a cluster has is refused with the word that this node is in none") {
  test_node node;
  for (const auto& verb : {std::vector<std::string>{"drain", "x"}, std::vector<std::string>{"node", "revoke", "x"}}) {
    auto refused = node.ctl(verb);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.err.find("this node is in no cluster") != std::string::npos, refused.err);
  }
}

TEST_CASE("a signal is named as kill names it") {
  test_node node;
  for (auto name : {"TERM", "SIGTERM", "15"}) {
    CAPTURE(name);
    std::string id = node.ctl_json({"pty", "new", "--", "sleep", "1000"}).at("id");
    CHECK(node.ctl({"pty", "kill", id, "--signal", name}).status == 0);
    CHECK(eventually([&] { return terminal(node, id).at("running") == false; }));
    CHECK(terminal(node, id).at("signal") == 15);
  }
  CHECK(node.ctl({"pty", "kill", "nobody", "--signal", "TREM"}).status == 2);
}

// -- locks ------------------------------------------------------------------------------------

TEST_CASE("a lock covers the directory that it names, follows symbolic links, and is refused on a pattern") {
  test_node node;
  auto ann = node.session("name:ann"), bob = node.session("name:bob");
  const auto src = node.work() + "/src";
  fs::create_directories(src);
  std::ofstream{src + "/a.c"};
  std::ofstream{node.work() + "/what[1].c"};
  fs::create_symlink(src + "/a.c", node.work() + "/link.c");
  auto lock = [&](const std::string& file, const std::string& who) { return node.ctl({"lock", file, "--as", who}); };
  REQUIRE(lock("src", ann).out == "locked " + src + "\n");
  auto refused = lock("src/a.c", bob);
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find(src + " is held by name:ann") != std::string::npos, refused.err);
  CHECK(refused.err.find("swarmctl lock src/a.c --wait") != std::string::npos);
  CHECK(lock("link.c", bob).status == 1);
  CHECK(lock("src/new.c", bob).status == 1);
  auto waiting = node.ctl_start({"lock", "src/a.c", "--as", bob, "--wait", "60"});
  REQUIRE(eventually([&] { return node.ctl_json({"locks"})[0].value("waiters", 0) == 1; }));
  CHECK(node.ctl({"unlock", "src", "--as", ann}).status == 0);
  CHECK(waiting.finish().status == 0);
  // By the file's own name, whichever was given.
  CHECK(node.ctl({"unlock", "link.c", "--as", bob}).out == "unlocked " + src + "/a.c\n");
  CHECK(lock("link.c", bob).out == "locked " + src + "/a.c\n");
  const auto fence = node.ctl_json({"lock", "link.c", "--as", bob}).at("fence").dump();
  CHECK(node.ctl({"kv", "set", "k", "v", "--lock", "link.c", "--fence", fence, "--as", bob}).status == 0);
  auto pattern = lock("*.c", ann);
  CHECK(pattern.status == 1);
  CHECK_MESSAGE(pattern.err.find("is a pattern") != std::string::npos, pattern.err);
  CHECK(lock("what[1].c", ann).status == 0);
  CHECK(lock("/__swarm/role/*", ann).status == 0);
}

TEST_CASE("a terminal without an identity locks nobody out, and --identity gives one that does") {
  test_node node;
  mcp_client at_work{node};
  at_work.initialize();
  at_work.enroll("identity:work role:implementer");
  const auto& agent = at_work.id();
  auto plain = node.session("role:demo");
  auto lock = [&](const std::string& file, const std::string& who) { return node.ctl({"lock", file, "--as", who}); };
  CHECK(lock("a.c", plain).status == 0);
  CHECK(lock("b.c", agent).status == 0);
  std::string home = node.ctl_json({"register", "--identity", "home", "--lease-seconds", "600"}).at("id");
  auto refused = lock("c.c", home);
  CHECK(refused.status == 1);
  for (const auto& part : {agent.substr(0, 8), std::string{"identity:work"}, std::string{"identity:home"}})
    CHECK_MESSAGE(refused.err.find(part) != std::string::npos, refused.err);
  CHECK(node.ctl({"register", "--identity", "a b"}).status == 2);
  CHECK(node.ctl({"register", "--label", "identity:work", "--identity", "home"}).status == 2);
  node.ctl_json({"pty", "new", "--identity", "home", "--name", "t", "--", "sleep", "1000"});
  CHECK(eventually([&] {
    const auto rows = node.ctl_json({"instances"});
    return std::count_if(rows.begin(), rows.end(), [](const json& row) {
             const auto label = row.value("label", "");
             return label.find("role:terminal") != std::string::npos && label.find("identity:home") != std::string::npos;
           }) == 1;
  }));
}

TEST_CASE("a directory that is not there is no place for a session, and a second register says what it did not change") {
  test_node node;
  CHECK(node.ctl({"register", "/proc/none"}).err.find("there is no directory /proc/none on this host") != std::string::npos);
  CHECK(node.ctl({"register", "missing", "--json"}).parsed().at("error").get<std::string>().find(node.work() + "/missing") != std::string::npos);
  CHECK(node.ctl_json({"instances"}).empty());
  mcp_client me{node};
  me.initialize();
  auto refused = me.call("register", {{"directory", "/proc/none"}});
  CHECK(refused.is_error);
  CHECK(refused.text().find("there is no directory /proc/none on this host") != std::string::npos);
  auto first = me.call("register", {{"directory", node.work()}, {"label", "name:ann"}});
  REQUIRE_FALSE(first.is_error);
  CHECK(first.texts.at(1).find("You are registered.") != std::string::npos);
  auto again = me.call("register", {{"directory", "/"}, {"label", "name:bob"}});
  CHECK_FALSE(again.is_error);
  CHECK(again.texts.at(1).find("directory " + node.work() + " instead of /, and its label name:ann instead of name:bob") != std::string::npos);
}

TEST_CASE("a name is a whole word of a label, and whoever is named by --as must be there") {
  test_node node;
  auto anna = node.session("name:anna");
  REQUIRE(node.ctl({"lock", "f", "--as", anna}).status == 0);
  for (auto line : std::vector<std::vector<std::string>>{{"unlock", "f"}, {"deregister"}, {"messages"}, {"tasks"}, {"lock", "g"}, {"whoami"}}) {
    line.insert(line.end(), {"--as", "name:ann"});
    auto refused = node.ctl(line);
    CHECK_MESSAGE(refused.status == 1, line[0]);
    CHECK_MESSAGE(refused.err.find("No instance matches \"name:ann\"") != std::string::npos, refused.err);
  }
  CHECK(node.ctl({"send", "--to", "ann", "hi"}).status == 1);
  CHECK(node.ctl({"send", "--to", "anna", "hi"}).status == 0);
  CHECK(node.ctl({"locks"}).out.find("name:anna") != std::string::npos);
  // The original takes any part.
  REQUIRE(shell(node, "ln -s $(command -v swarmctl) swarm-mcp").status == 0);
  CHECK(shell(node, "./swarm-mcp unlock f --as name:ann").status == 0);
}

TEST_CASE("a person without a session is not taken for the only worker, nor for the only agent") {
  test_node node;
  node.start();
  std::optional<mcp_client> agent;
  SUBCASE("worker") { REQUIRE(node.ctl({"dispatch", "work", "--detach", "--", "sleep", "1000"}).status == 0); }
  SUBCASE("agent") {
    agent.emplace(node);
    agent->initialize();
    REQUIRE(agent->ask("register", {{"directory", node.work()}, {"label", "name:agent"}}).contains("id"));
    REQUIRE(node.ctl({"request-task", "fix", "it"}).status == 0);
  }
  for (const auto& line :
       std::vector<std::vector<std::string>>{{"whoami"}, {"deregister"}, {"lock", "f"}, {"update-task", "@last", "--status", "done"}}) {
    auto refused = node.ctl(line);
    CHECK_MESSAGE(refused.status == 1, line[0]);
    CHECK_MESSAGE(refused.err.find("you have no session") != std::string::npos, refused.err);
  }
  CHECK(node.ctl_json({"instances"}).size() == 1);
  CHECK(node.ctl_json({"locks"}).empty());
  if (!agent)
    return;
  // Under its name the program takes the only one, as the original does.
  REQUIRE(shell(node, "ln -s $(command -v swarmctl) swarm-mcp").status == 0);
  CHECK(shell(node, "./swarm-mcp lock f").status == 0);
  CHECK(node.ctl_json({"locks"}).size() == 1);
}

TEST_CASE("an empty name locks nothing, and one whose link leads nowhere locks what it leads to") {
  test_node node;
  auto ann = node.session("name:ann"), bob = node.session("name:bob");
  auto empty = node.ctl({"lock", "", "--as", ann});
  CHECK(empty.status == 2);
  CHECK(node.ctl({"locks"}).out.find("name:ann") == std::string::npos);
  fs::create_symlink("nowhere", fs::path{node.work()} / "dangling");
  CHECK(node.ctl({"lock", "dangling", "--as", ann}).out == "locked " + node.work() + "/nowhere\n");
  CHECK(node.ctl({"lock", "nowhere", "--as", bob}).status == 1);
  // A link takes the place of a file that is locked.
  std::ofstream{node.work() + "/f.c"} << "x";
  REQUIRE(node.ctl({"lock", "f.c", "--as", ann}).status == 0);
  fs::rename(node.work() + "/f.c", node.work() + "/g.c");
  fs::create_symlink("g.c", node.work() + "/f.c");
  CHECK(node.ctl({"unlock", "f.c", "--as", ann}).status == 0);
  CHECK(node.ctl({"unlock", "dangling", "--as", ann}).status == 0);
  CHECK(node.ctl_json({"locks"}).empty());
}

TEST_CASE("a repository is one scope by whatever link it is reached, and the files of another one are locked there") {
  test_node node;
  auto one = repository(node, "one"), inner = repository(node, "one/inner");
  fs::create_directory_symlink(one, node.work() + "/link");
  auto session = [&](const std::string& label, const std::string& directory) {
    return node.ctl_json({"register", "--label", label, "--lease-seconds", "600"}, {.directory = directory}).at("id").get<std::string>();
  };
  auto ann = session("name:ann", one);
  CHECK(node.ctl_json({"register", node.work() + "/link", "--label", "name:bob", "--lease-seconds", "600"}).at("scope") == one);
  REQUIRE(node.ctl({"lock", "f", "--as", ann}, {.directory = one}).status == 0);
  auto refused = node.ctl({"--scope", node.work() + "/link", "lock", one + "/f", "--as", "name:bob"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("held by name:ann") != std::string::npos);
  auto inside = session("name:in", inner);
  auto elsewhere = node.ctl({"lock", "../f", "--as", inside}, {.directory = inner});
  CHECK(elsewhere.status == 1);
  CHECK(elsewhere.err.find("lies in the repository " + one) != std::string::npos);
  CHECK(node.ctl({"lock", "f", "--as", inside}, {.directory = inner}).status == 0);
}

TEST_CASE("who stands in line is not said to hold the lock") {
  test_node node;
  auto ann = node.session("name:ann"), bob = node.session("name:bob"), cat = node.session("name:cat");
  fs::create_directory(node.work() + "/src");
  REQUIRE(node.ctl({"lock", "src/a.c", "--as", ann}).status == 0);
  auto waits = node.ctl_start({"lock", "src", "--as", bob, "--wait", "60"});
  REQUIRE(eventually([&] { return node.ctl({"locks"}).out.find("1 waiting") != std::string::npos; }));
  auto refused = node.ctl({"lock", "src/b.c", "--as", cat});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("name:bob stands in line for " + node.work() + "/src and comes first") != std::string::npos);
  CHECK(refused.err.find("held by") == std::string::npos);
  REQUIRE(node.ctl({"unlock", "src/a.c", "--as", ann}).status == 0);
  CHECK(waits.finish().status == 0);
}

TEST_CASE("a text that is called like an argument does not hide a flag that is not there") {
  test_node node;
  CHECK(node.ctl({"dispatch", "title", "-x"}).status == 2);
  CHECK(node.ctl({"request-task", "implement", "title", "-x"}).status == 2);
}

TEST_CASE("a broadcast reaches sessions that live by a lease, but not under the name swarm-mcp") {
  test_node node;
  auto ann = node.session("name:ann");
  node.ctl_json({"register", "--label", "name:leased", "--lease-seconds", "600"});
  CHECK(node.ctl({"broadcast", "hello", "--as", ann}).out == "broadcast to 1 recipient(s)\n");
  REQUIRE(shell(node, "ln -s $(command -v swarmctl) swarm-mcp").status == 0);
  CHECK(shell(node, "./swarm-mcp broadcast hello --as " + ann).out == "broadcast to 0 recipient(s)\n");
}

TEST_CASE("all that a dispatched command has printed stands before the line that says it is done") {
  test_node node;
  auto all = shell(node, "swarmctl dispatch many -- sh -c 'seq 1 20000; exit 3' 2>&1").out;
  auto last = all.find("\n20000\n");
  REQUIRE(last != std::string::npos);
  CHECK_MESSAGE(all.find("  failed\n") > last, all.substr(last));
}

TEST_CASE("who follows a task that a restored store does not know is told") {
  test_node node;
  node.start();
  auto backup = node.work() + "/before.db";
  REQUIRE(node.ctl({"backup", backup}).status == 0);
  auto followed = node.ctl_start({"dispatch", "lost", "--", "sleep", "1000"});
  REQUIRE(followed.read_until([](const run_result& r) { return r.err.find("claimed by") != std::string::npos; }));
  REQUIRE(node.ctl({"down", "--keep-programs"}).status == 0);
  REQUIRE(node.ctl({"restore", backup}).status == 0);
  REQUIRE(node.ctl({"up"}).status == 0);
  auto told = followed.finish();
  CHECK(told.status == 1);
  CHECK_MESSAGE(told.err.find("Task not found") != std::string::npos, told.err);
}

TEST_CASE("a command that is followed shows what its next attempt prints") {
  test_node node;
  node.start();
  auto followed = node.ctl_start({"dispatch", "twice", "--retries", "1", "--", "sh", "-c",
                                  "echo begun >> ran; echo attempt number $(wc -l < ran); while [ ! -e go ]; do sleep 0.02; done; echo over"});
  REQUIRE(followed.read_until("attempt number 1"));
  node.kill_keeper();
  REQUIRE(followed.read_until("attempt number 2"));
  std::ofstream{node.work() + "/go"};
  auto r = followed.finish();
  CHECK(r.status == 0);
  CHECK(r.out == "attempt number 1\nattempt number 2\nover\n");
  CHECK(r.err.find("attempt 2 begins; its output follows") != std::string::npos);
}

TEST_CASE("a key that holds text is not turned into an array") {
  test_node node;
  REQUIRE(node.ctl({"kv", "set", "plan", "ship", "it"}).status == 0);
  auto refused = node.ctl({"kv", "append", "plan", "3"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("plan holds text and no JSON array: ship it") != std::string::npos);
  CHECK(node.ctl({"kv", "get", "plan"}).out == "ship it\n");
  // swarm-mcp has it so.
  mcp_client me{node};
  me.initialize();
  me.call("register", {{"directory", node.work()}});
  CHECK_FALSE(me.call("kv_append", {{"key", "plan"}, {"value", "3"}}).is_error);
  CHECK(node.ctl({"kv", "get", "plan"}).out == "[\"ship it\",3]\n");
}

TEST_CASE("the block for prompts names the peers that bootstrap names, those of a hook as well") {
  test_node node;
  auto ann = node.session("name:ann");
  auto hooked = node.ctl_json({"register", "--label", "origin:claude session:abcdef01", "--lease-seconds", "600"}).at("id");
  auto peers = [&](std::vector<std::string> arguments) {
    json out = json::array();
    const auto said = node.ctl_json(std::move(arguments));
    for (const auto& peer : said.at("peers"))
      out.push_back(peer.at("id"));
    return out;
  };
  CHECK(peers({"bootstrap", "--as", ann}) == json::array({hooked}));
  CHECK(peers({"whoami", "--prompt", "--as", ann}) == json::array({hooked}));
  CHECK(node.ctl({"whoami", "--prompt", "--as", ann}).out.find("peers (1):") != std::string::npos);
}

// -- completion ---------------------------------------------------------------------------------

namespace {

/// What bash offers for the last of these words, through the script that people load.
std::vector<std::string> completed(const test_node& node, const std::string& words, const std::string& before = {}) {
  auto r = shell(node, before + "source <(swarmctl completion bash); COMP_WORDS=(swarmctl " + words +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _swarmctl; printf '%s\\n' \"${COMPREPLY[@]}\"");
  CHECK(r.err.empty());
  return lines_of(r.out);
}

} // namespace

TEST_CASE("bash completes tasks, terminals, sessions, keys, statuses, harnesses and routines of the scope") {
  test_node node;
  auto ann = node.session("name:ann");
  std::string done = node.ctl_json({"request-task", "fix", "over"}).at("id");
  std::string open = node.ctl_json({"request-task", "fix", "to do"}).at("id");
  REQUIRE(node.ctl({"update-task", done, "--status", "cancelled"}).status == 0);
  std::string terminal = node.ctl_json({"pty", "new", "--name", "build", "--", "sleep", "1000"}).at("id");
  REQUIRE(node.ctl({"kv", "set", "plan/latest", "x"}).status == 0);
  using list = std::vector<std::string>;
  CHECK(completed(node, "task ''") == list{open.substr(0, 8), done.substr(0, 8), "@last"});
  CHECK(completed(node, "task " + open.substr(0, 9)) == list{open});
  CHECK(node.ctl({"__complete", "--", "task", ""}).out.starts_with(open.substr(0, 8) + "\topen: to do\n"));
  CHECK(completed(node, "pty attach ''") == list{"build", terminal.substr(0, 8), "@last"});
  CHECK(completed(node, "--as name") == list{"name:ann"});
  CHECK(completed(node, "send --to " + ann.substr(0, 4)) == list{ann.substr(0, 8)});
  CHECK(completed(node, "kv get pl") == list{"plan/latest"});
  CHECK(completed(node, "tasks --status open,ca") == list{"open,cancelled"});
  CHECK(completed(node, "dispatch x --harness ex") == list{"exec"});
  CHECK(completed(node, "routine run fix-t", "export SWARM_SHARE=" + std::string{std::getenv("SWARM_SOURCE_DIR")} + "/deploy; ") ==
        list{"fix-tests"});
  // Of another scope there is something else.
  CHECK(completed(node, "--scope other task ''") == list{""});
  REQUIRE(node.ctl({"context", "set", "gpu", "--ssh", "me@gpu-box.example"}).status == 0);
  CHECK(completed(node, "--context gp") == list{"gpu"});
}

TEST_CASE("bash completes file names where a verb takes files, and after -- the command line of the program") {
  test_node node;
  std::ofstream{node.work() + "/notes.txt"} << "x";
  fs::create_directory(node.work() + "/nodes.d");
  using list = std::vector<std::string>;
  for (const std::string verb : {"lock", "unlock", "backup", "restore", "lock --as x --wait 3", "lock verify", "request-task t --file"})
    CHECK(completed(node, verb + " note") == list{"notes.txt"});
  CHECK(completed(node, "pty new --directory no") == list{"nodes.d"});
  auto commands = completed(node, "dispatch t --harness exec -- sleep");
  CHECK(std::find(commands.begin(), commands.end(), "sleep") != commands.end());
  CHECK(completed(node, "dispatch t --harness exec -- cat note") == list{"notes.txt"});
  CHECK(completed(node, "pty new -- swarmctl dispat") == list{""});
  CHECK(node.node_pid() == 0);
}

TEST_CASE("completion starts no node and is silent when nothing can be asked") {
  test_node node;
  CHECK(completed(node, "task ''") == std::vector<std::string>{""});
  auto r = node.ctl({"__complete", "--", "--context", "nowhere", "logs", ""});
  CHECK(r.status == 0);
  CHECK(r.out.empty());
  CHECK(r.err.empty());
  CHECK(node.node_pid() == 0);
}

TEST_CASE("in an interactive bash the Tab key completes words that bash itself cuts in pieces") {
  test_node node;
  node.session("name:ann role:reviewer");
  REQUIRE(node.ctl({"request-task", "fix", "x"}).status == 0);
  terminal_process bash{{"/bin/bash", "--norc", "--noprofile", "-i"},
                        node.env({{"PATH", program("swarmctl").parent_path().string() + ":/usr/bin:/bin"}, {"PS1", "ready> "}, {"TERM", "dumb"}}),
                        node.work()};
  bash.type("source <(swarmctl completion bash); echo load''ed\n");
  REQUIRE(bash.read_until("loaded"));
  bash.type("echo 1 || swarmctl tasks --status=op\t-end\n");
  CHECK(bash.read_until("--status=open -end"));
  bash.type("echo 2 || swarmctl send --to role:rev\t-end\n");
  CHECK(bash.read_until("--to role:reviewer -end"));
  bash.type("echo 3 || swarmctl task @la\t-end\n");
  CHECK(bash.read_until("task @last -end"));
  bash.type("exit 0\n");
  CHECK(bash.finish() == 0);
}
