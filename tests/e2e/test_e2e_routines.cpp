// Routines against the real node: found, shown, trusted, run once however often they are asked for, followed to their end.
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/support/mcp_client.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm::testing;

namespace {

/// Two steps that can begin, one after both, with a parameter.
const std::string three = R"(name = "three"
summary = "two, and then one"
[parameters.what]
default = "it"
[[step]]
id = "left"
title = "Left of ${what}"
role = "reviewer"
type = "review"
files = ["src/a.cpp"]
[[step]]
id = "both"
title = "Both of ${what}"
needs = ["left", "right"]
[[step]]
id = "right"
title = "Right of ${what}"
description = "Look at ${what}, not at $${what}"
priority = 2
)";

/// One after the other.
const std::string chain = "name = \"chain\"\nsummary = \"a, b\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n[[step]]\nid = \"b\"\ntitle = \"B\"\nneeds = "
                          "[\"a\"]\n";

struct world : test_node {
  /// A routine of the user's own.
  void mine(const std::string& name, const std::string& text) const { write(dir().root / "routines", name, text); }
  /// One of the repository.
  void theirs(const std::string& name, const std::string& text) const { write(fs::path{work()} / ".swarm" / "routines", name, text); }

  static void write(const fs::path& directory, const std::string& name, const std::string& text) {
    fs::create_directories(directory);
    std::ofstream{directory / (name + ".toml")} << text;
  }

  json run(std::vector<std::string> more) const {
    more.insert(more.begin(), {"routine", "run"});
    return ctl_json(std::move(more));
  }
  json task(const std::string& id) const { return ctl_json({"task", id}); }
  std::string status(const std::string& id) const { return task(id).at("status"); }
  std::size_t tasks() const { return ctl_json({"tasks"}).size(); }

  /// A row that somebody holds, as work is given to.
  std::string live(const std::string& label) const {
    auto id = session(label);
    REQUIRE(ctl({"register", "--adopt-instance-id", id, "--label", label}).status == 0);
    return id;
  }
  /// The worker's part.
  void finish(const std::string& id, const std::string& session, const std::string& how = "done", const std::string& note = "well") const {
    auto claimed = ctl({"claim", id, "--as", session, "--force"});
    REQUIRE_MESSAGE(claimed.status == 0, claimed.err);
    auto ended = ctl({"update-task", id, "--as", session, "--status", how, "--note", note});
    REQUIRE_MESSAGE(ended.status == 0, ended.err);
  }
};

std::map<std::string, json> by_step(const json& report) {
  std::map<std::string, json> out;
  for (const auto& s : report.at("steps"))
    out[s.at("step")] = s;
  return out;
}

