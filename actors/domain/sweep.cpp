#include <algorithm>
#include <array>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

/// Room a session's end or a hand-over may need beyond the rows counted.
constexpr std::size_t step_bytes = 64 * limits::kib;

bool is_uuid(std::string_view s) {
  if (s.size() != 36)
    return false;
  for (std::size_t i = 0; i < s.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    bool hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f') || (s[i] >= 'A' && s[i] <= 'F');
    if (dash ? s[i] != '-' : !hex)
      return false;
  }
  return true;
}

/// One sweep of one scope.
class cleaner {
public:
  explicit cleaner(transaction& tx) : tx_(tx), now_(tx.in().now_ms) {}

  v1::SweepReport run() {
    // First: a dependant with a large description may need most of a batch.
    follow_cascades();
    continue_lines(tx_);
    end_sessions();
    expire_locks();
    expire_waiters();
    release_spawn_locks();
    delete_messages();
    delete_tasks();
    delete_spawns();
    delete_prompts();
    delete_usage();
    // Before the events: a subscription that is given up hears of it before its unread events are deleted.
    give_up_subscriptions();
    delete_events();
    delete_orphan_kv();
    expire_kv();
    expire_approvals();
    expire_in_conversations();
    more_ = more_ || tx_.lines_pending();
    report_.set_next_deadline_ms(next_deadline());
    report_.set_more(more_);
    return std::move(report_);
  }

private:
  std::int64_t ago(limits::milliseconds d) const { return now_ - d.count(); }

  /// Calls `each` for the rows found until the batch or the share of this kind is full. Returns how many were taken.
  template <class Row, class Each>
  std::uint32_t take(typename table<Row>::filter f, Each each) {
    if constexpr (requires { f.limit; })
      f.limit = limits::sweep_rows_max;
    auto rows = tx_.find<Row>(f);
    std::uint32_t taken = 0;
    for (auto& row : rows) {
      if (taken == limits::sweep_rows_max || !tx_.has_room(step_bytes)) {
        more_ = true;
        return taken;
      }
      taken += each(row) ? 1 : 0;
    }
    more_ = more_ || (rows.size() >= limits::sweep_rows_max && taken > 0);
    return taken;
  }

  void announce(const char* type, std::uint32_t deleted) {
    if (deleted > 0)
      tx_.event(type, "", {{"deleted", deleted}}, "system");
  }

  void follow_cascades() {
    report_.set_dependants_told(continue_cascades(tx_));
    more_ = tx_.pending_cascades() > 0;
  }

  void end_sessions() {
    if (now_ < tx_.in().grace_until_ms)
      return;
    take<v1::Session>({.scope = tx_.scope(), .due_at_ms = now_}, [&](const v1::Session& s) {
      end_session(tx_, s, "instance.stale_reclaimed", true, &report_);
      return true;
    });
  }

  void expire_locks() {
    auto n = take<v1::Lock>({.scope = tx_.scope(), .due_at_ms = now_}, [&](const v1::Lock& lock) {
      if (!has_lapsed(lock, tx_.in()))
        return false;
      release(tx_, lock, "expired");
      return true;
    });
    report_.set_locks_deleted(report_.locks_deleted() + n);
  }

  void expire_waiters() {
    std::vector<std::string> left;
    report_.set_waiters_expired(take<v1::LockWaiter>({.scope = tx_.scope(), .due_at_ms = now_}, [&](const v1::LockWaiter& w) {
      end_wait(tx_, w, waited_too_long(w.path()));
      left.push_back(w.path());
      return true;
    }));
    for (const auto& path : left)
      hand_over(tx_, path);
  }

  bool is_terminal_task(const std::string& id) const {
    auto task = id.empty() ? std::nullopt : tx_.get<v1::Task>(key(id));
    return task && task->scope() == tx_.scope() && is_terminal(task->status());
  }

  /// The note of a spawn lock is a JSON object that names its task.
  static std::string task_in_note(const v1::Lock& lock) {
    auto note = parse_json(lock.note());
    if (!note || !note->is_object() || !note->contains("task_id") || !(*note)["task_id"].is_string())
      return {};
    return (*note)["task_id"].get<std::string>();
  }

  void release_spawn_locks() {
    auto n = take<v1::Lock>({.scope = tx_.scope(), .path_prefix = "/__swarm/spawn/"}, [&](const v1::Lock& lock) {
      if (!is_terminal_task(lock.task_id()) && !is_terminal_task(task_in_note(lock)))
        return false;
      release(tx_, lock, "dispatch_task_terminal");
      return true;
    });
    report_.set_terminal_spawn_locks_deleted(n);
    announce("cleanup.terminal_spawn_locks_deleted", n);
  }

