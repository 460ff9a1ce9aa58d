// Programs on terminals, and what the keeper promises: they outlive the node, and their output has no holes.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

std::string new_pty(const test_node& node, const std::string& script, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> arguments{"pty", "new"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", script});
  return node.ctl_json(arguments).at("id");
}

json info(const test_node& node, const std::string& id) {
  for (const auto& p : node.ctl_json({"pty", "list"}))
    if (p.at("id") == id)
      return p;
  return nullptr;
}

std::string output(const test_node& node, const std::string& id) { return node.ctl_json({"pty", "read", id}).at("data"); }

bool shows(const test_node& node, const std::string& id, const std::string& text) {
  return eventually([&] { return output(node, id).find(text) != std::string::npos; });
}

bool ends(const test_node& node, const std::string& id) {
  return eventually([&] { return info(node, id).at("running") == false; });
}

/// Prints numbered lines for ever; the file says how far it is.
const char* counter = "i=0; while :; do i=$((i+1)); echo line $i; echo $i > at; sleep 0.01; [ -e stop ] && exit 7; done";

/// Every line follows the one before it.
bool without_holes(const std::string& text, int& last) {
  last = 0;
  for (const auto& line : lines_of(text)) {
    int number = 0;
    if (sscanf(line.c_str(), "line %d", &number) != 1)
      return false;
    if (number != last + 1)
      return false;
    last = number;
  }
  return last > 0;
}

} // namespace

TEST_CASE("pty new, list, send, read, resize and kill work on one terminal") {
  test_node node;
  auto created = node.ctl_json({"pty", "new", "--name", "shell", "--columns", "90", "--rows", "20", "--", "sh"});
  auto id = created.at("id").get<std::string>();
  CHECK(created.at("running") == true);
  CHECK(created.at("columns") == 90);
  CHECK(is_running(created.at("pid").get<pid_t>()));
  CHECK(node.ctl_json({"pty", "send", "shell", "stty size; echo mark-$((40+2))", "--enter"}).at("ok") == true);
  CHECK(shows(node, id, "mark-42"));
  CHECK(output(node, id).find("20 90") != std::string::npos);
  CHECK(node.ctl_json({"pty", "resize", "shell", "--columns", "77", "--rows", "11"}).at("columns") == 77);
  REQUIRE(node.ctl({"pty", "send", "shell", "stty size", "--enter"}).status == 0);
  CHECK(shows(node, id, "11 77"));
  auto killed = node.ctl({"pty", "kill", "shell"});
  CHECK(killed.status == 0);
  CHECK(ends(node, id));
  CHECK_FALSE(is_running(created.at("pid").get<pid_t>()));
  CHECK(info(node, id).at("signal").is_number());
  CHECK(node.ctl({"pty", "send", "shell", "late", "--enter"}).status == 1);
}

TEST_CASE("pty send --fence types only while the worker works under that claim") {
  test_node node;
  REQUIRE(node.ctl({"dispatch", "talk", "--harness", "exec", "--detach", "--", "sh", "-c", "read answer; echo got-$answer; read more"}).status == 0);
  std::vector<json> claims;
  auto claimed = [&] {
    claims.clear();
    for (const auto& line : lines_of(node.ctl({"events", "--since", "0", "--json", "--type", "task.claimed"}).out))
      claims.push_back(json::parse(line));
    return claims.size() == 1;
  };
  REQUIRE(eventually(claimed));
  auto fence = claims[0].at("payload").at("fence").get<std::uint64_t>();
  auto id = node.ctl_json({"pty", "list"}).at(0).at("id").get<std::string>();
  auto stale = node.ctl({"pty", "send", id, "wrong", "--enter", "--fence", std::to_string(fence + 1)});
  CHECK(stale.status == 1);
  CHECK(stale.err.find("claim") != std::string::npos);
  CHECK(node.ctl({"pty", "send", id, "right", "--enter", "--fence", std::to_string(fence)}).status == 0);
  CHECK(shows(node, id, "got-right"));
}

