#include "actors/store/select.hpp"

#include <algorithm>
#include <charconv>

#include <sqlite3.h>

#include "actors/base/limits.hpp"
#include "actors/store/columns.hpp"

namespace swarm {

// -- selection ---------------------------------------------------------------------------

void selection::where(std::string_view condition, std::vector<sqlite::value> values) {
  if (!where_.empty())
    where_ += " AND ";
  auto next = values.begin();
  for (auto c : condition) {
    if (c == '?')
      where_ += bound(std::move(*next++));
    else
      where_ += c;
  }
}

std::string selection::bound(sqlite::value v) {
  values_.push_back(std::move(v));
  return "?" + std::to_string(values_.size());
}

void selection::key_range(std::string lower, std::string upper) {
  where("key >= ?", {sqlite::blob{std::move(lower)}});
  if (!upper.empty())
    where("key < ?", {sqlite::blob{std::move(upper)}});
}

std::string selection::union_of(const std::string& result) const {
  auto one = [&](const std::string& arm) {
    auto sql = "SELECT " + result + " FROM " + source_;
    if (!where_.empty() || !arm.empty())
      sql += " WHERE " + where_ + (where_.empty() || arm.empty() ? "" : " AND ") + arm;
    return sql;
  };
  if (arms_.empty())
    return one({});
  auto sql = one(arms_.front());
  for (std::size_t i = 1; i < arms_.size(); ++i)
    sql += " UNION ALL " + one(arms_[i]);
  return sql;
}

std::string selection::rows_sql() const {
  std::string result = "body", order;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    result += std::string{", "} + order_[i];
    order += (i == 0 ? " ORDER BY " : ", ") + std::to_string(i + 2) + (backwards_ ? " DESC" : "");
  }
  auto sql = union_of(result) + order;
  if (limit_ != 0)
    sql += " LIMIT ?" + std::to_string(values_.size() + 1);
  return sql;
}

std::string selection::count_sql() const { return "SELECT count(*) FROM (" + union_of("1") + ")"; }

// -- helpers -----------------------------------------------------------------------------

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xffu)
    prefix.pop_back();
  if (!prefix.empty())
    prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1u);
  return prefix;
}

namespace {

void equal(selection& q, const char* condition, const std::string& wanted) {
  if (!wanted.empty())
    q.where(condition, {wanted});
}

void prefixed(selection& q, const std::string& column, const std::string& prefix) {
  if (prefix.empty())
    return;
  q.where(column + " >= ?", {prefix});
  if (auto upper = after_prefix(prefix); !upper.empty())
    q.where(column + " < ?", {upper});
}

/// Keys of one scope that start with `prefix` after it.
void within(selection& q, const std::string& scope, const std::string& prefix) {
  auto lower = domain::key(scope, prefix);
  auto upper = after_prefix(lower);
  q.key_range(std::move(lower), std::move(upper));
}

/// domain::position taken apart again: 20 digits, NUL, id.
void after_position(selection& q, const char* condition, const std::string& position) {
  constexpr std::size_t width = 20;
  if (position.empty())
    return;
  std::int64_t ms = 0;
  auto parsed = position.size() > width ? std::from_chars(position.data(), position.data() + width, ms) : std::from_chars_result{};
  if (parsed.ptr != position.data() + width || parsed.ec != std::errc{} || position[width] != '\0')
    throw sqlite::error{SQLITE_MISMATCH, "a list position is malformed"};
  q.where(condition, {ms, sqlite::blob{position.substr(width + 1)}});
}

} // namespace

// -- plans -------------------------------------------------------------------------------

