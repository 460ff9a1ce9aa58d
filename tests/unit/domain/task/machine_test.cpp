// Random operations against a model that knows nothing of the rules but swarm-mcp's state machine.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct model_task {
  v1::TaskStatus status;
  std::string assignee;
  std::vector<std::string> deps;
  std::uint64_t attempts = 0;
};

bool over(v1::TaskStatus s) { return s == v1::DONE || s == v1::FAILED || s == v1::CANCELLED; }

struct model {
  std::map<std::string, model_task> tasks;

  v1::TaskStatus ready(const model_task& t) const {
    for (const auto& d : t.deps)
      if (tasks.at(d).status == v1::FAILED || tasks.at(d).status == v1::CANCELLED)
        return v1::CANCELLED;
    for (const auto& d : t.deps)
      if (tasks.at(d).status != v1::DONE)
        return v1::BLOCKED;
    return t.assignee.empty() ? v1::OPEN : v1::CLAIMED;
  }
  void add(const std::string& id, std::vector<std::string> deps, bool approval) {
    model_task t{v1::OPEN, {}, std::move(deps)};
    t.status = ready(t);
    if (approval && t.status != v1::CANCELLED)
      t.status = v1::APPROVAL_REQUIRED;
    tasks[id] = t;
  }
  /// Repeats until nothing moves: naive, but obviously right. Returns how many tasks left `blocked` for work.
  int settle() {
    int unblocked = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [id, t] : tasks) {
        if (t.status != v1::BLOCKED && t.status != v1::APPROVAL_REQUIRED)
          continue;
        const auto next = ready(t);
        if (next == v1::CANCELLED || (t.status == v1::BLOCKED && next != v1::BLOCKED)) {
          unblocked += next != v1::CANCELLED;
          t.status = next;
          moved = true;
        }
      }
    }
    return unblocked;
  }
};

struct player {
  task_world w;
  model m;
  std::mt19937_64 random;
  std::vector<std::string> sessions;

  explicit player(std::uint64_t seed) : w(seed), random(seed) {
    for (int i = 0; i < 3; ++i)
      sessions.push_back(w.join("identity:x"));
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random() % n); }
  const std::string& someone() { return sessions[below(sessions.size())]; }
  std::string some_task() {
    return m.tasks.empty() ? std::string("none") : std::next(m.tasks.begin(), static_cast<std::ptrdiff_t>(below(m.tasks.size())))->first;
  }

  v1::TaskSpec random_spec() {
    auto s = spec("t");
    for (std::size_t i = below(3); i > 0 && !m.tasks.empty(); --i)
      s.add_depends_on(some_task());
    s.set_approval_required(below(6) == 0);
    return s;
  }
  void add_one() {
    const auto s = random_spec();
    const auto t = made(w.as(someone(), create(s)));
    m.add(t.id(), {s.depends_on().begin(), s.depends_on().end()}, s.approval_required());
  }
  void add_batch() {
    auto one = random_spec(), two = random_spec();
    two.add_depends_on("$1");
    const bool bad = below(3) == 0;
    if (bad)
      two.add_depends_on("missing");
    const auto before = w.rows.all<v1::Task>().size();
    const auto r = w.as(someone(), batch({one, two}));
    if (bad) {
      CHECK(r.has_refusal());
      CHECK(w.rows.all<v1::Task>().size() == before);
      return;
    }
    const auto first = r.tasks_created().tasks(0).task().id();
    m.add(first, {one.depends_on().begin(), one.depends_on().end()}, one.approval_required());
    std::vector<std::string> deps(two.depends_on().begin(), two.depends_on().end());
    deps.back() = first;
    m.add(r.tasks_created().tasks(1).task().id(), deps, two.approval_required());
  }
  void start() {
    const auto id = some_task();
    const auto& who = someone();
    const auto r = w.as(who, claim(id, true));
    auto t = m.tasks.find(id);
    const bool may = t != m.tasks.end() && (t->second.status == v1::OPEN || (t->second.status == v1::CLAIMED && t->second.assignee == who));
    REQUIRE(r.has_refusal() == !may);
    if (!may)
      return;
    t->second.status = v1::IN_PROGRESS;
    t->second.assignee = who;
    CHECK(r.task().task().attempt() == ++t->second.attempts);
  }
  void finish() {
    const auto id = some_task();
    const auto& who = someone();
    const auto status = below(3) == 0 ? v1::FAILED : v1::DONE;
    const auto r = w.as(who, update(id, status));
    auto t = m.tasks.find(id);
    const bool may = t != m.tasks.end() && t->second.status == v1::IN_PROGRESS && t->second.assignee == who;
    REQUIRE(r.has_refusal() == !may);
    if (!may)
      return;
    t->second.status = status;
    CHECK(w.events("task.cascade.unblocked") == m.settle());
  }
  void approve_one() {
    const auto id = some_task();
    const auto r = w.as(someone(), approve(id));
    auto t = m.tasks.find(id);
    const bool may = t != m.tasks.end() && t->second.status == v1::APPROVAL_REQUIRED;
    REQUIRE(r.has_refusal() == !may);
    if (may)
      t->second.status = m.ready(t->second);
  }
  void leave() {
    const auto i = below(sessions.size());
    w.as(sessions[i], deregister());
    for (auto& [id, t] : m.tasks)
      if (t.assignee == sessions[i] && !over(t.status)) {
        t.assignee.clear();
        t.status = v1::OPEN;
      }
    sessions[i] = w.join("identity:x");
  }
  void step() {
    switch (below(10)) {
      case 0:
      case 1: return add_one();
      case 2: return add_batch();
      case 3:
      case 4:
      case 5: return start();
      case 6:
      case 7: return finish();
      case 8: return approve_one();
      default: return leave();
    }
  }
  void compare() {
    REQUIRE(w.rows.all<v1::Task>().size() == m.tasks.size());
    const auto open = std::count_if(m.tasks.begin(), m.tasks.end(), [](const auto& t) { return !over(t.second.status); });
    const auto state = w.rows.row<v1::ScopeState>(domain::key(test::scope));
    REQUIRE((state ? state->open_tasks() : 0) == static_cast<std::uint64_t>(open));
    for (const auto& [id, expected] : m.tasks) {
      const auto t = w.task(id);
      REQUIRE(t.status() == expected.status);
      REQUIRE(t.attempt() == expected.attempts);
      if (!over(t.status()))
        REQUIRE(t.assignee() == expected.assignee);
      REQUIRE((t.fence() != 0) == (t.status() == v1::IN_PROGRESS));
      bool waits = false;
      for (const auto& d : t.depends_on())
        waits = waits || !over(w.task(d).status());
      if (t.status() == v1::BLOCKED)
        REQUIRE(waits);
    }
  }
};

} // namespace

TEST_CASE("the task machine agrees with the model under random operations") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    player p(seed);
    for (int i = 0; i < 60; ++i)
      p.step();
    p.compare();
  }
}
