// Cascades that do not fit the command that causes them: sweeps go on with them, and nobody can tell but by the time it takes.
#include <algorithm>
#include <random>

#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

/// Four of them do not fit one batch.
const std::string large(128 * limits::kib, 'd');

v1::Task described(task_world& w, const std::string& who, const std::string& title, const std::vector<std::string>& deps,
                   const std::string& description = large, const std::string& assignee = {}) {
  auto s = spec(title);
  s.set_description(description);
  s.set_assignee(assignee);
  return waiting(w, who, s, deps);
}

v1::SweepReport sweep(task_world& w) {
  v1::Command c;
  c.mutable_sweep()->set_mode("periodic");
  auto r = w.node(c);
  REQUIRE_FALSE(r.has_refusal());
  CHECK(w.last.ByteSizeLong() <= limits::batch_encoded_bytes_max);
  return r.sweep();
}

/// As the scope does: again at once while there is more. Returns how many it took.
int sweep_until_quiet(task_world& w) {
  int n = 1;
  for (auto r = sweep(w); r.more(); r = sweep(w), ++n) {
    REQUIRE(n < 1'000);
    REQUIRE(r.dependants_told() > 0);
    CHECK(r.next_deadline_ms() == w.in.now_ms);
  }
  return n;
}

v1::ScopeState state(const task_world& w) { return w.rows.row<v1::ScopeState>(domain::key(test::scope)).value(); }

int count(const task_world& w, v1::TaskStatus status) {
  int n = 0;
  for (const auto& [key, t] : w.rows.all<v1::Task>())
    n += t.status() == status;
  return n;
}

/// What may never be seen, however far a cascade has come.
void check_invariants(const task_world& w) {
  std::uint64_t open = 0;
  for (const auto& [key, t] : w.rows.all<v1::Task>()) {
    open += !domain::is_terminal(t.status());
    for (const auto& d : t.depends_on())
      if (t.status() == v1::OPEN || t.status() == v1::CLAIMED || t.status() == v1::IN_PROGRESS || t.status() == v1::DONE)
        REQUIRE(w.task(d).status() == v1::DONE);
  }
  REQUIRE(state(w).open_tasks() == open);
}

/// With all sweeps made: nobody waits for what has ended.
void check_settled(const task_world& w) {
  REQUIRE(state(w).cascades_size() == 0);
  for (const auto& [key, t] : w.rows.all<v1::Task>()) {
    if (t.status() != v1::BLOCKED && t.status() != v1::APPROVAL_REQUIRED)
      continue;
    bool waits = false;
    for (const auto& d : t.depends_on()) {
      const auto status = w.task(d).status();
      REQUIRE(status != v1::FAILED);
      REQUIRE(status != v1::CANCELLED);
      waits = waits || status != v1::DONE;
    }
    REQUIRE((waits || t.status() == v1::APPROVAL_REQUIRED));
  }
}

/// The same random tasks and ends in two worlds, whose descriptions differ in size only.
struct pair_of_worlds {
  task_world small, big;
  std::mt19937_64 random;
  std::vector<std::string> sessions, tasks;

  explicit pair_of_worlds(std::uint64_t seed) : small(seed), big(seed), random(seed) {
    for (int i = 0; i < 3; ++i) {
      sessions.push_back(small.join("identity:x"));
      REQUIRE(big.join("identity:x") == sessions.back());
    }
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  void add() {
    auto s = spec("t" + std::to_string(tasks.size()));
    for (auto n = tasks.empty() ? 0 : below(4); n > 0; --n)
      s.add_depends_on(tasks[tasks.size() - 1 - below(std::min<std::size_t>(tasks.size(), 8))]);
    s.set_approval_required(below(6) == 0);
    s.set_priority(static_cast<std::int64_t>(below(3)));
    if (below(4) == 0)
      s.set_assignee(sessions[below(sessions.size())]);
    const auto who = sessions[below(sessions.size())];
    s.set_description("d");
    tasks.push_back(made(small.as(who, create(s))).id());
    s.set_description(std::string((16 + below(112)) * limits::kib, 'd'));
    REQUIRE(made(big.as(who, create(s))).id() == tasks.back());
  }

  /// Something ends, or is tried to.
  v1::Command random_end(std::string& who) {
    const auto& id = tasks[below(tasks.size())];
    const auto t = small.task(id);
    who = t.assignee().empty() ? sessions[below(sessions.size())] : t.assignee();
    switch (below(5)) {
      case 0: who = t.requester(); return update(id, v1::CANCELLED);
      case 1: return approve(id);
      case 2: return claim(id, true);
      case 3: return update(id, v1::FAILED);
      default: return update(id, v1::DONE);
    }
  }
};

} // namespace

TEST_CASE("a task whose many large dependants do not fit one command ends all the same") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  const auto root = made(w.as(a, create(spec("root"))));
  for (int i = 0; i < 10; ++i)
    described(w, a, "next " + std::to_string(i), {root.id()}, large, i % 2 == 0 ? b : "");
  w.as(a, claim(root.id()));
  const auto r = w.as(a, update(root.id(), v1::DONE));
  REQUIRE_FALSE(r.has_refusal());
  CHECK(w.last.ByteSizeLong() <= limits::batch_encoded_bytes_max);
  CHECK(r.task().task().status() == v1::DONE);
  CHECK(count(w, v1::BLOCKED) > 0);
  CHECK(count(w, v1::BLOCKED) < 10);
  CHECK(state(w).cascades_size() == 1);
  check_invariants(w);
  CHECK(sweep_until_quiet(w) > 1);
  CHECK(count(w, v1::OPEN) == 5);
  CHECK(count(w, v1::CLAIMED) == 5);
  const auto mail = w.mail(b);
  CHECK(std::count_if(mail.begin(), mail.end(), [](const auto& m) { return m.find("is unblocked and claimed by you") != m.npos; }) == 5);
  check_settled(w);
}