TEST_CASE("pty read from an offset gives exactly the rest, and --follow ends with the program") {
  test_node node;
  auto id = new_pty(node, "stty -opost; printf 0123456789; while [ ! -e go ]; do sleep 0.02; done; printf abc; exit 3");
  REQUIRE(shows(node, id, "0123456789"));
  auto part = node.ctl_json({"pty", "read", id, "--from", "4"});
  CHECK(part.at("from") == 4);
  CHECK(part.at("data") == "456789");
  CHECK(part.at("next") == 10);
  CHECK(node.ctl_json({"pty", "read", id, "--bytes", "3"}).at("data") == "789");
  auto follower = node.ctl_start({"pty", "read", id, "--follow", "--json"});
  std::ofstream{node.work() + "/go"};
  auto all = follower.finish().parsed();
  CHECK(all.at("data") == "0123456789abc");
  CHECK(all.at("ended") == true);
  CHECK(all.at("exit_status") == 3);
}

TEST_CASE("--timeout ends what would follow for ever, and says how to go on") {
  test_node node;
  auto id = new_pty(node, "printf 0123456789; exec sleep 1000");
  REQUIRE(shows(node, id, "0123456789"));
  auto output = node.ctl({"pty", "read", id, "--follow", "--timeout", "1"});
  CHECK(output.status == 4);
  CHECK(output.out == "0123456789");
  CHECK_MESSAGE(output.err.find("--from 10") != std::string::npos, output.err);
  REQUIRE(node.ctl({"kv", "set", "seen", "1"}).status == 0);
  auto events = node.ctl({"events", "--follow", "--since", "0", "--timeout", "1"});
  CHECK(events.status == 4);
  CHECK_MESSAGE(events.out.find("kv.set") != std::string::npos, events.out);
  CHECK_MESSAGE(events.err.find("the time of --timeout is up") != std::string::npos, events.err);
  CHECK(node.ctl({"events", "--follow", "--timeout", "0"}).status == 4);
}

TEST_CASE("attach types, shows the output, passes a resize on, leaves with the detach key and restores the terminal") {
  test_node node;
  auto id = new_pty(node, "while read -r line; do echo got-$line; stty size; done");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id}, node.env(), node.work(), 81, 21};
  auto before = person.modes();
  CHECK((before.c_lflag & ICANON) != 0);
  REQUIRE(eventually([&] { return (person.modes().c_lflag & ICANON) == 0; }));
  person.type("hello\r");
  CHECK(person.read_until("got-hello"));
  CHECK(person.read_until("21 81"));
  person.resize(66, 17);
  // The new size reaches the program at its own pace: ask until it says so.
  CHECK(eventually([&] {
    person.type("again\r");
    return person.read_until("17 66", std::chrono::milliseconds{300});
  }));
  person.type("\x1d");
  CHECK(person.finish() == 0);
  CHECK(person.screen().find("detached from") != std::string::npos);
  auto after = person.modes();
  CHECK(after.c_lflag == before.c_lflag);
  CHECK(after.c_iflag == before.c_iflag);
  CHECK(after.c_oflag == before.c_oflag);
  CHECK(info(node, id).at("running") == true);
}

TEST_CASE("attach ends with the program's own exit status") {
  test_node node;
  auto id = new_pty(node, "read -r line; exit 9");
  terminal_process person{{program("swarmctl").string(), "pty", "attach", id, "--detach-key", "^A"}, node.env(), node.work()};
  REQUIRE(eventually([&] { return (person.modes().c_lflag & ICANON) == 0; }));
  person.type("\r");
  CHECK(person.finish() == 9);
  CHECK((person.modes().c_lflag & ICANON) != 0);
}

TEST_CASE("attach without anybody to type leaves a program that runs, and ends with the status of one that has ended") {
  test_node node;
  auto id = new_pty(node, "stty -opost; printf kept; exit 3");
  REQUIRE(ends(node, id));
  auto after = node.ctl({"pty", "attach", id});
  CHECK(after.status == 3);
  CHECK(after.out == "kept");
  auto running = new_pty(node, "exec sleep 1000");
  auto left = node.ctl({"pty", "attach", running});
  CHECK(left.status == 0);
  CHECK(left.err.find("the program goes on") != std::string::npos);
  CHECK(info(node, running).at("running") == true);
}