std::string id_of(const json& report, const std::string& step) { return by_step(report).at(step).at("task_id"); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("routines are listed, shown and dry-run without a node") {
  world w;
  w.mine("three", three);
  w.theirs("chain", chain);
  w.theirs("broken", "name = \"broken\"\nhost = \"x\"\n");
  auto listed = w.ctl({"routine", "list"});
  CHECK(listed.status == 0);
  for (const auto* name : {"user/three", "shipped/release-check", "shipped/review-branch", "shipped/fix-tests", "shipped/prep-deploy"})
    CHECK_MESSAGE(has(listed.out, name), listed.out);
  auto rows = w.ctl_json({"routine", "list"});
  std::map<std::string, json> by_name;
  for (const auto& r : rows)
    by_name[r.at("routine")] = r;
  CHECK(by_name.at("user/three").at("trust") == "trusted");
  CHECK(by_name.at("repository/chain").at("trust") == "untrusted");
  CHECK(by_name.at("repository/broken").at("problems").size() > 0);
  for (const auto& [name, row] : by_name)
    if (name != "repository/broken")
      CHECK_MESSAGE(row.at("problems").empty(), row.dump());

  auto shown = w.ctl({"routine", "show", "three"});
  CHECK(shown.status == 0);
  CHECK(has(shown.out, "Left of ${what}"));
  CHECK(has(shown.out, "after: left, right"));
  auto shape = w.ctl_json({"routine", "show", "three"});
  CHECK(shape.at("parameters")[0].at("default") == "it");
  CHECK(shape.at("steps").size() == 3);

  auto dry = w.ctl_json({"routine", "run", "three", "--set", "what=that", "--dry-run"});
  CHECK(dry.at("dry_run") == true);
  REQUIRE(dry.at("steps").size() == 3);
  CHECK(dry.at("steps")[0].at("title") == "Left of that");
  CHECK(dry.at("steps")[0].at("files")[0] == w.work() + "/src/a.cpp");
  CHECK(dry.at("steps")[1].at("step") == "right"); // before what needs it
  CHECK(dry.at("steps")[1].at("description") == "Look at that, not at ${what}");
  CHECK(w.ctl({"routine", "run", "three", "--dry-run"}).status == 0);
  CHECK(w.node_pid() == 0);
}

TEST_CASE("a dry run shows the agent that the run would ask for, and refuses what the run refuses") {
  world w;
  w.mine("one", "name = \"one\"\nsummary = \"one step\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\nharness = \"codex\"\n");
  auto harness = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"routine", "run", "one", "--dry-run"});
    return w.ctl_json(more).at("steps")[0].at("harness");
  };
  CHECK(harness({}) == "codex");
  CHECK(harness({"--harness", "claude"}) == "claude");
  CHECK(harness({"--no-spawn"}).is_null());
  auto text = w.ctl({"routine", "run", "one", "--dry-run", "--harness", "claude"});
  CHECK_MESSAGE(has(text.out, "harness claude"), text.out);
  auto refused = w.ctl({"routine", "run", "one", "--dry-run", "--harness", "exec"});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(has(refused.err, "the harness exec is no agent"), refused.err);
  CHECK(refused.out.empty());
  CHECK(w.node_pid() == 0);
}

TEST_CASE("what cannot be run is refused with the reason, and nothing is made") {
  world w;
  w.mine("three", three);
  w.mine("broken", "name = \"broken\"\nsummary = \"s\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\nneeds = [\"b\"]\n");
  struct wrong {
    std::vector<std::string> words;
    int status;
    std::string told;
  };
  auto file = (w.dir().root / "routines" / "broken.toml").string();
  const std::vector<wrong> all = {
    {{"run", "none"}, 1, "there is no routine none; see: swarmctl routine list"},
    {{"show", "../../etc/passwd"}, 1, "is no name of a routine"},
    {{"show", "broken"}, 1, file + ":3: the step a needs \"b\""},
    {{"run", "broken"}, 1, file + ":3: the step a needs \"b\""},
    {{"run", "three", "--set", "what"}, 2, "--set takes NAME=VALUE"},
    {{"run", "three", "--set", "what=a", "--set", "what=b"}, 2, "--set gives what twice"},
    {{"run", "three", "--set", "how=a"}, 1, "has no parameter \"how\"; it has what"},
    {{"run", "fix-tests"}, 1, "the parameter command is required"},
    {{"run", "prep-deploy", "--set", "version=1", "--set", "target=moon"}, 1, "must be one of: staging, production"},
    {{"run", "three", "--harness", "exec"}, 1, "the harness exec is no agent"},
    {{"run", "three", "--harness", "nobody"}, 1, "the harness nobody is no agent"},
    {{"run", "three", "--harness", "claude"}, 1, "The harness claude is not installed"},
    {{"run", "three", "--parent-task", "none"}, 1, "Parent task none not found"},
    {{"trust", "three"}, 1, "needs no trust"},
    {{"run"}, 2, "name is required"},
    {{}, 2, "which one? list, show, run, trust"},
  };
  for (const auto& x : all) {
    auto words = x.words;
    words.insert(words.begin(), "routine");
    // No agent of this machine is to be found.
    auto r = w.ctl(words, {.env = {{"PATH", "/nowhere"}}});
    CAPTURE(x.told);
    CHECK_MESSAGE(r.status == x.status, r.err);
    CHECK_MESSAGE(has(r.err, x.told), r.err);
    CHECK(r.out.empty());
  }
  CHECK(w.tasks() == 0);
  auto json_too = w.ctl({"routine", "run", "none", "--json"}, {});
  CHECK(json_too.parsed().at("error").get<std::string>().find("there is no routine none") == 0);
}

