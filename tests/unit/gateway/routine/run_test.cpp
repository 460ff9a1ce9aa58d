// Runs over the real rules in memory.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "gateway/routine/run.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using namespace swarm::routines;
using test::domain_world;

namespace {

routine_file file_of(const std::vector<step>& steps) {
  routine_file out;
  out.name = "r";
  out.digest = "d";
  out.content.value.name = "r";
  out.content.value.steps = steps;
  return out;
}

struct swarm_of : domain_world {
  using domain_world::domain_world;

  ports as(const std::string& session = {}) {
    ports p;
    p.command = command(session);
    p.query.set_scope("s");
    p.query.set_viewer(session);
    p.query.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    p.execute = [this](const v1::Command& c, const environment_list&) {
      if (before_command)
        before_command(c);
      return reply(c);
    };
    p.ask = [this](const v1::Query& q) { return domain::answer(q, rows, in); };
    p.worker_of = [](const std::string& harness) { return ports::worker{harness, {}}; };
    return p;
  }
  routines::run begin(const routine_file& file, wishes w = {}) {
    std::vector<problem> problems;
    return {file, {}, plan(file.content.value, file.from, {}, "/repo", problems), "/repo", std::move(w)};
  }
  std::map<std::string, v1::Task> tasks() {
    std::map<std::string, v1::Task> out;
    v1::Query q;
    q.set_scope("s");
    q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    q.mutable_list_tasks();
    const auto answer = domain::answer(q, rows, in);
    for (const auto& t : answer.tasks().tasks())
      out[t.id()] = t;
    return out;
  }
  void end(const std::string& task, const std::string& session, v1::TaskStatus status) {
    auto claim = command(session);
    claim.mutable_claim_task()->set_task_id(task);
    claim.mutable_claim_task()->set_ignore_unread_messages(true);
    auto claimed = reply(claim);
    REQUIRE_MESSAGE(!claimed.has_refusal(), claimed.refusal().text());
    auto update = command(session);
    update.mutable_update_task()->set_task_id(task);
    update.mutable_update_task()->set_status(status);
    auto ended = reply(update);
    REQUIRE_MESSAGE(!ended.has_refusal(), ended.refusal().text());
  }

  std::function<void(const v1::Command&)> before_command;
};

const wishes following = [] {
  wishes w;
  w.follows = true;
  return w;
}();

std::string id_of(const routines::run& r) { return r.report(false).at("run"); }

} // namespace

TEST_CASE("whatever is done in whatever order, asking again is the same run until all steps have ended") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    swarm_of w(seed);
    auto worker = w.session("role:other");
    std::vector<step> steps(1 + random() % 8);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      steps[i].id = "s" + std::to_string(i);
      steps[i].title = "S" + std::to_string(i);
      for (auto k = random() % 3; i > 0 && k > 0; --k)
        steps[i].needs.push_back("s" + std::to_string(random() % i));
    }
    auto file = file_of(steps);
    auto first = w.begin(file);
    first.start(w.as());
    const auto made = w.tasks().size();
    CHECK(made == steps.size() + 1);
    bool failed = false;
    for (;;) {
      auto again = w.begin(file);
      again.start(w.as());
      REQUIRE(id_of(again) == id_of(first));
      REQUIRE(w.tasks().size() == made);
      std::vector<std::string> open;
      const auto report = again.report(false);
      for (const auto& s : report.at("steps"))
        if (s.at("status") == "open")
          open.push_back(s.at("task_id"));
      REQUIRE_FALSE(open.empty());
      auto status = random() % 8 == 0 ? v1::FAILED : v1::DONE;
      failed = failed || status == v1::FAILED;
      w.end(open[random() % open.size()], worker, status);
      first.refresh(w.as());
      if (first.over())
        break;
    }
    CHECK(first.succeeded() == !failed);
    auto summary = w.tasks().at(first.report(false).at("summary").at("task_id"));
    CHECK(summary.status() == (failed ? v1::CANCELLED : v1::OPEN));
    auto second = w.begin(file);
    second.start(w.as());
    CHECK(id_of(second) != id_of(first));
    CHECK(second.dropped_summary() == (failed ? "" : summary.id()));
    CHECK(w.tasks().size() == 2 * made);
    CHECK(w.tasks().at(summary.id()).status() == v1::CANCELLED);
  }
}

TEST_CASE("the follower to the end writes the summary: a session itself, a person through one that goes again") {
  for (bool person : {true, false}) {
    CAPTURE(person);
    swarm_of w;
    auto worker = w.session("role:other");
    auto me = person ? std::string{} : w.session("mode:gateway", 200);
    auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}});
    auto r = w.begin(file, following);
    r.start(w.as(me));
    auto summary = r.report(false).at("summary").at("task_id").get<std::string>();
    r.conclude(w.as(me)); // too early
    CHECK(w.tasks().at(summary).status() == v1::BLOCKED);
    w.end(r.report(false).at("steps")[0].at("task_id"), worker, v1::DONE);
    r.refresh(w.as(me));
    REQUIRE(r.over());
    r.conclude(w.as(me));
    CHECK(w.tasks().at(summary).status() == v1::DONE);
    CHECK(json::parse(w.tasks().at(summary).result()).at("summary") == "r: 1 done");
    v1::Query sessions;
    sessions.set_scope("s");
    sessions.mutable_principal()->set_kind(v1::Principal::OPERATOR);
    sessions.mutable_list_sessions();
    CHECK(domain::answer(sessions, w.rows, w.in).sessions().sessions_size() == (person ? 1 : 2));
  }
}