TEST_CASE("what waits for a failed task cannot be claimed while its cancellation is under way") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto root = made(w.as(a, create(spec("root"))));
  // Two ways of four, so that the sweep has to come back up from the end of the first.
  std::vector<std::string> all;
  for (int way = 0; way < 2; ++way) {
    auto above = root.id();
    for (int i = 0; i < 4; ++i)
      all.push_back(above = described(w, a, "t", {above}).id());
  }
  w.as(a, claim(root.id()));
  REQUIRE_FALSE(w.as(a, update(root.id(), v1::FAILED)).has_refusal());
  auto more = true;
  for (int rounds = 0; more && rounds < 20; ++rounds) {
    for (const auto& id : all) {
      CHECK(w.as(a, claim(id, true)).has_refusal());
      CHECK(w.as(a, approve(id)).has_refusal());
    }
    // One that is asked for meanwhile waits, or is cancelled, with the rest.
    const auto late = described(w, a, "late", {all[7]}, "small");
    CHECK((late.status() == v1::BLOCKED || late.status() == v1::CANCELLED));
    more = sweep(w).more();
  }
  CHECK_FALSE(more);
  for (const auto& id : all)
    CHECK(w.task(id).status() == v1::CANCELLED);
  CHECK(w.task(all[1]).cancelled_by() == all[0]);
  CHECK(w.task(all[4]).cancelled_by() == root.id());
  check_settled(w);
}

TEST_CASE("any graph of large tasks ends as the same graph of small ones") {
  int rounds = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    pair_of_worlds p(seed);
    for (int i = 0; i < 40; ++i)
      p.add();
    for (int i = 0; i < 60; ++i) {
      std::string who;
      const auto end = p.random_end(who);
      const auto expected = p.small.as(who, end), r = p.big.as(who, end);
      CHECK(p.big.last.ByteSizeLong() <= limits::batch_encoded_bytes_max);
      REQUIRE(text(r) == text(expected));
      REQUIRE(r.task().task().status() == expected.task().task().status());
      check_invariants(p.big);
      rounds += state(p.big).cascades_size() > 0 ? sweep_until_quiet(p.big) : 0;
    }
    CHECK(state(p.small).cascades_size() == 0);
    check_settled(p.big);
    for (const auto& id : p.tasks) {
      const auto expected = p.small.task(id), t = p.big.task(id);
      REQUIRE(t.status() == expected.status());
      REQUIRE(t.assignee() == expected.assignee());
      REQUIRE(t.result() == expected.result());
      REQUIRE(t.cancelled_by() == expected.cancelled_by());
    }
    for (const auto& s : p.sessions)
      REQUIRE(p.big.mail(s) == p.small.mail(s));
  }
  CHECK(rounds > 0); // there were such cascades at all
}

TEST_CASE("ends and sweeps in any order lead to a settled graph") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    pair_of_worlds p(seed);
    for (int i = 0; i < 30; ++i)
      p.add();
    for (int i = 0; i < 80; ++i) {
      const auto id = p.tasks[p.below(p.tasks.size())];
      const auto t = p.big.task(id);
      const auto who = t.assignee().empty() ? p.sessions[p.below(p.sessions.size())] : t.assignee();
      switch (p.below(6)) {
        case 0: sweep(p.big); break;
        case 1: p.big.as(who, approve(id)); break;
        case 2: p.big.as(t.requester(), update(id, v1::CANCELLED)); break;
        case 3: p.big.as(who, update(id, v1::FAILED)); break;
        case 4: p.big.as(who, update(id, v1::DONE)); break;
        default: p.big.as(who, claim(id, true));
      }
      CHECK(p.big.last.reply().refusal().code() != v1::Refusal::LIMIT);
      check_invariants(p.big);
    }
    sweep_until_quiet(p.big);
    check_settled(p.big);
  }
}

TEST_CASE("so many cascades may be under way, and the end of a worker is one more") {
  task_world w;
  const auto a = w.join("identity:x");
  std::vector<std::string> roots;
  for (std::size_t i = 0; i < limits::cascades_pending_max() + 1; ++i) {
    roots.push_back(made(w.as(a, create(spec("root")))).id());
    for (int n = 0; n < 4; ++n)
      described(w, a, "next", {roots.back()});
  }
  const auto last = roots.back();
  for (const auto& id : roots)
    if (id != last)
      REQUIRE_FALSE(w.as(a, update(id, v1::CANCELLED)).has_refusal());
  CHECK(static_cast<std::size_t>(state(w).cascades_size()) == limits::cascades_pending_max());
  const auto refused = w.as(a, update(last, v1::CANCELLED));
  CHECK(refused.refusal().code() == v1::Refusal::LIMIT);
  CHECK(text(refused).find("Repeat in a moment") != std::string::npos);
  CHECK(w.last.patches_size() == 0);
  CHECK(w.task(last).status() == v1::OPEN);

  v1::Command by_node;
  by_node.set_scope(test::scope);
  by_node.mutable_principal()->set_kind(v1::Principal::NODE);
  domain::transaction tx(w.rows, by_node, w.in);
  auto finished = domain::finish_task(tx, w.task(last), v1::FAILED, std::nullopt, {});
  v1::Reply reply;
  *reply.mutable_task() = std::move(finished);
  CHECK_FALSE(tx.take(std::move(reply)).reply().has_refusal());

  sweep(w);
  CHECK_FALSE(w.as(a, update(last, v1::CANCELLED)).has_refusal());
  sweep_until_quiet(w);
  check_settled(w);
}