TEST_CASE("a repository's routine runs after its bytes were trusted, and no longer once they have changed") {
  world w;
  w.theirs("chain", chain);
  auto refused = w.ctl({"routine", "run", "chain"});
  CHECK(refused.status == 1);
  CHECK(has(refused.err, "not trusted yet. Look at it and trust it: swarmctl routine trust repository/chain"));
  CHECK(w.ctl({"routine", "run", "chain", "--dry-run"}).status == 0);
  auto by_worker = w.ctl({"routine", "trust", "chain"}, {.env = {{"SWARM_SPAWN_ID", "11111111-2222-4333-8444-555555555555"}}});
  CHECK(by_worker.status == 1);
  CHECK(has(by_worker.err, "for a person to do"));
  CHECK(w.ctl({"routine", "run", "chain"}).status == 1);
  CHECK(w.tasks() == 0);

  // An agent's shell, which has no terminal, is asked nothing and given nothing.
  auto unasked = w.ctl({"routine", "trust", "chain"});
  CHECK(unasked.status == 1);
  CHECK(has(unasked.err, "repeat with --yes"));
  auto trusted = w.ctl({"routine", "trust", "chain", "--yes"});
  CHECK(trusted.status == 0);
  CHECK(has(trusted.out, chain)); // shown as it is
  CHECK(has(trusted.out, "trusted: repository/chain"));
  struct stat what {};
  REQUIRE(stat((w.dir().root / "trusted-routines.json").c_str(), &what) == 0);
  CHECK((what.st_mode & 0777) == 0600);
  CHECK_FALSE(fs::exists(fs::path{w.work()} / "trusted-routines.json"));
  CHECK(w.ctl({"routine", "run", "chain"}).status == 0);
  CHECK(w.tasks() == 3);

  w.theirs("chain", chain + "# changed\n");
  auto changed = w.ctl({"routine", "run", "chain"});
  CHECK(changed.status == 1);
  CHECK(has(changed.err, "has changed since it was trusted"));
  CHECK(w.tasks() == 3);
  CHECK(w.ctl({"routine", "trust", "chain", "--json", "--yes"}).parsed().at("existing") == false);
  CHECK(w.ctl({"routine", "run", "chain"}).status == 0);
  CHECK(w.tasks() == 6); // another content is another routine

  // One of the same name as a shipped one is never meant by the name alone.
  w.theirs("fix-tests", "name = \"fix-tests\"\nsummary = \"evil\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\n");
  auto which = w.ctl({"routine", "run", "fix-tests", "--set", "command=make"});
  CHECK(which.status == 1);
  CHECK(has(which.err, "say which one is meant: repository/fix-tests or shipped/fix-tests"));
}

TEST_CASE("a person at a terminal is asked before a routine is trusted") {
  world w;
  w.theirs("chain", chain);
  std::vector<std::string> argv{program("swarmctl").string(), "routine", "trust", "chain"};
  terminal_process unsure{argv, w.env(), w.work()};
  REQUIRE(unsure.read_until("[y/N]"));
  CHECK(has(unsure.screen(), "title = \"A\""));
  unsure.type("\n");
  CHECK(unsure.finish() == 1);
  CHECK(w.ctl({"routine", "run", "chain"}).status == 1);
  terminal_process sure{argv, w.env(), w.work()};
  REQUIRE(sure.read_until("[y/N]"));
  sure.type("y\n");
  CHECK(sure.finish() == 0);
  CHECK(w.ctl({"routine", "run", "chain"}).status == 0);
}

