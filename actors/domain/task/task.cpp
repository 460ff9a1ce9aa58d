// The task machine: the moves that several commands share.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include <algorithm>

#include "actors/domain/harness.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

/// A command that was started for this task alone goes on until it has been ended: what its session has locked is let go with the session, when
/// nothing of the command is left.
bool is_still_worked_on(const transaction& tx, const v1::Task& task) {
  const auto workers = live_orders_of(tx, task.id());
  return std::any_of(workers.begin(), workers.end(), [&](const auto& w) {
    const bool ends_with_task = w.harness() == exec_harness || w.harness() == shell_harness;
    return ends_with_task && w.status() != v1::Spawn::REQUESTED && !task.assignee().empty() && w.session_id() == task.assignee();
  });
}

} // namespace

const std::vector<v1::TaskStatus>& unfinished_statuses() {
  static const std::vector<v1::TaskStatus> all{v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED};
  return all;
}

bool task_visible(const v1::Task& task, const v1::Session* viewer, bool allow_cross_identity) {
  if (viewer == nullptr || allow_cross_identity)
    return true;
  return task.identity().empty() || task.requester() == viewer->id() || task.assignee() == viewer->id() || task.identity() == viewer->identity();
}

std::optional<v1::Task> find_task(const transaction& tx, std::string_view id) {
  auto task = tx.get<v1::Task>(key(id));
  if (task && task->scope() != tx.scope())
    task.reset();
  return task;
}

std::optional<v1::Task> find_task_by_key(const transaction& tx, const std::string& idempotency_key) {
  if (idempotency_key.empty())
    return std::nullopt;
  task_filter f;
  f.scope = tx.scope();
  f.idempotency_key = idempotency_key;
  f.limit = 1;
  auto found = tx.find<v1::Task>(f);
  if (found.empty())
    return std::nullopt;
  return std::move(found.front());
}

std::optional<v1::Task> newest_task_of_key(const transaction& tx, const std::string& idempotency_key) {
  task_filter f;
  f.scope = tx.scope();
  f.idempotency_base = idempotency_key;
  f.by_creation = true;
  f.newest = true;
  f.limit = 1;
  auto found = tx.find<v1::Task>(f);
  if (found.empty())
    return std::nullopt;
  return std::move(found.front());
}

void clear_progress(v1::Task& t) {
  t.clear_progress_summary();
  t.clear_progress_updated_at_ms();
  t.clear_blocked_reason();
  t.clear_expected_next_update_at_ms();
}

void put_changed(transaction& tx, v1::Task& task) {
  task.set_updated_at_ms(tx.in().now_ms);
  task.set_changed_at_ms(tx.next_changed_at());
  tx.put(task);
}

// A dependency whose row is gone was done: had it failed, this task would have been cancelled with it.
readiness evaluate(const transaction& tx, const v1::Task& task) {
  bool waits = false;
  for (const auto& id : task.depends_on()) {
    const auto dep = find_task(tx, id);
    if (!dep || dep->status() == v1::DONE)
      continue;
    if (is_terminal(dep->status()))
      return {v1::CANCELLED, id, to_text(dep->status())};
    waits = true;
  }
  if (waits)
    return {v1::BLOCKED, {}, {}};
  return {task.assignee().empty() ? v1::OPEN : v1::CLAIMED, {}, {}};
}

v1::Task start_task(transaction& tx, v1::Task task, std::string_view session_id, bool claim_next) {
  const auto prior = task.status();
  task.set_status(v1::IN_PROGRESS);
  task.set_assignee(std::string(session_id));
  task.set_attempt(task.attempt() + 1);
  task.set_fence(tx.next_fence());
  put_changed(tx, task);
  json payload{
    {"prior_status", to_text(prior)}, {"status", "in_progress"}, {"assignee", task.assignee()}, {"attempt", task.attempt()}, {"fence", task.fence()}};
  if (claim_next)
    payload["claim_next"] = true;
  tx.event("task.claimed", task.id(), payload, session_id);
  return task;
}

void reserve_task(transaction& tx, v1::Task task, std::string_view session_id) {
  const auto prior = task.status();
  task.set_assignee(std::string(session_id));
  if (prior == v1::OPEN)
    task.set_status(v1::CLAIMED);
  put_changed(tx, task);
  tx.event("task.reserved", task.id(), {{"prior_status", to_text(prior)}, {"status", to_text(task.status())}, {"assignee", task.assignee()}});
}

