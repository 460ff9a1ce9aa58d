// Subtrees: what is signalled, what is left, and how the keeper itself ends.
#include <filesystem>
#include <set>

#include <signal.h>
#include <unistd.h>

#include "services/keeper/subtree.hpp"
#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// The pid a script wrote as "NAME=<pid>." into its output.
pid_t announced(attached& a, const std::string& id, const std::string& name) {
  pid_t pid = 0;
  REQUIRE(a.events.wait([&] {
    auto& ring = a.events.seen[id].ring;
    auto text = ring ? ring->read(0, ring->capacity()).bytes : "";
    auto at = text.find(name + "=");
    auto end = at == std::string::npos ? at : text.find('.', at);
    if (end == std::string::npos)
      return false;
    pid = static_cast<pid_t>(std::stol(text.substr(at + name.size() + 1, end)));
    return true;
  }));
  return pid;
}

// A child that ignores hang-ups, and a grandchild in a session of its own whose parents are gone.
const std::string family = "trap '' HUP; sh -c 'trap \"\" HUP TERM; echo stubborn=$$.; exec sleep 1000' & "
                           "setsid sh -c 'setsid sh -c \"echo runaway=\\$\\$.; exec sleep 1000\" & exit 0'; echo main=$$.; wait; sleep 1000";

bool stopped(pid_t pid) {
  auto p = read_process(pid);
  return p && p->state == 'T';
}

std::string program_name(pid_t pid) { return fs::path{executable_of(pid).value_or("")}.filename().string(); }

/// The script has begun its `sleep`.
bool sleeps(pid_t session) {
  auto all = list_processes();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& p) { return p.session == session && p.pid != session && program_name(p.pid) == "sleep"; });
}

bool is_over(pid_t session) {
  auto all = list_processes();
  return std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.session == session && !p.is_dead(); });
}

/// How often the script came past its `sleep`, when it was ended in the midst of it.
int runs_that_went_on(const std::string& script, int rounds, bool pipes, int signal = 0) {
  node n;
  attached a{n.dir};
  auto proof = n.temp.path() / "went-on";
  int out = 0;
  for (int i = 0; i < rounds; ++i) {
    auto id = "s" + std::to_string(i);
    auto start = shell(id, script, pipes);
    start.add_environment("PROOF=" + proof.string());
    a.run(start);
    auto session = static_cast<pid_t>(a.events.child(id).pid);
    REQUIRE(eventually([&] { return sleeps(session); }));
    a.client.kill(id, signal);
    CHECK(a.wait_exit(id).ended_on_request);
    REQUIRE(eventually([&] { return is_over(session); }));
    out += fs::remove(proof) ? 1 : 0;
    a.client.forget(id);
  }
  return out;
}

} // namespace

TEST_CASE("a script that is ended does not go on with its next command") {
  for (bool pipes : {false, true}) {
    CHECK(runs_that_went_on("sleep 1000; touch $PROOF", 50, pipes) == 0);
    CHECK(runs_that_went_on("sleep 1000; touch $PROOF", 50, pipes, SIGKILL) == 0);
    // The more processes there are, the longer it takes from the first signal to the last.
    CHECK(runs_that_went_on("for i in $(seq 60); do sleep 1000 & done; sleep 1000; touch $PROOF", 5, pipes) == 0);
  }
}

TEST_CASE("what waits for a sibling in a pipeline, or for a job, does not go on either when it is ended") {
  CHECK(runs_that_went_on("sleep 1000 | { cat; touch $PROOF; }", 25, false) == 0);
  CHECK(runs_that_went_on("exec bash --norc -ic 'sleep 1000; touch $PROOF'", 25, false) == 0);
}

TEST_CASE("a subtree is listed from its root downwards") {
  constexpr pid_t keeper = 1;
  auto none = [](pid_t) { return std::optional<std::string>{}; };
  std::vector<process_stat> all;
  for (auto [pid, parent] : std::vector<std::pair<pid_t, pid_t>>{{12, 40}, {30, 12}, {7, 30}, {40, keeper}, {13, 40}})
    all.push_back({pid, 'S', parent, pid, pid, 0, 100});
  std::vector<pid_t> order;
  for (const auto& p : keeper::members_among(all, none, {40, 100, "", false}, keeper, {{40, 100}}))
    order.push_back(p.pid);
  CHECK(order == std::vector<pid_t>{40, 12, 13, 30, 7});
}

