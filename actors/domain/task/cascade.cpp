// What the end of a task does to those that wait for it. As much as fits the batch is done at once, the rest by sweeps: until then a
// dependant stays BLOCKED or APPROVAL_REQUIRED, which nobody can claim.
#include <algorithm>
#include <functional>

#include "actors/base/limits.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

/// Dependants looked at together: their rows may be large.
constexpr std::size_t page_rows = 16;
/// What a dependant adds besides its row: an event, and a message to its assignee or what its worker needs.
constexpr std::size_t step_bytes = 8 * limits::kib;
constexpr std::size_t worker_bytes = 32 * limits::kib;
/// Kept for the command itself: mail to the requester and the end of a worker's session.
constexpr std::size_t command_bytes = 48 * limits::kib;
/// What a sweep keeps for its other duties, so that a long cascade does not hold them up.
constexpr std::size_t sweep_bytes = 128 * limits::kib;

std::size_t cost(const transaction& tx, const v1::Task& dependant) {
  auto bytes = dependant.ByteSizeLong() + step_bytes;
  for (const auto& order : live_orders_of(tx, dependant.id())) // without a harness: a message with the task's text
    bytes += order.ByteSizeLong() + worker_bytes + (order.harness().empty() ? dependant.description().size() : 0);
  return bytes;
}

/// A message to the assignee, its event (where a title may be escaped) and its place in the reply.
std::size_t mail_cost(const v1::Task& dependant) { return 2 * limits::kib + 2 * dependant.scope().size() + 8 * dependant.title().size(); }

bool waits(const v1::Task& t) { return t.status() == v1::BLOCKED || t.status() == v1::APPROVAL_REQUIRED; }

void unblock(transaction& tx, v1::Task dependant, v1::TaskStatus status, const std::string& trigger, v1::TaskReply& told) {
  dependant.set_status(status);
  put_changed(tx, dependant);
  tx.event("task.cascade.unblocked", dependant.id(), {{"trigger", trigger}, {"status", to_text(status)}, {"assignee", dependant.assignee()}},
           "system");
  if (status == v1::OPEN) {
    release_deferred_spawn(tx, dependant);
    return;
  }
  auto* one = told.add_unblocked();
  one->set_task_id(dependant.id());
  one->mutable_prompt()->set_recipient(dependant.assignee());
}

void cancel(transaction& tx, v1::Task dependant, const std::string& cause) {
  const auto prior = dependant.status();
  dependant.set_status(v1::CANCELLED);
  dependant.set_cancelled_by(cause);
  dependant.set_result("auto-cancelled: dependency " + cause + " failed");
  dependant.set_has_result(true);
  dependant.set_fence(0);
  clear_progress(dependant);
  put_changed(tx, dependant);
  tx.event("task.cascade.cancelled", dependant.id(), {{"trigger", cause}, {"status", "cancelled"}, {"prior_status", to_text(prior)}}, "system");
  drop_unstarted_spawns(tx, dependant);
}

/// One way through the dependants of one task that has ended.
class walk {
public:
  /// `has_room` is asked before each dependant that is due; it is taken if the bytes fit.
  walk(transaction& tx, v1::Cascade& where, v1::TaskReply& told, std::function<bool(std::size_t)> has_room)
    : tx_(tx), where_(where), told_(told), has_room_(std::move(has_room)) {}

  /// True when no other task waits for it any more.
  bool run(const v1::Task& ended) { return ended.status() == v1::DONE ? unblock_all() : cancel_all(); }

private:
  bool fits(const v1::Task& dependant) const { return has_room_(cost(tx_, dependant) + mail_bytes_); }

  bool unblock_all() {
    task_filter f;
    f.scope = tx_.scope();
    f.statuses = {v1::BLOCKED};
    f.depends_on = where_.task_id();
    f.limit = page_rows;
    f.after = find_task(tx_, where_.at());
    for (;;) {
      auto page = tx_.find<v1::Task>(f);
      for (const auto& dependant : page) {
        if (!unblock_one(dependant))
          return false;
        where_.set_at(dependant.id());
      }
      if (page.size() < page_rows)
        return true;
      f.after = std::move(page.back());
    }
  }

  /// False when there is no room for it. One that waits for another task stays; that one's end looks at it again.
  bool unblock_one(const v1::Task& dependant) {
    const auto next = evaluate(tx_, dependant).status;
    if (next != v1::OPEN && next != v1::CLAIMED)
      return true;
    if (!fits(dependant))
      return false;
    unblock(tx_, dependant, next, where_.task_id(), told_);
    if (next == v1::CLAIMED)
      mail_bytes_ += mail_cost(dependant);
    return true;
  }

