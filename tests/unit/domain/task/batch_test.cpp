#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

std::string detail(const v1::Reply& r, int i) {
  const auto& d = r.refusal().details(i);
  return std::to_string(d.task_index()) + " " + d.field() + ": " + d.message();
}

} // namespace

TEST_CASE("a batch resolves $N to the tasks before it") {
  task_world w;
  const auto a = w.join("identity:x");
  auto second = spec("second");
  second.add_depends_on("$1");
  second.set_parent_task_id("$1");
  const auto r = w.as(a, batch({spec("first"), second}));
  REQUIRE(r.tasks_created().tasks_size() == 2);
  const auto& made_first = r.tasks_created().tasks(0).task();
  const auto& made_second = r.tasks_created().tasks(1).task();
  CHECK(made_second.depends_on(0) == made_first.id());
  CHECK(made_second.parent_task_id() == made_first.id());
  CHECK(made_second.status() == v1::BLOCKED);
}

TEST_CASE("a duplicate key inside a batch is reported alone, before everything else") {
  task_world w;
  const auto a = w.join("identity:x");
  auto one = spec("1"), two = spec("2");
  one.set_idempotency_key("k");
  two.set_idempotency_key("k");
  two.add_depends_on("$9");
  const auto r = w.as(a, batch({one, two}));
  CHECK(text(r) == "Validation failed");
  REQUIRE(r.refusal().details_size() == 1);
  CHECK(detail(r, 0) == "1 idempotency_key: Duplicate idempotency_key k also used by task 1");
}

TEST_CASE("all errors of a batch come in one list, in field order, and nothing is created") {
  task_world w;
  const auto a = w.join("identity:x");
  auto bad = spec("bad");
  bad.add_depends_on("$7");
  bad.add_depends_on("$1");
  bad.add_depends_on("$2");
  bad.set_parent_task_id("$2");
  bad.set_assignee("ghost");
  const auto r = w.as(a, batch({bad, spec("ok")}));
  REQUIRE(r.refusal().details_size() == 5);
  CHECK(detail(r, 0) == "0 depends_on: $7 is out of range (batch has 2 tasks)");
  CHECK(detail(r, 1) == "0 depends_on: $1 is a self-reference");
  CHECK(detail(r, 2) == "0 depends_on: $2 is a forward reference (not allowed — task 1 cannot depend on task 2)");
  CHECK(detail(r, 3) == "0 parent_task_id: $2 is a forward reference");
  CHECK(detail(r, 4) == "0 assignee: Instance ghost is not active in this scope");
  CHECK(w.rows.all<v1::Task>().empty());
}

TEST_CASE("the first external id that is missing ends a batch") {
  task_world w;
  const auto a = w.join("identity:x");
  auto one = spec("1"), two = spec("2");
  one.set_review_of_task_id("r");
  two.add_depends_on("d");
  const auto r = w.as(a, batch({one, two}));
  REQUIRE(r.refusal().details_size() == 1);
  CHECK(detail(r, 0) == "0 review_of_task_id: Review target task r not found in scope");
}

TEST_CASE("specs whose key exists are not validated, and each assignee gets one message") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto known = spec("known");
  known.set_idempotency_key("k");
  const auto old = made(w.as(a, create(known)));
  known.add_depends_on("$50");
  auto one = spec("one"), two = spec("two");
  one.set_assignee(b);
  two.set_assignee(b);
  two.add_depends_on("$2");
  const auto r = w.as(a, batch({known, one, two}));
  REQUIRE(r.tasks_created().tasks_size() == 3);
  CHECK(r.tasks_created().tasks(0).existing());
  CHECK(r.tasks_created().tasks(0).task().id() == old.id());
  REQUIRE(w.mail(b).size() == 1);
  CHECK(w.mail(b)[0] == "[auto] 2 task(s) assigned to you: \"one\" (implement, task_id: " + r.tasks_created().tasks(1).task().id() +
                          "), \"two\" (implement, task_id: " + r.tasks_created().tasks(2).task().id() +
                          ") (blocked). Claim open tasks with claim_task.");
}
