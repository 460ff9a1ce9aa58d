// Moving tasks on: update_task, complete_task, report_progress, approve_task.
#include "actors/base/limits.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/task/rules.hpp"

namespace swarm::domain {

namespace {

constexpr const char* not_found_text = "Task not found";

v1::Reply not_found(const std::string& id) { return refuse(v1::Refusal::NOT_FOUND, not_found_text, id); }

std::optional<v1::Reply> refuse_terminal(const v1::Task& t) {
  if (!is_terminal(t.status()))
    return std::nullopt;
  return refuse(v1::Refusal::STATE, std::string("Task is already ") + to_text(t.status()), t.id());
}

std::optional<v1::Reply> refuse_stale(const v1::Task& t, std::uint64_t fence) {
  if (fence == 0 || fence == t.fence())
    return std::nullopt;
  return refuse(v1::Refusal::STALE, "This claim is no longer yours: the task was reopened or claimed again", t.id());
}

std::optional<v1::Reply> refuse_cancel(const transaction& tx, const v1::Task& t) {
  const auto& me = tx.actor_name();
  if (acts_as_operator(tx) || me == t.requester() || me == t.assignee())
    return std::nullopt;
  return refuse(v1::Refusal::FORBIDDEN, "Only the requester or assignee can cancel this task", t.id());
}

std::optional<v1::Reply> refuse_finish(const transaction& tx, const v1::Task& t) {
  switch (t.status()) {
    case v1::BLOCKED: return refuse(v1::Refusal::STATE, "Task is blocked. It will auto-unblock when dependencies complete.", t.id());
    case v1::APPROVAL_REQUIRED: return refuse(v1::Refusal::STATE, "Task is approval_required. Use approve_task to approve it first.", t.id());
    case v1::OPEN: return refuse(v1::Refusal::STATE, "Task must be claimed before it can be updated", t.id());
    default: break;
  }
  if (t.assignee() != tx.actor_name())
    return refuse(v1::Refusal::FORBIDDEN, "Only the assignee can update this task", t.id());
  return std::nullopt;
}

/// Why this actor may not give the task that terminal status.
std::optional<v1::Reply> refuse_update(const transaction& tx, const v1::Task& t, v1::TaskStatus status, std::uint64_t fence) {
  if (!is_terminal(status))
    return refuse(v1::Refusal::INVALID, "status must be one of done|failed|cancelled", t.id());
  if (auto r = refuse_terminal(t))
    return r;
  if (auto r = refuse_stale(t, fence))
    return r;
  return status == v1::CANCELLED ? refuse_cancel(tx, t) : refuse_finish(tx, t);
}

// The caller knows what the task was about; leaving it out keeps row and reply together within limits::batch_encoded_bytes_max.
v1::Reply finished_reply(v1::TaskReply done) {
  done.mutable_task()->clear_description();
  v1::Reply r;
  *r.mutable_task() = std::move(done);
  return r;
}

v1::Reply finish(transaction& tx, v1::Task task, v1::TaskStatus status, std::optional<std::string> result, std::string_view label,
                 const std::string& said, bool quiet) {
  const auto me = tx.actor_name();
  auto done = finish_task(tx, std::move(task), status, std::move(result), quiet ? std::string_view{} : std::string_view(me));
  if (quiet) {
    done.clear_unblocked();
    return finished_reply(std::move(done));
  }
  if (status != v1::CANCELLED)
    if (auto told = notify_requester(tx, done.task(), me, finished_text(done.task(), label, said)); !told.recipient().empty())
      *done.mutable_prompt() = std::move(told);
  notify_unblocked(tx, done, me);
  return finished_reply(std::move(done));
}

json parse_or_text(const std::string& text) {
  auto j = parse_json(text);
  return j ? std::move(*j) : json(text);
}

bool truthy(const json& j) {
  if (j.is_null())
    return false;
  if (j.is_boolean())
    return j.get<bool>();
  if (j.is_number())
    return j.get<double>() != 0;
  return !j.is_string() || !j.get_ref<const std::string&>().empty();
}

std::string completion_json(const v1::CompleteTask& c) {
  json tests = json::array();
  for (const auto& t : c.tests()) {
    json one = json::object();
    if (!t.command().empty())
      one["command"] = t.command();
    one["status"] = t.status();
    if (!t.notes().empty())
      one["notes"] = t.notes();
    tests.push_back(std::move(one));
  }
  json out{{"summary", c.summary()}, {"files_changed", json::array()}, {"tests", std::move(tests)}};
  for (const auto& f : c.files_changed())
    out["files_changed"].push_back(f);
  if (auto j = parse_or_text(c.tracker_update()); c.has_tracker_update() && truthy(j))
    out["tracker_update"] = std::move(j);
  if (auto j = parse_or_text(c.tracker_update_skipped()); c.has_tracker_update_skipped() && truthy(j))
    out["tracker_update_skipped"] = std::move(j);
  out["followups"] = json::array();
  for (const auto& f : c.followups())
    out["followups"].push_back(f);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool lacks_tracker(const transaction& tx, const v1::Task& t, const v1::CompleteTask& c) {
  if (c.has_tracker_update() || c.has_tracker_update_skipped())
    return false;
  if (t.tracker_required())
    return true;
  return names_ticket(t.idempotency_key(), t.title(), t.description()) && configured_tracker(tx, actor_identity_token(tx));
}

} // namespace

v1::Reply update_task(transaction& tx, const v1::UpdateTask& c) {
  auto task = find_task(tx, c.task_id());
  if (!task)
    return not_found(c.task_id());
  if (auto r = refuse_update(tx, *task, c.status(), c.fence()))
    return *r;
  std::optional<std::string> result;
  if (c.has_result())
    result = c.result();
  return finish(tx, std::move(*task), c.status(), std::move(result), "Result", c.result(), c.quiet());
}

v1::Reply complete_task(transaction& tx, const v1::CompleteTask& c) {
  auto task = find_task(tx, c.task_id());
  if (!task)
    return not_found(c.task_id());
  const auto status = c.status() == v1::TASK_STATUS_UNSPECIFIED ? v1::DONE : c.status();
  if (auto r = refuse_update(tx, *task, status, c.fence()))
    return *r;
  if (lacks_tracker(tx, *task, c))
    return refuse(v1::Refusal::INVALID, "Tracker-backed tasks require tracker_update or tracker_update_skipped in complete_task", c.task_id());
  auto result = completion_json(c);
  if (result.size() > limits::result_bytes_max())
    return refuse(v1::Refusal::INVALID, "The result is longer than " + std::to_string(limits::result_bytes_max()) + " bytes; shorten it",
                  c.task_id());
  return finish(tx, std::move(*task), status, std::move(result), "Summary", c.summary(), false);
}

v1::Reply report_progress(transaction& tx, const v1::ReportProgress& c) {
  auto task = find_task(tx, c.task_id());
  if (!task)
    return not_found(c.task_id());
  if (auto r = refuse_terminal(*task))
    return *r;
  if (auto r = refuse_stale(*task, c.fence()))
    return *r;
  if (task->assignee() != tx.actor_name())
    return refuse(v1::Refusal::FORBIDDEN, "Only the assignee can report progress on this task", c.task_id());
  if (task->status() != v1::IN_PROGRESS)
    return refuse(v1::Refusal::STATE, "Task must be in_progress before progress can be reported", c.task_id());
  task->set_progress_summary(c.summary());
  task->set_progress_updated_at_ms(tx.in().now_ms);
  if (c.set_blocked_reason())
    task->set_blocked_reason(c.blocked_reason());
  if (c.set_expected_next_update_at())
    task->set_expected_next_update_at_ms(c.expected_next_update_at_ms());
  put_changed(tx, *task);
  const auto expected = task->expected_next_update_at_ms();
  tx.event("task.progress", task->id(),
           {{"summary", task->progress_summary()},
            {"blocked_reason", nullable(task->blocked_reason())},
            {"expected_next_update_at", expected == 0 ? json() : json(expected / 1000)},
            {"progress_updated_at", task->progress_updated_at_ms() / 1000}});
  return task_reply(std::move(*task), v1::IN_PROGRESS);
}

v1::Reply approve_task(transaction& tx, const v1::ApproveTask& c) {
  auto task = find_task(tx, c.task_id());
  if (!task)
    return not_found(c.task_id());
  const auto me = tx.acting_session();
  if (!me && !acts_as_operator(tx))
    return not_registered();
  if (!task_visible(*task, me ? &*me : nullptr, may_cross_identity(tx.command())))
    return refuse(v1::Refusal::CROSS_IDENTITY, "Task belongs to another identity", c.task_id());
  if (task->status() != v1::APPROVAL_REQUIRED)
    return refuse(v1::Refusal::STATE, std::string("Task is ") + to_text(task->status()) + ", not approval_required", c.task_id());
  const auto next = evaluate(tx, *task);
  tx.event("task.approved", task->id(), {{"status", to_text(next.status)}, {"prior_status", "approval_required"}});
  if (next.status == v1::CANCELLED) {
    auto text = "auto-cancelled: dependency " + next.failed_dependency + " is already " + next.failed_how;
    auto done = finish_task(tx, std::move(*task), v1::CANCELLED, std::move(text), {});
    done.set_reason("dependency_failed");
    return finished_reply(std::move(done));
  }
  task->set_status(next.status);
  put_changed(tx, *task);
  auto reply = task_reply(*task, v1::APPROVAL_REQUIRED);
  if (next.status == v1::OPEN)
    release_deferred_spawn(tx, *task);
  if (next.status == v1::CLAIMED && task->assignee() != tx.actor_name())
    *reply.mutable_task()->mutable_prompt() =
      prompt(tx, tx.actor_name(), task->assignee(),
             "[auto] Task \"" + task->title() + "\" (" + task->id() + ") has been approved and is now claimed by you.", task->id());
  return reply;
}

} // namespace swarm::domain