TEST_CASE("a run is one batch with the steps' dependencies, and the same run however often it is asked for") {
  world w;
  w.mine("three", three);
  auto first = w.run({"three", "--set", "what=that"});
  CHECK(first.at("existing") == false);
  auto steps = by_step(first);
  REQUIRE(steps.size() == 3);
  auto left = w.task(id_of(first, "left"));
  auto right = w.task(id_of(first, "right"));
  auto both = w.task(id_of(first, "both"));
  auto summary = w.task(first.at("summary").at("task_id"));
  CHECK(left.at("status") == "open");
  CHECK(left.at("title") == "Left of that");
  CHECK(left.at("type") == "review");
  CHECK(has(left.at("files").dump(), w.work() + "/src/a.cpp"));
  CHECK(right.at("priority") == 2);
  CHECK(right.at("description") == "Look at that, not at ${what}");
  CHECK(both.at("status") == "blocked");
  CHECK(has(both.at("depends_on").dump(), id_of(first, "left")));
  CHECK(has(both.at("depends_on").dump(), id_of(first, "right")));
  CHECK(summary.at("status") == "blocked");
  for (const auto* step : {"left", "right", "both"})
    CHECK(has(summary.at("depends_on").dump(), id_of(first, step)));
  CHECK(w.tasks() == 4);
  // All in one change: each has its place in the batch.
  std::set<json> places;
  for (const auto& line : lines_of(w.ctl({"events", "--type", "task.created", "--json"}).out))
    places.insert(json::parse(line).at("payload").at("batch_index"));
  CHECK(places == std::set<json>{0, 1, 2, 3});

  auto again = w.run({"three", "--set", "what=that"});
  CHECK(again.at("existing") == true);
  CHECK(again.at("run") == first.at("run"));
  CHECK(id_of(again, "both") == id_of(first, "both"));
  // Also from below.
  fs::create_directories(fs::path{w.work()} / ".git");
  fs::create_directories(fs::path{w.work()} / "src" / "deep");
  CHECK(w.ctl_json({"routine", "run", "three", "--set", "what=that"}, {.directory = w.work() + "/src/deep"}).at("run") == first.at("run"));
  CHECK(w.tasks() == 4);
  CHECK(w.run({"three"}).at("run") != first.at("run")); // other parameters
  CHECK(w.tasks() == 8);
  auto fresh = w.run({"three", "--set", "what=that", "--fresh"});
  CHECK(fresh.at("existing") == false);
  CHECK(fresh.at("run") != first.at("run"));
  CHECK(w.tasks() == 12);
  // The last one is the one that goes on.
  CHECK(w.run({"three", "--set", "what=that"}).at("run") == fresh.at("run"));
}

TEST_CASE("when all steps have ended the routine runs again, and a summary nobody took goes and is named") {
  world w;
  w.mine("chain", chain);
  auto worker = w.session();
  auto first = w.run({"chain"});
  w.finish(id_of(first, "a"), worker);
  CHECK(w.run({"chain"}).at("run") == first.at("run"));
  w.finish(id_of(first, "b"), worker);
  CHECK(w.status(first.at("summary").at("task_id")) == "open");
  const auto again = w.ctl({"routine", "run", "chain", "--json"});
  const auto dropped = first.at("summary").at("task_id").get<std::string>();
  CHECK_MESSAGE(has(again.err, "nobody has taken the summary of the last one (task " + dropped + "), and it is cancelled"), again.err);
  const auto second = again.parsed();
  CHECK(second.at("existing") == false);
  CHECK(second.at("run") != first.at("run"));
  CHECK(w.status(first.at("summary").at("task_id")) == "cancelled");
  CHECK(w.status(id_of(first, "b")) == "done");
  CHECK(w.status(id_of(second, "a")) == "open");
}

TEST_CASE("many who run the same routine at once begin one run") {
  world w;
  w.mine("three", three);
  REQUIRE(w.ctl({"up"}).status == 0);
  constexpr int callers = 16;
  std::vector<std::string> runs(callers);
  std::vector<std::thread> pool;
  for (int t = 0; t < 4; ++t)
    pool.emplace_back([&, t] {
      for (int i = t; i < callers; i += 4)
        runs[static_cast<std::size_t>(i)] = w.ctl({"routine", "run", "three", "--json"}).parsed().value("run", "failed");
    });
  for (auto& t : pool)
    t.join();
  CHECK(std::set<std::string>{runs.begin(), runs.end()}.size() == 1);
  CHECK(w.tasks() == 4);
}