TEST_CASE("a program goes on while the node is killed and started again, and its output has no holes") {
  test_node node;
  node.start();
  auto id = new_pty(node, counter);
  REQUIRE(shows(node, id, "line 20"));
  auto pid = info(node, id).at("pid").get<pid_t>();
  auto keeper = node.keeper_pid();
  node.kill_node();
  // The shell empties the file before it writes the next number.
  auto reached = [&] {
    auto text = file_text(node.work() + "/at");
    return text.empty() ? 0 : std::stoi(text);
  };
  int at_kill = 0;
  REQUIRE(eventually([&] { return (at_kill = reached()) > 0; }));
  CHECK(eventually([&] { return reached() > at_kill + 30; })); // it goes on without us
  node.start();
  CHECK(is_running(pid));
  CHECK(node.keeper_pid() == keeper);
  CHECK(info(node, id).at("pid") == pid);
  std::ofstream{node.work() + "/stop"};
  REQUIRE(ends(node, id));
  CHECK(info(node, id).at("exit_status") == 7);
  int last = 0;
  auto all = node.ctl_json({"pty", "read", id});
  CHECK(all.at("from") == 0);
  CHECK_MESSAGE(without_holes(all.at("data"), last), all.at("data"));
  CHECK(last > at_kill + 30);
}

TEST_CASE("a program that ends while no node runs has its exit status and its last output afterwards") {
  test_node node;
  node.start();
  auto started = node.ctl_json({"dispatch", "ends alone", "--harness", "exec", "--detach", "--", "sh", "-c",
                                "touch started; while [ ! -e go ]; do sleep 0.02; done; echo last words; exit 5"});
  auto id = new_pty(node, "while [ ! -e go ]; do sleep 0.02; done; echo gone; exit 6");
  REQUIRE(eventually([&] { return fs::exists(node.work() + "/started"); }));
  auto pid = info(node, id).at("pid").get<pid_t>();
  node.kill_node();
  std::ofstream{node.work() + "/go"};
  REQUIRE(eventually([&] { return !is_running(pid); }));
  node.start();
  REQUIRE(eventually([&] { return node.ctl_json({"task", started.at("task_id")}).at("status") == "failed"; }));
  auto result = json::parse(node.ctl_json({"task", started.at("task_id")}).at("result").get<std::string>());
  CHECK(result.at("exit_status") == 5);
  CHECK(result.at("output_tail").get<std::string>().find("last words") != std::string::npos);
  CHECK(ends(node, id));
  CHECK(info(node, id).at("exit_status") == 6);
  CHECK(output(node, id).find("gone") != std::string::npos);
}

TEST_CASE("the output of a terminal that has ended can be read by its id after a restart of node and keeper") {
  test_node node;
  auto id = new_pty(node, "stty -opost; printf kept; exit 3");
  REQUIRE(ends(node, id));
  node.down();
  node.start();
  CHECK(node.ctl({"pty", "read", id}).out == "kept");
  CHECK(node.ctl({"pty", "read", "00000000-0000-4000-8000-000000000000"}).status == 1);
}

TEST_CASE("a follower of a terminal's output goes on after the node was killed, every byte once") {
  test_node node;
  node.start();
  auto id = new_pty(node, counter);
  auto follower = node.ctl_start({"pty", "read", id, "--follow"});
  REQUIRE(follower.read_until("line 20"));
  node.kill_node();
  node.start();
  std::ofstream{node.work() + "/stop"};
  auto all = follower.finish();
  CHECK(all.status == 0);
  int last = 0;
  CHECK_MESSAGE(without_holes(all.out, last), all.out);
}