TEST_CASE("a program that cleans up on SIGTERM alone is not hung up meanwhile") {
  node n;
  attached a{n.dir};
  for (bool pipes : {false, true}) {
    auto id = pipes ? "pipes" : "terminal";
    a.run(shell(id, "trap 'sleep 0.1; echo bye; exit 0' TERM; echo main=$$.; while :; do sleep 0.05; done", pipes));
    announced(a, id, "main");
    a.client.kill(id, 0);
    auto end = a.wait_exit(id);
    CHECK(end.exit_status == 0);
    CHECK(end.signal == 0);
    CHECK(end.ended_on_request);
    CHECK(a.output(id).find("bye") != std::string::npos);
  }
}

TEST_CASE("an interactive shell, which ignores SIGTERM, ends at the first signals") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "PS1=ready exec sh -i"));
  REQUIRE(a.wait_output("s1", "ready"));
  a.client.kill("s1", 0, limits::minutes{10});
  CHECK(a.wait_exit("s1").signal == SIGHUP);
}

TEST_CASE("an end that nobody asked for, and one after a single signal, is the program's own") {
  node n;
  attached a{n.dir};
  a.run(shell("own", "exit 3"));
  CHECK_FALSE(a.wait_exit("own").ended_on_request);
  a.run(shell("signalled", "trap 'exit 0' USR1; echo main=$$.; while :; do sleep 0.05; done"));
  announced(a, "signalled", "main");
  a.client.kill("signalled", SIGUSR1);
  CHECK_FALSE(a.wait_exit("signalled").ended_on_request);
}

TEST_CASE("a process whose parent's number was given away belongs to nobody, and a cycle of parents ends") {
  constexpr pid_t keeper = 1;
  auto none = [](pid_t) { return std::optional<std::string>{}; };
  keeper::main_children mains{{10, 100}, {20, 200}};
  keeper::subtree tree{10, 100, "", false};
  auto process = [](pid_t pid, pid_t parent, std::uint64_t start) { return process_stat{pid, 'S', parent, pid, pid, 0, start}; };
  std::vector<process_stat> all{process(10, keeper, 100), process(11, 10, 101), process(20, keeper, 200),
                                process(21, 20, 150),     process(30, 31, 300), process(31, 30, 300)};
  auto pids = [&](const keeper::subtree& t) {
    std::set<pid_t> out;
    for (const auto& p : keeper::members_among(all, none, t, keeper, mains))
      out.insert(p.pid);
    return out;
  };
  CHECK(pids(tree) == std::set<pid_t>{10, 11});
  // 20 is younger than its supposed child 21, whose parent had that number before.
  CHECK(pids({20, 200, "", false}) == std::set<pid_t>{20});
  CHECK(pids({0, 0, "", true}) == std::set<pid_t>{10, 11, 20});
}

TEST_CASE("killing a worker kills its whole subtree, also what ignores signals or left its session") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", family));
  a.run(shell("other", "echo main=$$.; exec sleep 1000"));
  auto other = announced(a, "other", "main");
  auto main = announced(a, "s1", "main"), stubborn = announced(a, "s1", "stubborn"), runaway = announced(a, "s1", "runaway");
  CHECK(eventually([&] { return parent_of(runaway) == static_cast<pid_t>(a.events.keeper); }));
  a.client.kill("s1", 0, std::chrono::milliseconds{100});
  a.wait_exit("s1");
  for (auto pid : {main, stubborn, runaway})
    CHECK(eventually([pid] { return !is_running(pid); }));
  CHECK(is_running(other));
}

TEST_CASE("what a program leaves behind when it ends is ended too") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "setsid sh -c 'echo left=$$.; exec sleep 1000' & read x; exit 3"));
  auto left = announced(a, "s1", "left");
  a.client.write("s1", 1, "\n");
  CHECK(a.wait_exit("s1").exit_status == 3);
  CHECK(eventually([left] { return !is_running(left); }));
}