selection plan(const domain::session_filter& f) {
  selection q{f.scope.empty() || f.due_at_ms ? "sessions" : "sessions INDEXED BY sessions_by_scope", {"registered_ms", "key"}};
  // The plus keeps the planner off the scope's index: few sessions are due at any time, however many there are.
  equal(q, f.due_at_ms ? "+scope = ?" : "scope = ?", f.scope);
  equal(q, "node_id = ?", f.node_id);
  // Usually all sessions of a scope are of one identity: two steps into the index find that out without looking at each of them.
  if (!f.scope.empty() && !f.due_at_ms && !f.other_identity.empty()) {
    q.walk("sessions INDEXED BY sessions_by_identity");
    auto mine = q.bound(f.other_identity);
    q.arms({"identity < " + mine, "identity > " + mine});
  } else {
    equal(q, "identity <> ?", f.other_identity);
  }
  if (f.adopted)
    q.where("adopted = ?", {std::int64_t{*f.adopted}});
  if (f.due_at_ms)
    q.arms({"beat_ms < " + q.bound(*f.due_at_ms - limits::session_reclaim().count()),
            "beat_ms > " + q.bound(*f.due_at_ms + limits::session_stale().count()), "lease_ms < " + q.bound(*f.due_at_ms)});
  after_position(q, "(registered_ms, key) > (?, ?)", f.after_key);
  q.limit(f.limit);
  return q;
}

selection plan(const domain::credential_filter& f) {
  selection q{"credentials", {"key"}};
  equal(q, "session_id = ?", f.session_id);
  return q;
}

namespace {

/// The best way into the tasks of one scope, by what narrows most.
void enter_tasks(selection& q, const domain::task_filter& f) {
  auto all_terminal = !f.statuses.empty() && std::all_of(f.statuses.begin(), f.statuses.end(), domain::is_terminal);
  if (!f.id_prefix.empty()) {
    q.walk("tasks"); // by its key
  } else if (!f.idempotency_key.empty() || !f.idempotency_base.empty()) {
    q.walk("tasks INDEXED BY tasks_by_idempotency");
    q.where("idempotency_key <> ''");
  } else if (!f.assignee.empty()) {
    q.walk("tasks INDEXED BY tasks_by_assignee");
    q.where("assignee <> ''");
  } else if (!f.requester.empty()) {
    q.walk("tasks INDEXED BY tasks_by_requester");
  } else if (f.updated_before_ms && all_terminal) {
    q.walk("tasks INDEXED BY tasks_by_retirement");
    q.where("retired_ms < ?", {*f.updated_before_ms});
  } else if (f.by_creation) {
    q.walk("tasks INDEXED BY tasks_by_creation");
  } else {
    q.walk(f.statuses.empty() ? "tasks INDEXED BY tasks_by_rank" : "tasks INDEXED BY tasks_by_status");
  }
}

bool merges_by_status(const domain::task_filter& f) {
  return !f.scope.empty() && f.depends_on.empty() && f.idempotency_key.empty() && f.idempotency_base.empty() && f.id_prefix.empty() &&
         f.assignee.empty() && f.requester.empty() && !f.by_creation && !f.updated_before_ms;
}

void restrict_statuses(selection& q, const domain::task_filter& f) {
  auto statuses = f.statuses;
  std::sort(statuses.begin(), statuses.end());
  statuses.erase(std::unique(statuses.begin(), statuses.end()), statuses.end());
  if (merges_by_status(f)) {
    std::vector<std::string> arms;
    arms.reserve(statuses.size());
    for (auto s : statuses)
      arms.push_back("status = " + std::to_string(s));
    q.arms(std::move(arms));
  } else if (!statuses.empty()) {
    std::string list;
    for (auto s : statuses)
      list += (list.empty() ? "" : ", ") + std::to_string(s);
    q.where("status IN (" + list + ")");
  }
}

} // namespace