TEST_CASE("--wait follows the steps as they are done one after the other, and sums them up") {
  world w;
  w.mine("chain", chain);
  auto worker = w.live("role:implementer");
  auto waiting = w.ctl_start({"routine", "run", "chain", "--wait"});
  REQUIRE(waiting.read_until("began run"));
  REQUIRE(eventually([&] { return w.tasks() == 3; }));
  auto run = w.run({"chain"});
  w.finish(id_of(run, "a"), worker, "done", "alpha");
  REQUIRE(waiting.read_until("b  unblocked"));
  w.finish(id_of(run, "b"), worker, "done", "beta");
  auto end = waiting.finish();
  CHECK_MESSAGE(end.status == 0, end.err);
  CAPTURE(end.out);
  CHECK(has(end.out, "user/chain: 2 done\n"));
  CHECK(end.out.find("alpha") < end.out.find("beta"));
  auto summary = w.task(run.at("summary").at("task_id"));
  CHECK(summary.at("status") == "done");
  auto result = json::parse(summary.at("result").get<std::string>());
  CHECK(result.at("summary") == "chain: 2 done");
  CHECK(result.at("steps")[1].at("result") == "beta");
  // The session that wrote it has gone; the worker is still there, and was told of each step once.
  CHECK(w.ctl_json({"instances"}).size() == 1);
  std::map<std::string, int> told;
  for (const auto& m : w.ctl_json({"messages", "--as", worker}))
    for (const auto* step : {"a", "b"})
      told[step] += has(m.at("content"), "Task " + id_of(run, step) + " is ready");
  CHECK(told["a"] == 1);
  CHECK(told["b"] == 1);
}

TEST_CASE("a step that fails cancels what needs it, and the others go on") {
  world w;
  w.mine("three", three + "[[step]]\nid = \"alone\"\ntitle = \"Alone\"\n");
  auto worker = w.session();
  auto run = w.run({"three"});
  auto waiting = w.ctl_start({"routine", "run", "three", "--wait", "--json"});
  w.finish(id_of(run, "left"), worker, "failed", "broken");
  CHECK(w.status(id_of(run, "both")) == "cancelled");
  w.finish(id_of(run, "right"), worker);
  w.finish(id_of(run, "alone"), worker);
  auto end = waiting.finish();
  CHECK(end.status == 1);
  auto got = end.parsed();
  REQUIRE_MESSAGE(got.is_object(), end.out);
  CHECK(got.at("run") == run.at("run"));
  CHECK(got.at("existing") == true);
  CHECK(got.at("completion").at("status") == "completed");
  auto steps = by_step(got);
  CHECK(steps.at("left").at("status") == "failed");
  CHECK(steps.at("left").at("result") == "broken");
  CHECK(steps.at("both").at("status") == "cancelled");
  CHECK(steps.at("alone").at("status") == "done");
  CHECK(w.status(run.at("summary").at("task_id")) == "cancelled");
}

TEST_CASE("a wait ends at --timeout with 4, and the run goes on") {
  world w;
  w.mine("chain", chain);
  // A deadline that passes before the run is made says something else, so the run is made first, and a slow machine gets longer.
  REQUIRE(w.run({"chain"}).contains("run"));
  run_result late;
  for (auto seconds : {"1", "4", "16"}) {
    late = w.ctl({"--timeout", seconds, "routine", "run", "chain", "--wait"});
    REQUIRE(late.status == 4);
    if (has(late.err, "the deadline of --timeout passed; the run goes on"))
      break;
  }
  CHECK(has(late.err, "the deadline of --timeout passed; the run goes on"));
  for (auto seconds : {"1", "4", "16"}) {
    late = w.ctl({"--timeout", seconds, "routine", "run", "chain", "--wait", "--json"});
    REQUIRE(late.status == 4);
    if (late.parsed().contains("completion"))
      break;
  }
  CHECK(late.parsed().at("completion").at("status") == "timeout");
  CHECK(w.tasks() == 3);
}

TEST_CASE("Ctrl-C ends the wait and not the run") {
  world w;
  w.mine("chain", chain);
  auto worker = w.session();
  auto run = w.run({"chain"});
  auto waiting = w.ctl_start({"routine", "run", "chain", "--wait"});
  REQUIRE(waiting.read_until("following run"));
  w.finish(id_of(run, "a"), worker);
  REQUIRE(waiting.read_until("a  done"));
  waiting.signal(SIGINT);
  auto end = waiting.finish();
  CHECK(end.status == 130);
  CHECK(has(end.err, "stopped following; the run goes on"));
  CHECK(w.status(id_of(run, "b")) == "open");
}

