#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lost_host.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/workspace.hpp"

namespace swarm::domain {

namespace {

constexpr const char* planner_key = "owner/planner";

/// What makes a session end.
struct session_end {
  std::string_view event_type;
  std::string_view task_reason;
  std::string_view lock_reason;
  std::string how = {}; // it went, with its host; for people
};

/// Reopens what the session had claimed. False = something is left for the next command.
bool release_tasks(transaction& tx, const v1::Session& s, std::string_view reason, std::vector<v1::Task>& released, v1::SweepReport& report) {
  task_filter f{.scope = tx.scope(), .statuses = {v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED}, .assignee = s.id()};
  f.limit = limits::session_end_rows_max;
  auto tasks = tx.find<v1::Task>(f);
  for (auto& task : tasks) {
    if (!tx.has_room(task.ByteSizeLong() + limits::kib))
      return false;
    if (task.status() == v1::CLAIMED || task.status() == v1::IN_PROGRESS) {
      reopen_task(tx, task, reason);
      report.set_tasks_reopened(report.tasks_reopened() + 1);
      task.clear_description();
      released.push_back(std::move(task));
      continue;
    }
    task.clear_assignee();
    task.set_updated_at_ms(tx.in().now_ms);
    task.set_changed_at_ms(tx.next_changed_at());
    tx.put(std::move(task));
    report.set_task_assignees_cleared(report.task_assignees_cleared() + 1);
  }
  return tasks.size() < limits::session_end_rows_max;
}

bool release_locks(transaction& tx, const v1::Session& s, std::string_view reason, v1::SweepReport& report) {
  lock_filter f{.scope = tx.scope(), .session_id = s.id()};
  f.limit = limits::session_end_rows_max;
  auto locks = tx.find<v1::Lock>(f);
  for (const auto& lock : locks) {
    // The row and its event, and for the next session in line a new row, an event and a reply.
    if (!tx.has_room(6 * lock.path().size() + 4 * limits::note_bytes_max()))
      return false;
    release(tx, lock, reason);
    report.set_locks_deleted(report.locks_deleted() + 1);
  }
  return locks.size() < limits::session_end_rows_max;
}

bool leave_lines(transaction& tx, const v1::Session& s) {
  waiter_filter f{.scope = tx.scope(), .session_id = s.id()};
  f.limit = limits::session_end_rows_max;
  auto waiters = tx.find<v1::LockWaiter>(f);
  std::size_t left = 0;
  for (const auto& w : waiters) {
    if (!tx.has_room(4 * limits::path_bytes_max()))
      break;
    ++left;
    end_wait(tx, w, refuse(v1::Refusal::NOT_REGISTERED, "The session that waited for the lock has ended. Register again.", w.path()));
  }
  for (std::size_t i = 0; i < left; ++i)
    hand_over(tx, waiters[i].path());
  return left == waiters.size() && left < limits::session_end_rows_max;
}

bool drop_mail(transaction& tx, const v1::Session& s) {
  message_filter f{.scope = tx.scope(), .recipient = s.id()};
  f.limit = limits::session_end_messages_max;
  auto mail = tx.find<v1::Message>(f);
  for (const auto& m : mail) {
    if (!tx.has_room(tx.scope().size() + 64))
      return false;
    tx.erase(m);
  }
  return mail.size() < limits::session_end_messages_max;
}

void drop_instance_keys(transaction& tx, const v1::Session& s, v1::SweepReport& report) {
  for (const auto& backend : workspace_backends)
    for (const auto& kv_key : workspace_keys(backend, s.id())) {
      auto entry = tx.get<v1::KvEntry>(key(tx.scope(), kv_key));
      if (!entry)
        continue;
      tx.erase(*entry);
      tx.kv_changed();
      report.set_identity_rows_deleted(report.identity_rows_deleted() + 1);
    }
}

void drop_credentials(transaction& tx, const v1::Session& s) {
  for (const auto& c : tx.find<v1::Credential>({.session_id = s.id()}))
    tx.erase(c);
}

std::string offline_text(const v1::Session& s, const std::string& how, const std::vector<v1::Task>& released) {
  auto text = "[auto] Agent " + display_name(s) + " went offline" + (how.empty() ? "" : ": " + how) + ". " + std::to_string(released.size()) +
              " task(s) released back to open: ";
  for (std::size_t i = 0; i < released.size() && i < limits::announced_tasks_max; ++i)
    text += (i == 0 ? "\"" : ", \"") + released[i].title() + "\" (" + released[i].type() + ", task_id: " + released[i].id() + ")";
  if (released.size() > limits::announced_tasks_max)
    text += " and " + std::to_string(released.size() - limits::announced_tasks_max) + " more";
  return text + ". Claim them if they match your role.";
}

void announce_offline(transaction& tx, const v1::Session& s, const std::string& how, const std::vector<v1::Task>& released) {
  if (released.empty())
    return;
  auto text = offline_text(s, how, released);
  std::uint32_t recipients = 0;
  for (const auto& other : tx.find<v1::Session>({.scope = tx.scope()})) {
    if (other.id() == s.id())
      continue;
    if (!tx.has_room(text.size() + 2 * limits::event_payload_bytes_max()))
      break;
    if (post_message(tx, "system", other.id(), text).id() != 0)
      ++recipients;
  }
  if (recipients > 0)
    tx.event("message.broadcast", "",
             {{"content", text},
              {"recipients", recipients},
              {"length", utf16_length(text)},
              {"reason", "stale_reclaim"},
              {"released_tasks", released.size()}},
             "system");
}

json end_payload(const v1::Session& s, const session_end& end) {
  json payload = {{"label", nullable(s.label())}, {"pid", s.pid()}};
  if (!end.how.empty()) {
    payload["reason"] = host_lost;
    payload["detail"] = end.how;
  } else if (end.event_type == "instance.stale_reclaimed") {
    payload["last_heartbeat"] = s.heartbeat_ms() / 1000;
    payload["stale_threshold_secs"] = limits::session_stale().count() / 1000;
    payload["reclaim_threshold_secs"] = limits::session_reclaim().count() / 1000;
  }
  return payload;
}

/// Nobody may use the rest of a session that is too large to end at once.
void leave_rest_to_sweep(transaction& tx, v1::Session s) {
  s.set_presence(v1::Session::LEASE);
  s.set_adopted(false);
  s.set_lease_until_ms(1);
  s.set_pid(0);
  s.set_pid_start(0);
  tx.put(std::move(s));
}

void store_planner(transaction& tx, const v1::Session& s) {
  auto& state = tx.scope_state();
  state.set_planner_session_id(s.id());
  state.set_planner_assigned_at_ms(tx.in().now_ms);
  json value = {{"instance_id", s.id()}, {"label", s.label()}, {"assigned_at", tx.in().now_ms}};
  v1::KvEntry entry;
  entry.set_scope(tx.scope());
  entry.set_key(planner_key);
  entry.set_value(value.dump(-1, ' ', false, json::error_handler_t::replace));
  entry.set_updated_at_ms(tx.in().now_ms);
  tx.event("kv.set", planner_key, {{"value", entry.value()}, {"length", utf16_length(entry.value())}}, "system");
  entry.set_revision(tx.revision());
  tx.kv_changed();
  tx.put(std::move(entry));
}

void clear_planner(transaction& tx) {
  tx.scope_state().clear_planner_session_id();
  tx.scope_state().clear_planner_assigned_at_ms();
  auto entry = tx.get<v1::KvEntry>(key(tx.scope(), planner_key));
  if (!entry)
    return;
  tx.erase(*entry);
  tx.kv_changed();
  tx.event("kv.deleted", planner_key, {{"prior_value", entry->value()}, {"prior_length", utf16_length(entry->value())}}, "system");
}

} // namespace

void claim_planner(transaction& tx, const v1::Session& s) {
  if (!has_token(s.label(), "role:planner") || s.scope() != tx.scope())
    return;
  const auto& owner_id = tx.planner();
  if (owner_id == s.id())
    return;
  auto owner = owner_id.empty() ? std::nullopt : tx.get<v1::Session>(key(owner_id));
  if (!owner || owner->scope() != tx.scope() || !has_token(owner->label(), "role:planner"))
    store_planner(tx, s);
}

void pass_planner_on(transaction& tx, std::string_view session_id) {
  if (tx.planner() != session_id)
    return;
  for (const auto& s : tx.find<v1::Session>({.scope = tx.scope()}))
    if (s.id() != session_id && has_token(s.label(), "role:planner"))
      return store_planner(tx, s);
  clear_planner(tx);
}

namespace {

void end_as(transaction& tx, const v1::Session& s, const session_end& end, bool announce, v1::SweepReport& counts) {
  std::vector<v1::Task> released;
  drop_credentials(tx, s);
  drop_instance_keys(tx, s, counts);
  bool complete = leave_lines(tx, s) && release_tasks(tx, s, end.task_reason, released, counts) && release_locks(tx, s, end.lock_reason, counts) &&
                  withdraw_questions(tx, s) && drop_mail(tx, s);
  if (complete) {
    tx.erase(s);
    tx.event(end.event_type, s.id(), end_payload(s, end));
    pass_planner_on(tx, s.id());
    counts.set_sessions_reclaimed(counts.sessions_reclaimed() + 1);
  } else {
    leave_rest_to_sweep(tx, s);
  }
  if (announce)
    announce_offline(tx, s, end.how, released);
}

} // namespace

void end_session(transaction& tx, const v1::Session& s, std::string_view event_type, bool announce, v1::SweepReport* report) {
  v1::SweepReport own;
  end_as(tx, s, {event_type, "session_ended", "owner_gone"}, announce, report ? *report : own);
}

void end_lost_session(transaction& tx, const v1::Session& s, const std::string& how) {
  v1::SweepReport counts;
  end_as(tx, s, {"instance.stale_reclaimed", host_lost, host_lost, how.empty() ? "its host was lost" : how}, true, counts);
}

} // namespace swarm::domain