selection plan(const domain::task_filter& f) {
  selection q{"tasks", {"rank", "created_ms", "key"}};
  if (f.by_creation)
    q.order_by({"created_ms", "key"});
  if (!f.depends_on.empty())
    q.walk("task_dependencies CROSS JOIN tasks ON tasks.key = task_dependencies.task");
  else if (!f.scope.empty())
    enter_tasks(q, f);
  equal(q, "dependency = ?", f.depends_on);
  // The plus keeps the planner off the scope's indexes where the key is the way in.
  equal(q, f.id_prefix.empty() ? "scope = ?" : "+scope = ?", f.scope);
  equal(q, "assignee = ?", f.assignee);
  equal(q, "requester = ?", f.requester);
  equal(q, "idempotency_key = ?", f.idempotency_key);
  if (const auto& base = f.idempotency_base; !base.empty()) {
    q.where("idempotency_key >= ?", {base});
    q.where("idempotency_key < ?", {after_prefix(base + ":")});
    q.where("(idempotency_key = ? OR idempotency_key >= ?)", {base, base + ":"});
  }
  if (f.unassigned)
    q.where(*f.unassigned ? "assignee = ''" : "assignee <> ''");
  if (f.updated_before_ms)
    q.where("updated_ms < ?", {*f.updated_before_ms});
  if (f.after && f.by_creation)
    q.where("(created_ms, key) > (?, ?)", {f.after->created_at_ms(), sqlite::blob{f.after->id()}});
  else if (f.after)
    q.where("(rank, created_ms, key) > (?, ?, ?)", {rank_of(f.after->priority()), f.after->created_at_ms(), sqlite::blob{f.after->id()}});
  if (!f.id_prefix.empty())
    q.key_range(f.id_prefix, after_prefix(f.id_prefix));
  restrict_statuses(q, f);
  if (f.newest)
    q.backwards();
  q.limit(f.limit);
  return q;
}

selection plan(const domain::lock_filter& f) {
  selection q{"locks", {"path", "key"}};
  if (!f.session_id.empty()) {
    q.walk("locks INDEXED BY locks_by_session");
    equal(q, "scope = ?", f.scope);
    prefixed(q, "path", f.path_prefix);
  } else if (!f.task_id.empty()) {
    q.walk("locks INDEXED BY locks_by_task");
    q.where("task_id <> ''");
    equal(q, "scope = ?", f.scope);
    prefixed(q, "path", f.path_prefix);
  } else if (f.due_at_ms && !f.scope.empty()) {
    q.walk("locks INDEXED BY locks_by_deadline");
    equal(q, "scope = ?", f.scope);
    prefixed(q, "path", f.path_prefix);
  } else if (!f.scope.empty()) {
    within(q, f.scope, f.path_prefix);
    q.order_by({"key"});
    if (!f.after_path.empty())
      q.where("key > ?", {sqlite::blob{domain::key(f.scope, f.after_path)}});
  } else {
    prefixed(q, "path", f.path_prefix);
  }
  equal(q, "session_id = ?", f.session_id);
  equal(q, "task_id = ?", f.task_id);
  equal(q, "path > ?", f.after_path);
  if (f.due_at_ms)
    q.where("deadline_ms <= ?", {*f.due_at_ms});
  q.limit(f.limit);
  return q;
}

selection plan(const domain::waiter_filter& f) {
  selection q{"lock_waiters", {"seq", "key"}};
  if (!f.scope.empty() && !f.path.empty()) {
    within(q, f.scope, f.path + '\0');
    q.order_by({"key"});
  } else if (!f.scope.empty() && !f.path_prefix.empty() && f.session_id.empty() && !f.due_at_ms) {
    within(q, f.scope, f.path_prefix);
  } else {
    if (!f.session_id.empty())
      q.walk("lock_waiters INDEXED BY lock_waiters_by_session");
    else if (!f.scope.empty())
      q.walk("lock_waiters INDEXED BY lock_waiters_by_deadline");
    equal(q, "scope = ?", f.scope);
    equal(q, "path = ?", f.path);
    prefixed(q, "path", f.path_prefix);
  }
  equal(q, "session_id = ?", f.session_id);
  if (f.due_at_ms)
    q.where("deadline_ms <> 0 AND deadline_ms <= ?", {*f.due_at_ms});
  q.limit(f.limit);
  return q;
}