TEST_CASE("a step with approval waits for a person, and the run waits with it") {
  world w;
  w.mine("gate", "name = \"gate\"\nsummary = \"s\"\n[[step]]\nid = \"a\"\ntitle = \"A\"\napproval = true\n");
  auto worker = w.session();
  auto run = w.run({"gate"});
  CHECK(w.status(id_of(run, "a")) == "approval_required");
  auto waiting = w.ctl_start({"routine", "run", "gate", "--wait"});
  REQUIRE(waiting.read_until("following run"));
  REQUIRE(w.ctl({"approve", id_of(run, "a")}).status == 0);
  REQUIRE(waiting.read_until("a  approved"));
  w.finish(id_of(run, "a"), worker);
  CHECK(waiting.finish().status == 0);
}

TEST_CASE("a live worker is told of an open step once, and of nothing that is not open") {
  world w;
  w.mine("chain", chain);
  auto worker = w.live("role:implementer");
  auto first = w.run({"chain"});
  CHECK(by_step(first).at("a").at("routing") == "dispatched");
  CHECK(by_step(first).at("a").at("recipient") == worker);
  CHECK(by_step(first).at("b").at("routing") == "waiting");
  auto again = w.run({"chain"});
  CHECK(by_step(again).at("a").at("routing") == "told");
  auto mail = w.ctl_json({"messages", "--as", worker});
  REQUIRE(mail.size() == 1);
  CHECK(has(mail[0].at("content"), "Task " + id_of(first, "a") + " is ready: A"));
}

TEST_CASE("what opens is given to a live worker though nobody follows the run, also after the node was killed") {
  world w;
  w.mine("chain", chain);
  auto me = w.session("role:other");
  auto run = w.run({"chain"});
  CHECK(by_step(run).at("a").at("routing") == "no_worker");
  CHECK(by_step(run).at("b").at("routing") == "waiting");
  CHECK(w.run({"chain"}).at("run") == run.at("run"));
  w.kill_node();
  auto worker = w.live("role:implementer");
  auto planner = w.live("role:planner");
  auto mail = [&](const std::string& session) { return w.ctl_json({"messages", "--to", session}); };
  CHECK(mail(worker).empty());
  w.finish(id_of(run, "a"), me);
  REQUIRE(mail(worker).size() == 1);
  CHECK(has(mail(worker)[0].at("content"), "Task " + id_of(run, "b") + " is ready: B"));
  CHECK(by_step(w.run({"chain"})).at("b").at("routing") == "told");
  CHECK(mail(planner).empty());
  w.finish(id_of(run, "b"), worker);
  CHECK(mail(worker).size() == 1);
  REQUIRE(mail(planner).size() == 1);
  CHECK(has(mail(planner)[0].at("content"), "chain: summary of the run"));
}

TEST_CASE("with an agent to start, every step has one worker of its own, however often the routine is run") {
  world w;
  w.mine("chain", chain);
  auto agent = fs::path{w.work()} / "agent";
  std::ofstream{agent} << "#!/bin/sh\necho x >> " << w.work() << "/started\nexec sleep 1000\n";
  fs::permissions(agent, fs::perms::owner_all);
  const run_options with{.env = {{"SWARM_HARNESS_CLAUDE", agent.string()}}};
  auto run = w.ctl_json({"routine", "run", "chain", "--harness", "claude"}, with);
  CHECK(by_step(run).at("a").at("routing") == "spawning");
  CHECK(by_step(run).at("b").at("routing") == "spawning"); // when it opens
  CHECK(w.ctl_json({"spawns"}).size() == 3);
  auto has_worker = [&](const std::string& id) { return eventually([&] { return w.status(id) == "claimed"; }); };
  std::set<json> workers;
  for (const auto* step : {"a", "b"}) {
    CAPTURE(step);
    auto id = id_of(run, step);
    REQUIRE(has_worker(id));
    CHECK(eventually([&] { return count_lines(w.work() + "/started") == workers.size() + 1; })); // and nobody before the time
    auto again = w.ctl_json({"routine", "run", "chain", "--harness", "claude"}, with);
    CHECK(again.at("run") == run.at("run"));
    CHECK(by_step(again).at(step).at("routing") == "assigned");
    workers.insert(w.task(id).at("assignee"));
    w.finish(id, w.task(id).at("assignee"));
  }
  REQUIRE(has_worker(run.at("summary").at("task_id")));
  workers.insert(w.task(run.at("summary").at("task_id")).at("assignee"));
  CHECK(workers.size() == 3);
  CHECK(eventually([&] { return count_lines(w.work() + "/started") == 3; }));
}