  void delete_messages() {
    auto n = take<v1::Message>({.scope = tx_.scope(), .created_before_ms = ago(limits::row_retention())}, [&](const v1::Message& m) {
      tx_.erase(m);
      return true;
    });
    report_.set_messages_deleted(n);
    announce("cleanup.messages_deleted", n);
  }

  void delete_tasks() {
    task_filter old{.scope = tx_.scope(), .statuses = {v1::DONE, v1::FAILED, v1::CANCELLED}, .updated_before_ms = ago(limits::row_retention())};
    auto n = take<v1::Task>(old, [&](const v1::Task& t) {
      // A task that still waits on others must keep finding this one.
      if (tx_.count<v1::Task>({.scope = tx_.scope(), .statuses = {v1::BLOCKED, v1::APPROVAL_REQUIRED}, .depends_on = t.id()}) > 0)
        return false;
      tx_.erase(t);
      return true;
    });
    report_.set_terminal_tasks_deleted(n);
    announce("cleanup.terminal_tasks_deleted", n);
  }

  void delete_spawns() {
    take<v1::Spawn>({.scope = tx_.scope(), .of_conversation = false, .ended_before_ms = ago(limits::spawn_key_retention())}, [&](const v1::Spawn& s) {
      tx_.erase(s);
      return true;
    });
  }

  void delete_prompts() {
    take<v1::Prompt>({.scope = tx_.scope(), .retired_before_ms = ago(limits::row_retention())}, [&](const v1::Prompt& p) {
      tx_.erase(p);
      return true;
    });
  }

  void delete_usage() {
    constexpr std::int64_t day_ms = 24 * 3'600'000;
    const auto oldest = static_cast<std::uint32_t>(std::max<std::int64_t>(ago(limits::usage_retention()), 0) / day_ms);
    take<v1::UsageDay>({.scope = tx_.scope(), .before_day = oldest}, [&](const v1::UsageDay& u) {
      tx_.erase(u);
      return true;
    });
  }

  void reset(const v1::Subscription& s, const char* reason) {
    tx_.event("subscription.reset", s.name(), {{"owner", s.owner()}, {"cursor", s.cursor()}, {"reason", reason}}, "system");
  }

  static bool wants(const v1::Subscription& s, const v1::Event& e) {
    auto is_prefix = [&](const std::string& type) { return e.type().compare(0, type.size(), type) == 0; };
    return s.types().empty() || std::any_of(s.types().begin(), s.types().end(), is_prefix);
  }

  /// Retention waits this long for a subscription, from its last move or from the first event it wants and has not taken, whichever is
  /// later: one that has taken everything stays, however quiet its scope is. What it does not want is passed over in its name.
  bool is_given_up(v1::Subscription s) {
    if (s.cursor() >= tx_.revision())
      return false;
    auto next = tx_.base().events(tx_.scope(), s.cursor(), s.types().empty() ? 1 : limits::sweep_rows_max);
    auto first = std::find_if(next.begin(), next.end(), [&](const auto& e) { return wants(s, e); });
    if (first != next.end())
      return first->at_ms() < ago(limits::subscription_retention());
    if (!next.empty()) {
      s.set_cursor(next.back().revision());
      tx_.put(std::move(s));
    }
    more_ = more_ || next.size() == limits::sweep_rows_max;
    return false;
  }

  void give_up_subscriptions() {
    take<v1::Subscription>({.scope = tx_.scope(), .updated_before_ms = ago(limits::subscription_retention())}, [&](const v1::Subscription& s) {
      if (!is_given_up(s))
        return false;
      tx_.erase(s);
      reset(s, "untouched");
      return true;
    });
  }