  /// The dependants of one task, on the way down.
  struct level {
    std::string cause;
    std::vector<std::string> dependants; // ids only: there may be many levels
  };

  level below(std::string cause) const {
    task_filter f;
    f.scope = tx_.scope();
    f.statuses = {v1::BLOCKED, v1::APPROVAL_REQUIRED};
    f.depends_on = cause;
    f.limit = page_rows;
    level out{std::move(cause), {}};
    for (const auto& dependant : tx_.find<v1::Task>(f))
      out.dependants.push_back(dependant.id());
    std::reverse(out.dependants.begin(), out.dependants.end()); // taken from the back
    return out;
  }

  /// Where the way came from. A task cancelled on it names its cause, so that the way back needs no memory but the place.
  std::string above(const std::string& id) const {
    auto task = find_task(tx_, id);
    return task && !task->cancelled_by().empty() ? task->cancelled_by() : where_.task_id();
  }

  // Depth first, without recursion: a chain may have any length.
  bool cancel_all() {
    std::vector<level> way{below(where_.at().empty() ? where_.task_id() : where_.at())};
    for (;;) {
      if (way.back().dependants.empty())
        way.back() = below(std::move(way.back().cause));
      const auto cause = way.back().cause;
      if (way.back().dependants.empty()) {
        if (cause == where_.task_id())
          return true;
        way.pop_back();
        if (way.empty())
          way.push_back(below(above(cause)));
        continue;
      }
      auto dependant = find_task(tx_, way.back().dependants.back());
      if (dependant && waits(*dependant) && !fits(*dependant)) {
        where_.set_at(cause);
        return false;
      }
      way.back().dependants.pop_back();
      if (!dependant || !waits(*dependant))
        continue; // cancelled on another way to it
      auto id = dependant->id();
      cancel(tx_, std::move(*dependant), cause);
      way.push_back(below(std::move(id)));
    }
  }

  transaction& tx_;
  v1::Cascade& where_;
  v1::TaskReply& told_;
  std::function<bool(std::size_t)> has_room_;
  std::size_t mail_bytes_ = 0; // of the messages that follow from `told`
};

} // namespace

void cascade(transaction& tx, const v1::Task& ended, std::string_view told_by, v1::TaskReply& reply) {
  v1::Cascade where;
  where.set_task_id(ended.id());
  where.set_told_by(std::string(told_by));
  const bool by_node = tx.command().principal().kind() == v1::Principal::NODE;
  // The reply repeats the task without its description, or the spawn that has ended, which a command once brought.
  const auto reply_bytes = by_node ? limits::command_encoded_bytes_max : ended.ByteSizeLong() - ended.description().size();
  const auto keep = command_bytes + reply_bytes;
  if (walk(tx, where, reply, [&](std::size_t bytes) { return tx.has_room(bytes + keep); }).run(ended))
    return;
  // The end of a worker is a fact and cannot be refused; there are no more of those than terminals.
  if (tx.pending_cascades() >= limits::cascades_pending_max() && !by_node)
    return tx.veto(refuse(v1::Refusal::LIMIT,
                          "The tasks that wait for " + std::to_string(limits::cascades_pending_max()) +
                            " others are still being told that those have ended. Repeat in a moment.",
                          ended.id()));
  *tx.scope_state().add_cascades() = std::move(where);
}

std::uint32_t continue_cascades(transaction& tx) {
  std::uint32_t taken = 0;
  const auto has_room = [&](std::size_t bytes) {
    const bool fits = tx.has_room(bytes + (taken > 0 ? sweep_bytes : 0));
    taken += fits ? 1 : 0;
    return fits;
  };
  while (tx.pending_cascades() > 0) {
    auto where = tx.scope_state().cascades(0);
    v1::TaskReply told;
    const auto ended = find_task(tx, where.task_id());
    const bool over = !ended || walk(tx, where, told, has_room).run(*ended);
    if (!where.told_by().empty())
      notify_unblocked(tx, told, where.told_by());
    auto& pending = *tx.scope_state().mutable_cascades();
    if (!over) {
      *pending.Mutable(0) = std::move(where);
      break;
    }
    pending.DeleteSubrange(0, 1);
  }
  return taken;
}

} // namespace swarm::domain