void reopen_task(transaction& tx, v1::Task task, std::string_view reason) {
  if (is_terminal(task.status()))
    return;
  const auto prior = task.status();
  const auto who = task.assignee();
  if (prior == v1::CLAIMED || prior == v1::IN_PROGRESS)
    task.set_status(v1::OPEN);
  task.clear_assignee();
  task.set_fence(0);
  put_changed(tx, task);
  tx.event(
    "task.reopened", task.id(),
    {{"prior_status", to_text(prior)}, {"status", to_text(task.status())}, {"assignee", who}, {"attempt", task.attempt()}, {"reason", reason}});
}

v1::TaskReply finish_task(transaction& tx, v1::Task task, v1::TaskStatus status, std::optional<std::string> result, std::string_view told_by) {
  v1::TaskReply reply;
  reply.set_prior_status(task.status());
  json payload{
    {"status", to_text(status)}, {"prior_status", to_text(task.status())}, {"result", nullptr}, {"attempt", task.attempt()}, {"fence", task.fence()}};
  if (result)
    payload["result"] = *result;
  task.set_status(status);
  task.set_has_result(result.has_value());
  task.set_result(std::move(result).value_or(std::string{}));
  task.set_fence(0);
  clear_progress(task);
  put_changed(tx, task);
  tx.event("task.updated", task.id(), payload);
  if (status != v1::CANCELLED || !is_still_worked_on(tx, task))
    release_task_locks(tx, task);
  drop_unstarted_spawns(tx, task);
  leave_task(tx, task);
  cascade(tx, task, told_by, reply);
  *reply.mutable_task() = std::move(task);
  return reply;
}

// The message carries an excerpt: message, row and reply of one command must fit limits::batch_encoded_bytes_max together.
std::string finished_text(const v1::Task& task, std::string_view label, std::string_view result) {
  auto text = "[auto] Task \"" + task.title() + "\" (" + task.id() + ") is now " + to_text(task.status()) + ".";
  if (!result.empty())
    text.append(" ").append(label).append(": ").append(utf8_prefix(result, limits::prompt_result_bytes_max));
  return text;
}

v1::PromptResult notify_requester(transaction& tx, const v1::Task& task, std::string_view sender, std::string text) {
  if (task.requester() == sender || task.requester().empty() || task.requester() == "operator" || task.requester() == name_of(v1::Principal::ORPHAN))
    return {};
  return prompt(tx, sender, task.requester(), std::move(text), task.id());
}

void notify_unblocked(transaction& tx, v1::TaskReply& reply, std::string_view sender) {
  auto listed = std::move(*reply.mutable_unblocked());
  reply.clear_unblocked();
  for (auto& u : listed) {
    const auto recipient = u.prompt().recipient();
    const auto task = find_task(tx, u.task_id());
    if (recipient == sender || !task)
      continue;
    *u.mutable_prompt() =
      prompt(tx, sender, recipient,
             "[auto] Task \"" + task->title() + "\" (" + task->id() + ") is unblocked and claimed by you. Call claim_task to start it.", task->id());
    *reply.add_unblocked() = std::move(u);
  }
}

v1::Reply task_reply(v1::Task task, v1::TaskStatus prior) {
  v1::Reply r;
  *r.mutable_task()->mutable_task() = std::move(task);
  r.mutable_task()->set_prior_status(prior);
  return r;
}

const char* to_text(v1::TaskStatus s) noexcept {
  switch (s) {
    case v1::OPEN: return "open";
    case v1::CLAIMED: return "claimed";
    case v1::IN_PROGRESS: return "in_progress";
    case v1::DONE: return "done";
    case v1::FAILED: return "failed";
    case v1::CANCELLED: return "cancelled";
    case v1::BLOCKED: return "blocked";
    case v1::APPROVAL_REQUIRED: return "approval_required";
    default: return "unspecified";
  }
}

v1::TaskStatus task_status_from(std::string_view text) {
  for (int n = v1::OPEN; n <= v1::APPROVAL_REQUIRED; ++n)
    if (auto s = static_cast<v1::TaskStatus>(n); text == to_text(s))
      return s;
  return v1::TASK_STATUS_UNSPECIFIED;
}

bool valid_task_type(std::string_view type) noexcept {
  for (std::string_view known : {"review", "implement", "fix", "test", "research", "other"})
    if (type == known)
      return true;
  return false;
}

std::string invalid_task_type(std::string_view type) {
  return "Invalid task type \"" + std::string(type) + "\". Expected one of: " + task_types_text;
}

} // namespace swarm::domain