  /// The subscriptions that have not lost anything yet, the one furthest behind first.
  std::vector<v1::Subscription> waiting_subscriptions(std::uint64_t oldest) const {
    auto all = tx_.find<v1::Subscription>({.scope = tx_.scope()});
    std::erase_if(all, [&](const auto& s) { return s.cursor() + 1 < oldest; });
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cursor() < b.cursor(); });
    return all;
  }

  void delete_events() {
    auto oldest = tx_.base().oldest_event(tx_.scope());
    if (oldest == 0)
      return;
    auto keep = tx_.base().events_below(tx_.scope(), ago(limits::row_retention()));
    // Counted within the newest epoch: the distance to an older one says nothing about the number of events.
    auto in_epoch = tx_.revision() & ((std::uint64_t{1} << limits::epoch_shift) - 1);
    auto keep_at_most = in_epoch > limits::events_rows_max() ? tx_.revision() - limits::events_rows_max() + 1 : 0;
    if (std::max(keep, keep_at_most) <= oldest)
      return;
    auto waiting = waiting_subscriptions(oldest);
    if (!waiting.empty())
      keep = std::min(keep, waiting.front().cursor() + 1);
    keep = std::max(keep, keep_at_most);
    if (keep <= oldest)
      return;
    // Revisions have no gaps within an epoch; the first ones of an older epoch go by themselves.
    auto end = std::min(keep, oldest + limits::sweep_events_max);
    // Only the bound on their number takes events from waiting subscriptions, and not before these hear of it.
    for (const auto& s : waiting) {
      if (s.cursor() + 1 >= end)
        break;
      if (!tx_.has_room(step_bytes)) {
        end = s.cursor() + 1;
        break;
      }
      reset(s, "events_rows_max");
    }
    more_ = more_ || end < keep;
    if (end <= oldest)
      return;
    tx_.delete_events_below(end);
    report_.set_events_deleted(static_cast<std::uint32_t>(end - oldest));
    announce("cleanup.events_deleted", report_.events_deleted());
  }

  bool instance_lives(std::string_view id) const {
    auto s = tx_.get<v1::Session>(key(id));
    return s && s->scope() == tx_.scope();
  }

  /// Only a key that names an instance expires with it: its last segment is an instance id, and that instance is gone.
  bool is_orphan(const v1::KvEntry& e) const {
    auto id = std::string_view(e.key()).substr(e.key().rfind('/') + 1);
    return is_uuid(id) && !instance_lives(id);
  }

  void delete_orphan_kv() {
    delete_orphans();
    announce("cleanup.kv_deleted", report_.kv_deleted());
  }

  void delete_orphans() {
    for (const char* prefix : {"identity/", "plan/", "progress/"}) {
      kv_filter f{.scope = tx_.scope(), .key_prefix = prefix, .updated_before_ms = ago(limits::orphan_kv_retention())};
      f.limit = limits::sweep_rows_max;
      for (std::size_t page = 0; page < limits::sweep_kv_pages_max; ++page) {
        auto rows = tx_.find<v1::KvEntry>(f);
        for (const auto& e : rows)
          if (is_orphan(e) && !delete_kv_row(e))
            return;
        if (rows.size() < limits::sweep_rows_max)
          break;
        f.after_key = rows.back().key();
      }
    }
  }

  bool delete_kv_row(const v1::KvEntry& e) {
    if (report_.kv_deleted() >= limits::sweep_rows_max || !tx_.has_room(step_bytes)) {
      more_ = true;
      return false;
    }
    tx_.erase(e);
    tx_.kv_changed();
    report_.set_kv_deleted(report_.kv_deleted() + 1);
    if (e.key().rfind("identity/", 0) == 0)
      report_.set_identity_rows_deleted(report_.identity_rows_deleted() + 1);
    report_.add_kv_keys_deleted(e.scope() + ":" + e.key());
    return true;
  }

  void expire_kv() {
    take<v1::KvEntry>({.scope = tx_.scope(), .due_at_ms = now_}, [&](const v1::KvEntry& e) {
      if (!delete_kv_row(e))
        return false;
      tx_.event("kv.deleted", e.key(), {{"prior_value", e.value()}, {"prior_length", utf16_length(e.value())}, {"reason", "expired"}}, "system");
      return true;
    });
  }

  void expire_approvals() {
    take<v1::Approval>({.scope = tx_.scope(), .open = true}, [&](v1::Approval& a) {
      if (settle_agent_request(tx_, a))
        return true;
      if (a.deadline_ms() == 0 || a.deadline_ms() > now_)
        return false;
      a.set_decided_at_ms(now_);
      if (!a.conversation_id().empty())
        a.set_delivery(v1::Approval::PENDING); // its agent is told that it may not
      tx_.event("approval.decided", a.id(), {{"subject", a.subject()}, {"decision", nullptr}, {"reason", "expired"}}, "system");
      tx_.put(a);
      follow_agent_requests(tx_, a.conversation_id());
      return true;
    });
    take<v1::Approval>({.scope = tx_.scope(), .open = false}, [&](v1::Approval& a) {
      if (settle_agent_request(tx_, a))
        return true;
      if (a.decided_at_ms() >= ago(limits::row_retention()))
        return false;
      tx_.erase(a);
      return true;
    });
  }

  void expire_in_conversations() {
    for (auto& c : tx_.find<v1::Conversation>({.scope = tx_.scope(), .open = true})) {
      if (!tx_.has_room(step_bytes)) {
        more_ = true;
        return;
      }
      settle_foreign(tx_, c);
      settle_permissions(tx_, c);
      settle_background(tx_, c);
    }
  }

  // -- when the next sweep is due -----------------------------------------------------------------------

  template <class Row>
  std::int64_t deadline_of(const Row& row) const {
    return table<Row>::due_at(row);
  }
  /// A sign of life from the future is of a clock that was set back.
  std::int64_t deadline_of(const v1::Session& s) const {
    if (s.presence() == v1::Session::HEARTBEAT && s.heartbeat_ms() > now_ + limits::session_stale().count())
      return now_;
    return table<v1::Session>::due_at(s);
  }

  /// Rows are not ordered by deadline, so the horizon widens until something lies within it: near deadlines stay cheap. When there are too
  /// many to look at it is halved, and a sweep comes that finds nothing due but is nearer to the first.
  template <class Row>
  void find_earliest(typename table<Row>::filter f, std::int64_t not_before_ms) {
    using limits::milliseconds;
    constexpr std::array horizons{milliseconds{5'000}, milliseconds{120'000}, milliseconds{limits::hours{2}}, milliseconds{limits::hours{24 * 400}}};
    constexpr milliseconds nearest{20};
    f.limit = limits::sweep_deadlines_read_max;
    auto due_within = [&](milliseconds horizon) {
      f.due_at_ms = now_ + horizon.count();
      return tx_.find<Row>(f);
    };
    for (auto horizon : horizons) {
      auto rows = due_within(horizon);
      auto near = horizon;
      for (; rows.size() == f.limit && near > nearest; rows = due_within(near))
        near /= 2;
      if (rows.size() == f.limit || (rows.empty() && near < horizon))
        return note(std::max(now_ + near.count(), not_before_ms));
      for (const auto& row : rows)
        note(std::max(deadline_of(row), not_before_ms));
      if (!rows.empty())
        return;
    }
  }

  void note(std::int64_t at_ms) {
    if (next_ == 0 || at_ms < next_)
      next_ = at_ms;
  }

  std::int64_t next_deadline() {
    auto grace = tx_.in().grace_until_ms;
    find_earliest<v1::Session>({.scope = tx_.scope()}, grace);
    find_earliest<v1::Lock>({.scope = tx_.scope()}, grace);
    find_earliest<v1::LockWaiter>({.scope = tx_.scope()}, 0);
    find_earliest<v1::KvEntry>({.scope = tx_.scope()}, 0);
    for (const auto& a : tx_.find<v1::Approval>({.scope = tx_.scope(), .open = true}))
      if (auto at_ms = deadline_of(a))
        note(at_ms);
    for (const auto& c : tx_.find<v1::Conversation>({.scope = tx_.scope(), .open = true}))
      if (auto at_ms = deadline_of(c))
        note(at_ms);
    if (more_)
      return now_;
    return next_ == 0 ? 0 : std::max(next_, now_);
  }

  transaction& tx_;
  std::int64_t now_;
  v1::SweepReport report_;
  bool more_ = false;
  std::int64_t next_ = 0;
};

} // namespace

v1::SweepReport preview_sweep(const rows_view& rows, const std::string& scope, const inputs& in) {
  v1::Command cmd;
  cmd.set_scope(scope);
  cmd.mutable_principal()->set_kind(v1::Principal::NODE);
  cmd.mutable_sweep()->set_dry_run(true);
  auto trial_inputs = in;
  // Ids of a trial are thrown away; a query has no source of them.
  trial_inputs.new_uuid = [] { return std::string("00000000-0000-4000-8000-000000000000"); };
  transaction trial(rows, cmd, trial_inputs);
  auto report = cleaner(trial).run();
  report.set_dry_run(true);
  return report;
}

v1::Reply sweep(transaction& tx, const v1::Sweep& s) {
  v1::Reply reply;
  *reply.mutable_sweep() = s.dry_run() ? preview_sweep(tx.base(), tx.scope(), tx.in()) : cleaner(tx).run();
  return reply;
}

} // namespace swarm::domain