namespace {

void enter_messages(selection& q, const domain::message_filter& f) {
  auto one_inbox = !f.scope.empty() && !f.recipient.empty();
  if (one_inbox) {
    q.walk("messages INDEXED BY messages_by_recipient");
    q.arms(f.read ? std::vector<std::string>{*f.read ? "read = 1" : "read = 0"} : std::vector<std::string>{"read = 0", "read = 1"});
  } else if (f.read) {
    q.where("read = ?", {std::int64_t{*f.read}});
  }
  if (!f.scope.empty() && !one_inbox && !f.created_before_ms) {
    within(q, f.scope, {});
    q.order_by({"key"});
    return;
  }
  if (!f.scope.empty() && !one_inbox)
    q.walk("messages INDEXED BY messages_by_age");
  equal(q, "scope = ?", f.scope);
}

} // namespace

selection plan(const domain::message_filter& f) {
  selection q{"messages", {"id", "key"}};
  enter_messages(q, f);
  equal(q, "recipient = ?", f.recipient);
  equal(q, "sender = ?", f.sender);
  if (f.created_before_ms)
    q.where("created_ms < ?", {*f.created_before_ms});
  if (!f.content_prefix.empty()) {
    auto head = f.content_prefix.substr(0, message_head_bytes);
    q.where("substr(head, 1, ?) = ?", {to_column(head.size()), sqlite::blob{head}});
  }
  if (f.content_prefix.size() > message_head_bytes)
    q.where("swarm_starts(body, ?)", {sqlite::blob{f.content_prefix}});
  if (f.after_id != 0)
    q.where("id > ?", {static_cast<std::int64_t>(f.after_id)});
  if (f.newest)
    q.backwards();
  q.limit(f.limit);
  return q;
}

selection plan(const domain::kv_filter& f) {
  selection q{"kv", {"name", "key"}};
  if (!f.scope.empty() && f.due_at_ms) {
    q.walk("kv INDEXED BY kv_by_expiry");
    equal(q, "scope = ?", f.scope);
    prefixed(q, "name", f.key_prefix);
  } else if (!f.scope.empty()) {
    within(q, f.scope, f.key_prefix);
    q.order_by({"key"});
    if (!f.after_key.empty())
      q.where("key > ?", {sqlite::blob{domain::key(f.scope, f.after_key)}});
  } else {
    prefixed(q, "name", f.key_prefix);
  }
  equal(q, "name > ?", f.after_key);
  if (!f.like_prefix.empty())
    q.where("swarm_like(name, ?)", {f.like_prefix + '%'});
  if (f.due_at_ms)
    q.where("expires_ms <= ?", {*f.due_at_ms});
  if (f.updated_before_ms)
    q.where("updated_ms < ?", {*f.updated_before_ms});
  q.limit(f.limit);
  return q;
}

namespace {

const char* enter_spawns(const domain::spawn_filter& f) {
  if (!f.scope.empty() && !f.role.empty() && !f.key.empty())
    return "spawns INDEXED BY spawns_by_name";
  if (!f.task_id.empty())
    return "spawns INDEXED BY spawns_by_task";
  if (!f.session_id.empty())
    return "spawns INDEXED BY spawns_by_session";
  if (f.live && *f.live)
    return "spawns INDEXED BY spawns_live";
  return f.scope.empty() ? "spawns" : "spawns INDEXED BY spawns_by_scope";
}

} // namespace

selection plan(const domain::spawn_filter& f) {
  selection q{enter_spawns(f), {"requested_ms", "key"}};
  equal(q, "scope = ?", f.scope);
  equal(q, "role = ?", f.role);
  equal(q, "name = ?", f.key);
  equal(q, "task_id <> '' AND task_id = ?", f.task_id);
  equal(q, "session_id <> '' AND session_id = ?", f.session_id);
  equal(q, "node_id = ?", f.node_id);
  if (f.live)
    q.where(*f.live ? "live = 1" : "live = 0");
  if (f.of_conversation)
    q.where(*f.of_conversation ? "conversation <> ''" : "conversation = ''");
  if (f.ended_before_ms)
    q.where("ended_ms <> 0 AND ended_ms < ?", {*f.ended_before_ms});
  after_position(q, "(requested_ms, key) > (?, ?)", f.after_id);
  q.limit(f.limit);
  return q;
}