TEST_CASE("--force-spawn starts a worker for a step that a live session was told of and does not take") {
  world w;
  w.mine("chain", chain);
  auto agent = fs::path{w.work()} / "agent";
  std::ofstream{agent} << "#!/bin/sh\nexec sleep 1000\n";
  fs::permissions(agent, fs::perms::owner_all);
  const run_options with{.env = {{"SWARM_HARNESS_CLAUDE", agent.string()}}};
  auto idle = w.live("role:implementer");
  const std::vector<std::string> command{"routine", "run", "chain", "--harness", "claude"};
  auto forced = command;
  forced.emplace_back("--force-spawn");
  auto run = w.ctl_json(command, with);
  CHECK(by_step(run).at("a").at("recipient") == idle);
  CHECK(by_step(w.ctl_json(command, with)).at("a").at("routing") == "told");
  auto again = w.ctl_json(forced, with);
  CHECK(again.at("run") == run.at("run"));
  CHECK(by_step(again).at("a").at("routing") == "spawning");
  REQUIRE(eventually([&] { return w.status(id_of(run, "a")) == "claimed"; }));
  CHECK(w.task(id_of(run, "a")).at("assignee") != idle);
  CHECK(w.ctl_json({"messages", "--to", idle}).size() == 1);
}

// -- over MCP ------------------------------------------------------------------------------

namespace {

struct agent : mcp_client {
  explicit agent(const test_node& node, const std::string& label = "identity:work mode:gateway") : mcp_client(node) {
    initialize();
    enroll(label);
  }
};

} // namespace

TEST_CASE("agents list, show and run routines, those who may dispatch") {
  world w;
  w.mine("three", three);
  agent gateway{w};
  bool found = false;
  auto rows = gateway.ask("routine_list");
  for (const auto& r : rows)
    found = found || r.at("routine") == "user/three";
  CHECK(found);
  auto shown = gateway.ask("routine_show", {{"name", "three"}});
  CHECK(shown.at("steps").size() == 3);
  CHECK(shown.at("trusted") == true);
  CHECK(gateway.ask("routine_show", {{"name", "none"}}).at("error").get<std::string>().find("there is no routine none") == 0);

  auto dry = gateway.ask("routine_run", {{"name", "three"}, {"parameters", {{"what", "that"}}}, {"dry_run", true}});
  CHECK(dry.at("steps")[0].at("title") == "Left of that");
  auto asked = gateway.ask("routine_run", {{"name", "three"}, {"harness", "claude"}, {"dry_run", true}});
  CHECK(asked.at("steps")[0].at("harness") == "claude");
  CHECK(has(gateway.ask("routine_run", {{"name", "three"}, {"harness", "exec"}, {"dry_run", true}}).at("error"), "the harness exec is no agent"));
  CHECK(w.tasks() == 0);

  agent worker{w, "identity:work role:implementer"};
  auto refused = worker.ask("routine_run", {{"name", "three"}});
  CHECK(has(refused.at("error"), "dispatch is gateway-only"));
  CHECK(w.tasks() == 0);

  auto forced = gateway.ask("routine_run", {{"name", "three"}, {"parameters", {{"what", "none"}}}, {"force_spawn", true}});
  CHECK(by_step(forced).at("right").at("routing") == "no_worker"); // nobody is told, and without a harness nobody is started
  CHECK(w.tasks() == 4);

  auto run = gateway.ask("routine_run", {{"name", "three"}, {"parameters", {{"what", "that"}}}});
  CHECK(by_step(run).at("right").at("routing") == "dispatched"); // to the worker
  CHECK(by_step(run).at("right").at("recipient") == worker.id());
  CHECK(run.at("summary").at("assignee") == gateway.id());
  agent second{w};
  auto same = second.ask("routine_run", {{"name", "three"}, {"parameters", {{"what", "that"}}}});
  CHECK(same.at("run") == run.at("run"));
  CHECK(w.tasks() == 8);

  const std::vector<std::pair<json, std::string>> bad = {
    {{{"name", "three"}, {"parameters", {{"what", 3}}}}, "the parameter what must be a text"},
    {{{"name", "three"}, {"parameters", {{"how", "x"}}}}, "has no parameter \"how\""},
    {{{"name", "fix-tests"}}, "the parameter command is required"},
    {{{"name", "three"}, {"harness", "shell"}}, "is no agent"},
    {{{"name", "three"}, {"parent_task_id", "none"}}, "Parent task none not found"},
  };
  for (const auto& [arguments, told] : bad) {
    auto got = gateway.ask("routine_run", arguments);
    CHECK_MESSAGE(has(got.at("error"), told), got.dump());
  }
  CHECK(gateway.call("routine_run").is_error);
  CHECK(gateway.call("routine_run", {{"name", "three"}, {"parameters", "what"}}).is_error);
  CHECK(gateway.call("routine_run", {{"name", "three"}, {"completion_wait_seconds", -1}}).is_error);
  CHECK(w.tasks() == 8);
}