TEST_CASE("a worker that is ended does nothing more, and its task is never done") {
  test_node node;
  auto script = "trap 'echo cleaned > cleaned; exit 0' TERM; touch $0; while :; do sleep 0.02; done";
  auto begin = [&](const std::string& name, std::vector<std::string> flags, const std::string& what) {
    std::vector<std::string> line{"dispatch", name, "--detach"};
    line.insert(line.end(), flags.begin(), flags.end());
    line.insert(line.end(), {"--", "sh", "-c", what, name});
    std::string id = node.ctl_json(line).at("task_id");
    REQUIRE(eventually([&] { return fs::exists(node.work() + "/" + name); }));
    return id;
  };
  auto status = [&](const std::string& id) { return node.ctl_json({"task", id}).at("status").get<std::string>(); };
  auto is_ended = [&](const std::string& id) {
    for (const auto& s : node.ctl_json({"spawns"}))
      if (s.at("task_id") == id)
        return s.at("status") == "ended" && s.at("reason") == "killed";
    return false;
  };
  // It cleans up and exits with 0.
  for (auto flags : {std::vector<std::string>{}, std::vector<std::string>{"--pipes"}}) {
    auto name = flags.empty() ? std::string{"terminal"} : std::string{"pipes"};
    auto id = begin(name, flags, script);
    REQUIRE(node.ctl(flags.empty() ? std::vector<std::string>{"pty", "kill", name} : std::vector<std::string>{"cancel", id}).status == 0);
    REQUIRE(eventually([&] { return is_ended(id); }));
    CHECK(fs::remove(node.work() + "/cleaned"));
    CHECK(status(id) == (flags.empty() ? "failed" : "cancelled"));
  }
  // It is told nothing, and has more to do.
  for (int i = 0; i < 10; ++i) {
    auto id = begin("more-" + std::to_string(i), {}, "touch $0; sleep 1000; touch $0.went-on");
    REQUIRE(node.ctl({"cancel", id}).status == 0);
    REQUIRE(eventually([&] { return is_ended(id); }));
    CHECK_FALSE(fs::exists(node.work() + "/more-" + std::to_string(i) + ".went-on"));
  }
}

TEST_CASE("when the keeper is killed its commands are failed with node_restarted, and with retries they run again") {
  test_node node;
  node.start();
  const char* script = "echo ran >> $0; while [ ! -e go ]; do sleep 0.02; done; exit 4";
  auto once = node.ctl_json({"dispatch", "once", "--harness", "exec", "--detach", "--", "sh", "-c", script, "once"});
  auto twice = node.ctl_json({"dispatch", "twice", "--harness", "exec", "--detach", "--retries", "1", "--", "sh", "-c", script, "twice"});
  auto runs = [&](const char* name) { return count_lines(node.work() + "/" + name); };
  REQUIRE(eventually([&] { return runs("once") == 1 && runs("twice") == 1; }));
  node.kill_keeper();
  CHECK(eventually([&] { return node.ctl_json({"task", once.at("task_id")}).at("status") == "failed"; }));
  CHECK(node.ctl_json({"task", once.at("task_id")}).at("result").get<std::string>().find("node_restarted") != std::string::npos);
  REQUIRE(eventually([&] { return runs("twice") == 2; }));
  std::ofstream{node.work() + "/go"};
  CHECK(eventually([&] { return node.ctl_json({"task", twice.at("task_id")}).at("status") == "failed"; }));
  auto result = json::parse(node.ctl_json({"task", twice.at("task_id")}).at("result").get<std::string>());
  CHECK(result.at("exit_status") == 4);
  CHECK(runs("once") == 1);
  CHECK(runs("twice") == 2);
}