selection plan(const domain::subscription_filter& f) {
  selection q{"subscriptions", {"name", "key"}};
  if (!f.scope.empty())
    within(q, f.scope, f.owner.empty() ? f.owner : f.owner + '\0');
  equal(q, "scope = ?", f.scope);
  equal(q, "owner = ?", f.owner);
  if (f.updated_before_ms)
    q.where("updated_ms < ?", {*f.updated_before_ms});
  return q;
}

selection plan(const domain::approval_filter& f) {
  const auto* source = !f.conversation_id.empty() ? "approvals INDEXED BY approvals_by_conversation"
                       : f.scope.empty()          ? "approvals"
                       : f.asker.empty()          ? "approvals INDEXED BY approvals_by_scope"
                                                  : "approvals INDEXED BY approvals_by_asker";
  selection q{source, {"created_ms", "key"}};
  equal(q, "scope = ?", f.scope);
  equal(q, "subject = ?", f.subject);
  equal(q, "asker = ?", f.asker);
  equal(q, "request_key = ?", f.request_key);
  equal(q, "conversation <> '' AND conversation = ?", f.conversation_id);
  if (f.of_conversation)
    q.where(*f.of_conversation ? "conversation <> ''" : "conversation = ''");
  if (f.open)
    q.where("open = ?", {std::int64_t{*f.open}});
  after_position(q, "(created_ms, key) > (?, ?)", f.after_key);
  q.limit(f.limit);
  return q;
}

selection plan(const domain::conversation_filter& f) {
  selection q{f.scope.empty() ? "conversations" : "conversations INDEXED BY conversations_by_scope", {"created_ms", "key"}};
  equal(q, "scope = ?", f.scope);
  if (f.open)
    q.where(*f.open ? "open = 1" : "open = 0");
  after_position(q, "(created_ms, key) > (?, ?)", f.after_key);
  q.limit(f.limit);
  return q;
}

namespace {

/// Few are, of the many that a conversation has had.
bool is_underway(const domain::prompt_filter& f) { return f.open.value_or(false) || !f.retired.value_or(true); }

const char* enter_prompts(const domain::prompt_filter& f) {
  if (!f.conversation_id.empty())
    return is_underway(f) ? "prompts INDEXED BY prompts_underway" : "prompts INDEXED BY prompts_by_conversation";
  return f.retired_before_ms && !f.scope.empty() ? "prompts INDEXED BY prompts_by_retirement" : "prompts";
}

} // namespace

selection plan(const domain::prompt_filter& f) {
  selection q{enter_prompts(f), {"number", "key"}};
  equal(q, "scope = ?", f.scope);
  equal(q, "conversation = ?", f.conversation_id);
  if (f.open)
    q.where(*f.open ? "open = 1" : "open = 0");
  if (is_underway(f))
    q.where("retired_ms IS NULL");
  if (f.retired.value_or(false))
    q.where("retired_ms IS NOT NULL");
  if (f.retired_before_ms)
    q.where("retired_ms IS NOT NULL AND retired_ms < ?", {*f.retired_before_ms});
  if (f.after_number != 0)
    q.where("number > ?", {to_column(f.after_number)});
  q.limit(f.limit);
  return q;
}

selection plan(const domain::usage_day_filter& f) {
  const auto* source = f.scope.empty() ? "usage_days"
                       : f.before_day  ? "usage_days INDEXED BY usage_days_by_day"
                                       : "usage_days INDEXED BY usage_days_by_scope";
  selection q{source, {"key"}};
  equal(q, "scope = ?", f.scope);
  if (f.since_day != 0)
    q.where("day >= ?", {std::int64_t{f.since_day}});
  if (f.before_day)
    q.where("day < ?", {std::int64_t{*f.before_day}});
  if (!f.after_key.empty())
    q.where("key > ?", {sqlite::blob{f.after_key}});
  q.limit(f.limit);
  return q;
}

selection plan(const domain::scope_state_filter& f) {
  selection q{"scope_states", {"key"}};
  if (!f.after_scope.empty())
    q.where("key > ?", {sqlite::blob{f.after_scope}});
  q.limit(f.limit);
  return q;
}

} // namespace swarm
