// Taking up tasks: claim_task and claim_next_task.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/task/rules.hpp"

namespace swarm::domain {

namespace {

std::optional<v1::Reply> unread_gate(const transaction& tx, const v1::Session& me, bool ignore) {
  if (ignore)
    return std::nullopt;
  message_filter f;
  f.scope = tx.scope();
  f.recipient = me.id();
  f.read = false;
  const auto unread = tx.count<v1::Message>(f);
  if (unread == 0)
    return std::nullopt;
  f.newest = true;
  f.limit = 1;
  const auto latest = tx.find<v1::Message>(f).front();
  auto r = refuse(v1::Refusal::UNREAD, "Unread messages pending (" + std::to_string(unread) +
                                         "). Call bootstrap or poll_messages before claiming new work, or retry claim_task/claim_next_task with "
                                         "ignore_unread_messages=true if you intentionally want to skip them. Latest unread message: #" +
                                         std::to_string(latest.id()) + " from " + latest.sender() + ".");
  r.mutable_refusal()->set_explanation(std::to_string(unread) + (unread == 1 ? " unread message" : " unread messages") + ", the latest from " +
                                       latest.sender() + "; to read them and mark them as read: swarmctl bootstrap --as " + me.id() +
                                       ", or claim the task all the same with --force");
  auto& t = *r.mutable_task();
  t.set_unread_messages(static_cast<std::uint32_t>(unread));
  t.set_latest_message_id(latest.id());
  t.set_latest_message_sender(latest.sender());
  return r;
}

bool wanted(const v1::ClaimNextTask& c, const v1::Task& t) {
  const auto contains = [](const auto& list, const std::string& x) { return std::find(list.begin(), list.end(), x) != list.end(); };
  if (c.types_size() > 0 && !contains(c.types(), t.type()))
    return false;
  return c.files_size() == 0 || std::any_of(t.files().begin(), t.files().end(), [&](const auto& f) { return contains(c.files(), f); });
}

// Command tasks belong to the fabric: they are passed over without using up the candidates that swarm-mcp allows.
struct candidates {
  const transaction& tx;
  const v1::ClaimNextTask& wish;
  const v1::Session& me;
  std::size_t examined = 0;

  std::optional<v1::Task> first(task_filter f) {
    const bool cross = may_cross_identity(tx.command());
    f.limit = limits::claim_next_candidates_max();
    for (std::size_t page = 0; page < limits::claim_next_pages_max; ++page) {
      auto rows = tx.find<v1::Task>(f);
      for (auto& t : rows) {
        if (t.harness() == "exec")
          continue;
        if (++examined > limits::claim_next_candidates_max())
          return std::nullopt;
        if (task_visible(t, &me, cross) && wanted(wish, t))
          return std::move(t);
      }
      if (rows.size() < f.limit)
        return std::nullopt;
      f.after = std::move(rows.back());
    }
    return std::nullopt;
  }
};

} // namespace

v1::Reply claim_task(transaction& tx, const v1::ClaimTask& c) {
  const auto me = tx.acting_session();
  if (!me)
    return not_registered();
  auto task = find_task(tx, c.task_id());
  if (!task)
    return refuse(v1::Refusal::NOT_FOUND, "Task not found", c.task_id());
  if (!task_visible(*task, &*me, may_cross_identity(tx.command())))
    return refuse(v1::Refusal::CROSS_IDENTITY, "Task belongs to another identity", c.task_id());
  const auto already = std::string("Task is already ") + to_text(task->status());
  if (is_terminal(task->status()))
    return refuse(v1::Refusal::STATE, already, c.task_id());
  if (task->harness() == "exec")
    return refuse(v1::Refusal::STATE, "Task runs a command and is driven by the fabric", c.task_id());
  const bool free = task->status() == v1::OPEN && task->assignee().empty();
  const bool mine = task->status() == v1::CLAIMED && task->assignee() == me->id();
  if (!free && !mine) {
    const bool taken = task->status() == v1::CLAIMED || task->status() == v1::IN_PROGRESS;
    return refuse(taken ? v1::Refusal::CONFLICT : v1::Refusal::STATE, already, c.task_id());
  }
  if (auto gate = unread_gate(tx, *me, c.ignore_unread_messages()))
    return *gate;
  const auto prior = task->status();
  return task_reply(start_task(tx, std::move(*task), me->id(), false), prior);
}

v1::Reply claim_next_task(transaction& tx, const v1::ClaimNextTask& c) {
  const auto me = tx.acting_session();
  if (!me)
    return not_registered();
  if (auto gate = unread_gate(tx, *me, c.ignore_unread_messages()))
    return *gate;
  candidates search{tx, c, *me};
  task_filter mine;
  mine.scope = tx.scope();
  mine.statuses = {v1::CLAIMED};
  mine.assignee = me->id();
  task_filter open;
  open.scope = tx.scope();
  open.statuses = {v1::OPEN};
  open.unassigned = true;
  auto task = search.first(mine);
  if (!task)
    task = search.first(open);
  if (!task)
    return refuse(v1::Refusal::NOT_FOUND, "No claimable task found");
  const auto prior = task->status();
  return task_reply(start_task(tx, std::move(*task), me->id(), true), prior);
}

} // namespace swarm::domain
