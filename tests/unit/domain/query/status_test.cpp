#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

v1::Status status(task_world& w, const std::string& who) {
  v1::Query q;
  q.mutable_get_status();
  return w.ask(q, who).status();
}

bool warned(const v1::Status& s, const std::string& code) {
  for (const auto& w : s.warnings())
    if (w.code() == code)
      return true;
  return false;
}

} // namespace

TEST_CASE("status needs a viewer") {
  task_world w;
  v1::Query q;
  q.mutable_get_status();
  CHECK(w.ask(q).refusal().code() == v1::Refusal::NOT_REGISTERED);
}

TEST_CASE("the next action follows swarm-mcp's precedence") {
  task_world w;
  const auto planner = w.join("identity:x role:planner"), b = w.join("identity:x");
  CHECK(status(w, b).next_tool() == "wait_for_activity");
  const auto open = made(w.as(planner, create(spec("open"))));
  CHECK(status(w, b).next_tool() == "claim_next_task");
  auto s = spec("mine");
  s.set_assignee(b);
  const auto mine = made(w.as(planner, create(s)));
  CHECK(status(w, b).next_tool() == "poll_messages");
  v1::Command poll;
  poll.mutable_consume_messages();
  w.as(b, poll);
  CHECK(status(w, b).next_tool() == "claim_task");
  CHECK(status(w, b).next_task_id() == mine.id());
  w.as(b, claim(mine.id()));
  CHECK(status(w, b).next_tool() == "complete_task");
  w.as(b, update(mine.id(), v1::CANCELLED));
  w.as(planner, update(open.id(), v1::CANCELLED));
  CHECK(status(w, b).next_tool() == "wait_for_activity");
  CHECK(status(w, planner).next_tool() == "list_tasks");
}

TEST_CASE("warnings name missing and foreign locks, overlaps, overdue updates and idle locks") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto s = spec("mine");
  s.add_files("/repo/f");
  const auto mine = made(w.as(a, create(s)));
  const auto theirs = made(w.as(a, create(s)));
  w.as(a, claim(mine.id()));
  w.as(b, claim(theirs.id()));
  v1::Command lock;
  lock.mutable_acquire_lock()->set_path("/repo/f");
  w.as(b, lock);
  lock.mutable_acquire_lock()->set_path("/repo/other");
  w.as(a, lock);
  v1::Command progress;
  auto& p = *progress.mutable_report_progress();
  p.set_task_id(mine.id());
  p.set_summary("s");
  p.set_set_blocked_reason(true);
  p.set_blocked_reason("stuck");
  p.set_set_expected_next_update_at(true);
  p.set_expected_next_update_at_ms(w.in.now_ms + 5);
  w.as(a, progress);
  w.in.now_ms += 10;
  const auto st = status(w, a);
  for (const char* code : {"task_reported_blocked", "expected_progress_update_overdue", "missing_lock_for_in_progress_task", "file_locked_by_peer",
                           "active_task_file_overlap", "held_lock_without_active_task_file"})
    CHECK_MESSAGE(warned(st, code), code);
  CHECK(warned(status(w, b), "peer_progress_update_overdue"));
  REQUIRE(st.blocking_locks_size() == 1);
  CHECK(st.blocking_locks(0).task_id() == mine.id());
  CHECK(st.held_locks_size() == 1);
  CHECK(st.active_peer_tasks_size() == 1);
  CHECK(st.task_counts_size() == 8);
  CHECK(st.task_counts(2) == 2);
}