TEST_CASE("when keeper and node are killed together the next node settles what ran, and nothing of it is left running") {
  test_node node;
  node.start();
  auto task = node.ctl_json({"dispatch", "both", "--harness", "exec", "--detach", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000"});
  REQUIRE(eventually([&] { return count_lines(node.work() + "/pid") == 1; }));
  auto pid = std::stoi(file_text(node.work() + "/pid"));
  node.kill_node();
  node.kill_keeper();
  node.start();
  CHECK(eventually([&] { return node.ctl_json({"task", task.at("task_id")}).at("status") == "failed"; }));
  CHECK(eventually([&] { return !is_running(pid); }));
}

TEST_CASE("what a worker on pipes had started ends with its keeper, also while no node runs") {
  test_node node;
  auto line = [](const std::string& name) {
    return std::vector<std::string>{"dispatch", name, "--pipes", "--detach", "--", "sh", "-c", "sleep 1000 & echo $! > " + name + "; wait"};
  };
  auto started_by = [&](const std::string& name) {
    REQUIRE(node.ctl(line(name)).status == 0);
    REQUIRE(eventually([&] { return count_lines(node.work() + "/" + name) == 1; }));
    return static_cast<pid_t>(std::stoi(file_text(node.work() + "/" + name)));
  };
  auto beside_node = started_by("one");
  node.kill_keeper();
  CHECK(eventually([&] { return !is_running(beside_node); }));
  auto without_node = started_by("two");
  node.kill_node();
  node.kill_keeper();
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(eventually([&] { return !is_running(without_node); }));
}

TEST_CASE("down leaves no process behind, and down --keep-programs leaves them all") {
  test_node node;
  REQUIRE(node.ctl({"up"}).status == 0);
  auto id = new_pty(node, "sh -c 'echo $$ >> pids; exec sleep 1000' & setsid sh -c 'echo $$ >> pids; exec sleep 1000' & echo $$ >> pids; wait");
  REQUIRE(eventually([&] { return count_lines(node.work() + "/pids") == 3; }));
  std::vector<pid_t> pids;
  for (const auto& line : lines_of(file_text(node.work() + "/pids")))
    pids.push_back(std::stoi(line));
  auto keeper = node.keeper_pid();
  CHECK(node.down({"--keep-programs"}).status == 0);
  CHECK(is_running(keeper));
  CHECK(std::all_of(pids.begin(), pids.end(), is_running));
  REQUIRE(node.ctl({"up"}).status == 0);
  CHECK(info(node, id).at("running") == true);
  CHECK(node.down().status == 0);
  CHECK(eventually([&] { return !is_running(keeper) && std::none_of(pids.begin(), pids.end(), is_running); }));
  CHECK(processes_with("SWARM_HOME", node.dir().root.string()).empty());
}

TEST_CASE("output that is no longer kept is announced, and what is kept ends with the newest byte") {
  test_node node;
  // More than the segments and the ring hold together would take long; the ring alone is told apart by offsets.
  auto id = new_pty(node, "stty -opost; i=0; while [ $i -lt 40 ]; do head -c 65536 /dev/zero | tr '\\0' 'x'; i=$((i+1)); done; printf END");
  REQUIRE(ends(node, id));
  auto end = info(node, id).at("end").get<std::uint64_t>();
  CHECK(end == 40 * 65536 + 3);
  auto follower = node.ctl({"pty", "read", id, "--from", std::to_string(end - 10)});
  CHECK(follower.out == "xxxxxxxEND");
  auto start = info(node, id).at("start").get<std::uint64_t>();
  auto all = node.ctl({"pty", "read", id, "--from", "0"});
  CHECK(all.out.size() == end - start);
  CHECK((start == 0 || all.err.find("no longer kept") != std::string::npos));
}

TEST_CASE("all terminals that down has ended are in the list after up, with the signal that ended them") {
  test_node node;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    std::vector<std::string> ids;
    for (int i = 0; i < 6; ++i)
      ids.push_back(i % 2 == 0 ? new_pty(node, "exec sleep 1000") : new_pty(node, "echo hello; exec sleep 1000"));
    REQUIRE(node.ctl({"down", "--yes"}).status == 0);
    REQUIRE(node.ctl({"up"}).status == 0);
    for (const auto& id : ids) {
      REQUIRE_MESSAGE(info(node, id).is_object(), id);
      CHECK(ends(node, id));
      auto now = info(node, id);
      CHECK_MESSAGE(now.at("signal").is_number(), now.dump());
      CHECK(node.ctl({"pty", "read", id.substr(0, 8)}).status == 0);
    }
  }
}

TEST_CASE("a terminal whose program ended with nobody to see it does not claim exit status 0") {
  test_node node;
  auto id = new_pty(node, "echo ready; sleep 1000");
  REQUIRE(shows(node, id, "ready"));
  node.kill_node();
  node.kill_keeper();
  REQUIRE(node.ctl({"up"}).status == 0);
  REQUIRE(info(node, id).is_object());
  CHECK(ends(node, id));
  CHECK(info(node, id).at("exit_status") == -1);
  auto attached = node.ctl({"pty", "attach", id});
  CHECK(attached.status == 1);
  CHECK(attached.err.find("how it ended is not known") != std::string::npos);
}