TEST_CASE("the end of a program is told when nothing is left that it has started") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "sh -c 'trap \"\" HUP TERM; echo stubborn=$$.; while :; do sleep 0.05; done' & echo main=$$.; read x; exit 3"));
  auto main = announced(a, "s1", "main"), stubborn = announced(a, "s1", "stubborn");
  a.client.write("s1", 1, "\n");
  REQUIRE(eventually([main] { return !is_running(main); }));
  CHECK(is_running(stubborn));
  CHECK(a.events.child("s1").exits.empty());
  a.client.kill("s1", 0, std::chrono::milliseconds{10});
  auto told = a.wait_exit("s1");
  CHECK_FALSE(is_running(stubborn));
  CHECK(told.exit_status == 3);
  CHECK_FALSE(told.ended_on_request);
}

TEST_CASE("stop and continue reach the whole subtree") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", family));
  auto main = announced(a, "s1", "main"), stubborn = announced(a, "s1", "stubborn"), runaway = announced(a, "s1", "runaway");
  a.client.kill("s1", SIGSTOP);
  for (auto pid : {main, stubborn, runaway})
    CHECK(eventually([pid] { return stopped(pid); }));
  a.client.kill("s1", SIGCONT);
  for (auto pid : {main, stubborn, runaway})
    CHECK(eventually([pid] { return !stopped(pid) && is_running(pid); }));
}

TEST_CASE("a stopped subtree can be killed") {
  node n;
  attached a{n.dir};
  // No fork after the announcement: a shell whose vfork child was stopped first waits in state D instead of T.
  a.run(shell("s1", "echo main=$$.; read x"));
  auto main = announced(a, "s1", "main");
  a.client.kill("s1", SIGSTOP);
  REQUIRE(eventually([main] { return stopped(main); }));
  a.client.kill("s1", 0, std::chrono::milliseconds{100});
  CHECK(a.wait_exit("s1").signal != 0);
}

TEST_CASE("the first signals of an end are catchable") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "trap 'echo bye; exit 4' TERM HUP; echo main=$$.; while :; do sleep 0.05; done"));
  announced(a, "s1", "main");
  a.client.kill("s1", 0);
  CHECK(a.wait_exit("s1").exit_status == 4);
  CHECK(a.output("s1").find("bye") != std::string::npos);
}

TEST_CASE("orphans are reaped silently") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "sh -c 'sh -c \"echo orphan=\\$\\$.; sleep 0.05\" & exit 0'; read x"));
  auto orphan = announced(a, "s1", "orphan");
  CHECK(eventually([orphan] { return !read_process(orphan); }));
  CHECK(a.events.child("s1").exits.empty());
}

TEST_CASE("quit ends every program, then the keeper, and leaves no socket") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", family));
  a.client.start(shell("held", "true"));
  REQUIRE(a.reach_gate("held"));
  auto main = announced(a, "s1", "main"), stubborn = announced(a, "s1", "stubborn"), runaway = announced(a, "s1", "runaway");
  auto keeper = static_cast<pid_t>(a.events.keeper);
  a.client.quit(std::chrono::milliseconds{50});
  CHECK(a.wait_exit("s1").ended_on_request);
  a.wait_exit("held");
  CHECK(a.events.wait([&] { return a.events.gone; }));
  for (auto pid : {main, stubborn, runaway, static_cast<pid_t>(a.events.child("held").pid), keeper})
    CHECK(eventually([pid] { return !is_running(pid); }));
  CHECK_FALSE(fs::exists(n.dir / "keeper.sock"));
}

TEST_CASE("a keeper that quits starts nothing more") {
  node n;
  attached a{n.dir};
  a.run(shell("s1", "trap '' TERM HUP; echo main=$$.; while :; do sleep 0.05; done"));
  announced(a, "s1", "main");
  a.client.quit(std::chrono::milliseconds{500});
  a.client.start(shell("s2", "true"));
  CHECK(a.events.wait([&] { return !a.events.seen["s2"].failure.empty(); }));
  CHECK(a.events.child("s2").at_gate == 0);
}

