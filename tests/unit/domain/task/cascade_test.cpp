#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

v1::Task dependent(task_world& w, const std::string& who, const std::string& title, const std::vector<std::string>& deps, bool approval = false,
                   const std::string& assignee = {}) {
  auto s = spec(title);
  s.set_approval_required(approval);
  s.set_assignee(assignee);
  return waiting(w, who, s, deps);
}

} // namespace

TEST_CASE("done unblocks only blocked tasks whose dependencies are all done") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  const auto one = made(w.as(a, create(spec("one")))), two = made(w.as(a, create(spec("two"))));
  const auto open = dependent(w, a, "open", {one.id()});
  const auto both = dependent(w, a, "both", {one.id(), two.id()});
  const auto approval = dependent(w, a, "approval", {one.id()}, true);
  const auto assigned = dependent(w, a, "assigned", {one.id()}, false, b);
  w.as(a, claim(one.id()));
  const auto r = w.as(a, update(one.id(), v1::DONE));
  CHECK(w.task(open.id()).status() == v1::OPEN);
  CHECK(w.task(both.id()).status() == v1::BLOCKED);
  CHECK(w.task(approval.id()).status() == v1::APPROVAL_REQUIRED);
  CHECK(w.task(assigned.id()).status() == v1::CLAIMED);
  REQUIRE(r.task().unblocked_size() == 1);
  CHECK(r.task().unblocked(0).task_id() == assigned.id());
  CHECK(w.mail(b).back() == "[task:" + assigned.id() + "] [auto] Task \"assigned\" (" + assigned.id() +
                              ") is unblocked and claimed by you. Call claim_task to start it.");
  CHECK(w.events("task.cascade.unblocked") == 2);
}

TEST_CASE("failed and cancelled cancel blocked and approval_required dependants recursively, with different words at creation") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto root = made(w.as(a, create(spec("root"))));
  const auto child = dependent(w, a, "child", {root.id()}), ask = dependent(w, a, "ask", {root.id()}, true);
  const auto grandchild = dependent(w, a, "grandchild", {child.id()});
  w.as(a, update(root.id(), v1::CANCELLED));
  for (const auto& id : {child.id(), ask.id(), grandchild.id()})
    CHECK(w.task(id).status() == v1::CANCELLED);
  CHECK(w.task(child.id()).result() == "auto-cancelled: dependency " + root.id() + " failed");
  CHECK(w.task(grandchild.id()).result() == "auto-cancelled: dependency " + child.id() + " failed");
  const auto late = dependent(w, a, "late", {root.id()}, true);
  CHECK(late.status() == v1::CANCELLED);
  CHECK(late.result() == "auto-cancelled: dependency " + root.id() + " is already cancelled");
}

TEST_CASE("approval evaluates the dependencies again") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), y = w.join("identity:y");
  const auto one = made(w.as(a, create(spec("one"))));
  const auto waits = dependent(w, a, "waits", {one.id()}, true), free = dependent(w, a, "free", {}, true);
  const auto assigned = dependent(w, a, "assigned", {}, true, b);
  CHECK(text(w.as(y, approve(free.id()))) == "Task belongs to another identity");
  CHECK(w.as(b, approve(waits.id())).task().task().status() == v1::BLOCKED);
  CHECK(w.as(b, approve(free.id())).task().task().status() == v1::OPEN);
  CHECK(text(w.as(b, approve(free.id()))) == "Task is open, not approval_required");
  const auto r = w.op(approve(assigned.id()));
  CHECK(r.task().task().status() == v1::CLAIMED);
  CHECK(w.mail(b).back().find("has been approved and is now claimed by you.") != std::string::npos);
}

TEST_CASE("locks of a finished task are released before its dependants are looked at") {
  task_world w;
  const auto a = w.join("identity:x");
  auto s = spec("T");
  s.add_files("/repo/a");
  const auto t = made(w.as(a, create(s)));
  dependent(w, a, "next", {t.id()});
  w.as(a, claim(t.id()));
  v1::Command lock;
  lock.mutable_acquire_lock()->set_path("/repo/a");
  REQUIRE_FALSE(w.as(a, lock).has_refusal());
  w.as(a, update(t.id(), v1::DONE));
  CHECK(w.rows.all<v1::Lock>().empty());
  std::vector<std::string> order;
  for (const auto& e : w.last.events())
    order.push_back(e.type());
  const auto at = [&](const std::string& type) { return std::find(order.begin(), order.end(), type) - order.begin(); };
  CHECK(at("task.updated") < at("context.lock_released"));
  CHECK(at("context.lock_released") < at("task.cascade.unblocked"));
}