TEST_CASE("a step that opens is given to a live worker once, whether somebody follows or not") {
  for (bool follows : {false, true}) {
    CAPTURE(follows);
    swarm_of w;
    auto worker = w.session("role:implementer");
    auto other = w.session("role:other", 200);
    auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}, {"b", "B", "do b", {}, {}, {}, {"a"}, false, 0, {}, 0}});
    auto r = w.begin(file, follows ? following : wishes{});
    r.start(w.as());
    auto steps = r.report(false).at("steps");
    CHECK(steps[0].at("routing") == "dispatched");
    CHECK(steps[1].at("routing") == "waiting");
    CHECK(r.problems().empty());
    w.end(steps[0].at("task_id"), other, v1::DONE);
    r.refresh(w.as());
    std::vector<std::string> told;
    for (const auto& m : w.rows.rows<v1::Message>({.scope = "s", .recipient = worker}))
      told.push_back(m.content());
    const auto b = steps[1].at("task_id").get<std::string>();
    REQUIRE(told.size() == 2);
    CHECK(told[1].find("[task:" + b + "] Task " + b + " is ready: B\n\ndo b\n\n") == 0);
    auto again = w.begin(file, follows ? following : wishes{});
    again.start(w.as());
    CHECK(again.report(false).at("steps")[1].at("routing") == "told");
  }
}

TEST_CASE("the caller's harness wins over the step's, and the step's over the environment's") {
  swarm_of w;
  auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, "codex", 0}, {"b", "B", {}, {}, {}, {}, {}, false, 0, {}, 0}});
  auto harnesses = [&](const char* chosen, const char* otherwise) {
    wishes with;
    with.harness = chosen;
    with.harness_else = otherwise;
    with.fresh = true;
    auto ports = w.as();
    std::vector<std::string> asked;
    ports.worker_of = [&](const std::string& harness) {
      asked.push_back(harness);
      return ports::worker{harness, {}};
    };
    w.begin(file, with).start(ports);
    return asked;
  };
  auto asks_for = [](const std::vector<std::string>& asked, const char* harness) {
    return std::find(asked.begin(), asked.end(), harness) != asked.end();
  };
  auto asked = harnesses("gemini", "claude");
  CHECK((asks_for(asked, "gemini") && !asks_for(asked, "codex") && !asks_for(asked, "claude")));
  asked = harnesses("", "claude");
  CHECK((asks_for(asked, "codex") && asks_for(asked, "claude")));
  asked = harnesses("", "");
  CHECK((asks_for(asked, "codex") && !asks_for(asked, "claude")));
}

TEST_CASE("force_spawn gives a step a worker of its own though somebody is live, also a step that somebody was told of") {
  swarm_of w;
  auto worker = w.session("role:implementer");
  auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}});
  auto routing = [&](bool force) {
    wishes with;
    with.harness = "claude";
    with.force_spawn = force;
    auto r = w.begin(file, with);
    r.start(w.as());
    return r.report(false).at("steps")[0].at("routing").get<std::string>();
  };
  CHECK(routing(false) == "dispatched");
  CHECK(routing(false) == "told");
  CHECK(w.rows.rows<v1::Spawn>({.live = true}).size() == 1); // of the summary, when it opens
  CHECK(routing(true) == "spawning");
  CHECK(routing(true) == "spawn_in_flight");
  CHECK(w.rows.rows<v1::Spawn>({.live = true}).size() == 2);
  CHECK(w.rows.rows<v1::Message>({.scope = "s", .recipient = worker}).size() == 1);
}

TEST_CASE("a run that somebody else begins in between is the run") {
  swarm_of w;
  auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}});
  auto mine = w.begin(file);
  auto theirs = w.begin(file);
  bool once = false;
  w.before_command = [&](const v1::Command& c) {
    if (c.has_set_kv() && !std::exchange(once, true))
      theirs.start(w.as());
  };
  mine.start(w.as());
  CHECK(id_of(mine) == id_of(theirs));
  CHECK(w.tasks().size() == 2);
}

TEST_CASE("what stands in the store's key is not believed") {
  swarm_of w;
  auto file = file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}});
  std::string key;
  w.before_command = [&](const v1::Command& c) {
    if (c.has_set_kv())
      key = c.set_kv().key();
  };
  auto first = w.begin(file);
  first.start(w.as());
  CHECK(key.rfind("routine/r/", 0) == 0);
  for (const std::string value : {"", "x", "../../../../../..", "0123456789abcde\n"}) {
    CAPTURE(value);
    auto set = domain_world::command();
    set.mutable_set_kv()->set_key(key);
    set.mutable_set_kv()->set_value(value);
    REQUIRE_FALSE(w.reply(set).has_refusal());
    auto r = w.begin(file);
    r.start(w.as());
    CHECK(id_of(r).size() == 16);
    CHECK(id_of(r) != value);
  }
}

TEST_CASE("who may not dispatch begins nothing") {
  swarm_of w;
  auto worker = w.session("role:implementer");
  auto p = w.as(worker);
  p.command.mutable_principal()->set_kind(v1::Principal::SESSION);
  p.command.mutable_principal()->set_id(worker);
  auto r = w.begin(file_of({{"a", "A", {}, {}, {}, {}, {}, false, 0, {}, 0}}));
  CHECK_THROWS_WITH_AS(r.start(p), doctest::Contains("dispatch is gateway-only"), refused_run);
  CHECK(w.tasks().empty());
}

TEST_CASE("a result is said by its summary, or as it is") {
  CHECK(said_in("{\"summary\": \"all green\", \"tests\": []}") == "all green");
  CHECK(said_in("{\"summary\": 3}") == "{\"summary\": 3}");
  CHECK(said_in("plain") == "plain");
  CHECK(said_in("") == "");
}