TEST_CASE("what is left of a killed keeper's program is told by its mark, its session and its parents, and nobody else's is taken for it") {
  constexpr pid_t keeper = 5;
  auto process = [](pid_t pid, pid_t parent, pid_t session) { return process_stat{pid, 'S', parent, pid, session, 0, 100}; };
  std::vector<process_stat> all{process(keeper, 1, keeper), process(20, 1, 10), process(21, 20, 21), process(22, 1, 10),  process(30, keeper, 30),
                                process(31, keeper, 31),    process(40, 1, 40), process(41, 40, 40), process(42, 40, 40), process(50, 1, 50)};
  const std::set<pid_t> marked{20, 30, 41}; // 30 is a program of this keeper; 41 got the variable from somebody in the shell 40
  auto spawn_id = [&](pid_t pid) { return marked.contains(pid) ? std::optional<std::string>{"s1"} : std::nullopt; };
  auto found = keeper::members_among(all, spawn_id, keeper::remains_of("s1", {}), keeper, {{30, 100}, {31, 100}});
  std::set<pid_t> out;
  for (const auto& p : found)
    out.insert(p.pid);
  CHECK(out == std::set<pid_t>{20, 21, 22, 41});
  CHECK(keeper::members_among(all, spawn_id, keeper::remains_of("", {}), keeper, {}).empty());
}

TEST_CASE("what a program on pipes had started ends when its keeper was killed, before a further attempt begins") {
  node n;
  const auto id = "left-by-" + std::to_string(getpid());
  attached killed{n.dir};
  killed.run(shell(id,
                   "sh -c 'trap \"\" HUP TERM; echo stubborn=$$.; exec sleep 1000' & env -i sh -c 'echo bare=$$.; exec sleep 1000' & "
                   "setsid sh -c 'echo runaway=$$.; exec sleep 1000' & wait",
                   true));
  const std::vector<pid_t> left{announced(killed, id, "stubborn"), announced(killed, id, "bare"), announced(killed, id, "runaway")};
  const auto main = static_cast<pid_t>(killed.events.child(id).pid);
  ::kill(static_cast<pid_t>(killed.events.keeper), SIGKILL);
  REQUIRE(killed.events.wait([&] { return killed.events.gone; }));
  REQUIRE(eventually([main] { return !is_running(main); }));
  attached next{n.dir};
  REQUIRE(next.ready());
  REQUIRE(next.client.kill(id, 0, std::chrono::milliseconds{100}));
  auto again = shell(id, "exit 3", true);
  again.set_attempt(2);
  next.run(again);
  for (auto pid : left)
    CHECK_FALSE(is_running(pid));
  CHECK(next.wait_exit(id).exit_status == 3);
}

TEST_CASE(
  "the keeper of a copied state directory ends nothing of the programs of the original, whose ids it knows, also where the copy has its path") {
  node n;
  const auto id = "original-" + std::to_string(getpid());
  const auto script = "sh -c 'echo child=$$.; exec sleep 1000' & echo main=$$.; wait";
  attached original{n.dir};
  auto start = shell(id, script, true);
  start.add_environment("SWARM_HOME=" + n.dir.string());
  original.run(start);
  const std::vector<pid_t> running{announced(original, id, "main"), announced(original, id, "child")};
  const auto moved = n.dir.string() + ".moved";
  fs::rename(n.dir, moved);
  fs::create_directory(n.dir);
  {
    attached copy{n.dir};
    REQUIRE(copy.ready());
    REQUIRE(copy.client.kill(id, 0, std::chrono::milliseconds{0}));
    // It answers in order: what it was asked before is done.
    copy.run(shell("after", "exit 0", true));
    copy.wait_exit("after");
    for (auto pid : running)
      CHECK(is_running(pid));
    copy.client.quit();
    REQUIRE(copy.events.wait([&] { return copy.events.gone; }));
  }
  fs::remove_all(n.dir);
  fs::rename(moved, n.dir);
}

TEST_CASE("a child at the gate dies with the keeper") {
  node n;
  attached a{n.dir};
  auto proof = n.temp.path() / "ran";
  a.client.start(shell("s1", "touch " + proof.string()));
  REQUIRE(a.reach_gate("s1"));
  auto pid = static_cast<pid_t>(a.events.child("s1").pid);
  ::kill(static_cast<pid_t>(a.events.keeper), SIGKILL);
  CHECK(eventually([pid] { return !is_running(pid); }));
  CHECK_FALSE(fs::exists(proof));
}