TEST_CASE("an agent waits for a run, routes what opens, and gets the outcome without the mail") {
  world w;
  w.mine("chain", chain);
  agent gateway{w};
  agent worker{w, "identity:work role:implementer"};
  auto waiting = gateway.call_later("routine_run", {{"name", "chain"}, {"completion_wait_seconds", 60}});
  auto next = [&](const std::string& title) {
    std::string id;
    REQUIRE(eventually([&] {
      auto mail = worker.ask("poll_messages");
      for (const auto& m : mail)
        if (has(m.at("content"), "is ready: " + title)) {
          auto text = m.at("content").get<std::string>();
          id = text.substr(6, text.find(']') - 6);
        }
      return !id.empty();
    }));
    REQUIRE(worker.ask("claim_task", {{"task_id", id}, {"ignore_unread_messages", true}}).at("ok") == true);
    worker.ask("complete_task", {{"task_id", id}, {"summary", "did " + title}});
  };
  next("A");
  CHECK_FALSE(gateway.is_answered(waiting));
  next("B");
  auto got = gateway.reply_to(waiting).value();
  CHECK(got.at("completion").at("status") == "completed");
  CHECK(got.at("completion").at("succeeded") == true);
  CHECK(has(by_step(got).at("b").at("result"), "did B"));
  CHECK(got.at("summary").at("status") == "done");
  CHECK(w.task(got.at("summary").at("task_id")).at("assignee") == gateway.id());
  CHECK(got.at("consumed_messages").size() > 0);
  CHECK(gateway.ask("poll_messages").empty());
  auto late = gateway.ask("routine_run", {{"name", "chain"}, {"completion_wait_seconds", 0.2}});
  CHECK(late.at("completion").at("status") == "timeout");
  CHECK(late.at("existing") == false);
}

TEST_CASE("a worker gives no trust, also when it has put off the marks of one") {
  world w;
  w.theirs("chain", chain);
  auto said = w.ctl({"dispatch", "trust me", "--harness", "exec", "--", "env", "-i", "SWARM_HOME=" + w.dir().root.string(),
                     program("swarmctl").string(), "routine", "trust", "chain", "--yes"});
  CAPTURE(said.out);
  CHECK(said.status == 1);
  CHECK(has(said.out + said.err, "not for a worker"));
  CHECK(w.ctl({"routine", "run", "chain"}).status == 1);
}

TEST_CASE("trust is not to be had over MCP") {
  world w;
  w.theirs("chain", chain);
  agent gateway{w};
  CHECK(gateway.ask("routine_show", {{"name", "chain"}}).at("trusted") == false);
  CHECK(has(gateway.ask("routine_run", {{"name", "chain"}}).at("error"), "not trusted yet"));
  CHECK(w.tasks() == 0);
  auto listed = gateway.result("tools/list");
  for (const auto& t : listed.at("tools"))
    CHECK_FALSE(has(t.at("name"), "trust"));
  REQUIRE(w.ctl({"routine", "trust", "chain", "--yes"}).status == 0);
  CHECK(gateway.ask("routine_run", {{"name", "chain"}}).at("steps").size() == 2);
  w.theirs("chain", chain + "\n");
  CHECK(has(gateway.ask("routine_run", {{"name", "chain"}}).at("error"), "has changed since"));
}
