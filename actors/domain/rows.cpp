#include "actors/domain/rows.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "actors/base/limits.hpp"

namespace swarm::domain {

namespace {

constexpr char separator = '\0';

constexpr std::size_t digits_of_number = 20;

std::string digits(std::uint64_t n) {
  auto text = std::to_string(n);
  return std::string(digits_of_number - text.size(), '0') + text;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

/// `_` stands for one character, not one byte.
std::size_t character(std::string_view s, std::size_t at) {
  auto end = at + 1;
  while (end < s.size() && (static_cast<unsigned char>(s[end]) & 0xc0u) == 0x80u)
    ++end;
  return end - at;
}

bool is(const std::string& wanted, const std::string& value) { return wanted.empty() || wanted == value; }

bool starts(const std::string& value, const std::string& prefix) { return value.compare(0, prefix.size(), prefix) == 0; }

bool is_due(const v1::Session& s, std::int64_t at_ms) {
  if (s.presence() == v1::Session::HEARTBEAT)
    return s.heartbeat_ms() + limits::session_reclaim().count() < at_ms || s.heartbeat_ms() > at_ms + limits::session_stale().count();
  return s.presence() == v1::Session::LEASE && s.lease_until_ms() > 0 && s.lease_until_ms() < at_ms;
}

bool is_due(std::int64_t deadline_ms, std::int64_t at_ms) { return deadline_ms != 0 && deadline_ms <= at_ms; }

template <class Row>
bool by_key(const Row& a, const Row& b) {
  return table<Row>::key(a) < table<Row>::key(b);
}

} // namespace

// -- keys --------------------------------------------------------------------------------------

std::string key(std::string_view a) { return std::string(a); }

std::string key(std::string_view a, std::string_view b) {
  std::string out;
  out.reserve(a.size() + b.size() + 1);
  out.append(a).push_back(separator);
  return out.append(b);
}

std::string key(std::string_view a, std::string_view b, std::string_view c) { return key(key(a, b), c); }

std::string key(std::string_view a, std::uint64_t n) { return key(a, digits(n)); }

std::string key(std::string_view a, std::string_view b, std::uint64_t n) { return key(a, b, digits(n)); }

std::string position(const v1::Session& s) { return key(digits(static_cast<std::uint64_t>(s.registered_at_ms())), s.id()); }

std::string position(const v1::Spawn& s) { return key(digits(static_cast<std::uint64_t>(s.requested_at_ms())), s.id()); }

std::string position(const v1::Approval& a) { return key(digits(static_cast<std::uint64_t>(a.created_at_ms())), a.id()); }

std::string position(const v1::Conversation& c) { return key(digits(static_cast<std::uint64_t>(c.created_at_ms())), c.id()); }

bool is_position(std::string_view text) noexcept {
  if (text.size() <= digits_of_number || text[digits_of_number] != separator || text.front() == '-')
    return false;
  std::int64_t ms = 0;
  const auto* end = text.data() + digits_of_number;
  auto parsed = std::from_chars(text.data(), end, ms);
  return parsed.ptr == end && parsed.ec == std::errc{};
}

bool like(std::string_view text, std::string_view pattern) {
  constexpr auto none = std::string_view::npos;
  std::size_t t = 0, p = 0, star = none, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '%') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == '_') {
      t += character(text, t);
      ++p;
    } else if (p < pattern.size() && lower(pattern[p]) == lower(text[t])) {
      ++t;
      ++p;
    } else if (star != none) {
      p = star + 1;
      resume += character(text, resume);
      t = resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '%')
    ++p;
  return p == pattern.size();
}

bool is_terminal(v1::TaskStatus s) noexcept { return s == v1::DONE || s == v1::FAILED || s == v1::CANCELLED; }

bool is_live(const v1::Spawn& s) noexcept {
  return s.status() == v1::Spawn::REQUESTED || s.status() == v1::Spawn::STARTING || s.status() == v1::Spawn::RUNNING;
}

bool is_open(const v1::Prompt& p) noexcept { return p.state() == v1::Prompt::QUEUED || p.state() == v1::Prompt::SENDING; }

bool is_given(const v1::Prompt& p) noexcept { return p.state() == v1::Prompt::SENDING || p.state() == v1::Prompt::SUBMITTED; }

bool is_retired(const v1::Prompt& p) noexcept { return !is_open(p) && !is_given(p); }

std::string principal_key(const v1::Principal& p) {
  auto kind = [&] {
    switch (p.kind()) {
      case v1::Principal::OPERATOR: return "operator/";
      case v1::Principal::SESSION: return "session/";
      case v1::Principal::DEVICE: return "device/";
      case v1::Principal::GATEWAY: return "gateway/";
      case v1::Principal::NODE: return "node/";
      default: return "unknown/";
    }
  };
  return kind() + p.id();
}

// -- sessions ------------------------------------------------------------------------------------

std::string table<v1::Session>::key(const v1::Session& s) { return domain::key(s.id()); }

bool table<v1::Session>::matches(const session_filter& f, const v1::Session& s) {
  return is(f.scope, s.scope()) && is(f.node_id, s.node_id()) && (!f.adopted || *f.adopted == s.adopted()) &&
         (!f.due_at_ms || is_due(s, *f.due_at_ms)) && (f.other_identity.empty() || f.other_identity != s.identity()) &&
         (f.after_key.empty() || position(s) > f.after_key);
}

std::int64_t table<v1::Session>::due_at(const v1::Session& s) {
  // It lives through its last millisecond.
  if (s.presence() == v1::Session::HEARTBEAT)
    return s.heartbeat_ms() + limits::session_reclaim().count() + 1;
  return s.presence() == v1::Session::LEASE && s.lease_until_ms() > 0 ? s.lease_until_ms() + 1 : 0;
}

bool table<v1::Session>::before(const session_filter&, const v1::Session& a, const v1::Session& b) {
  return std::forward_as_tuple(a.registered_at_ms(), a.id()) < std::forward_as_tuple(b.registered_at_ms(), b.id());
}

std::string table<v1::Credential>::key(const v1::Credential& c) { return domain::key(c.token_hash()); }

bool table<v1::Credential>::matches(const credential_filter& f, const v1::Credential& c) { return is(f.session_id, c.session_id()); }

std::int64_t table<v1::Credential>::due_at(const v1::Credential&) { return 0; }

bool table<v1::Credential>::before(const credential_filter&, const v1::Credential& a, const v1::Credential& b) { return by_key(a, b); }

// -- tasks -----------------------------------------------------------------------------------------

std::string table<v1::Task>::key(const v1::Task& t) { return domain::key(t.id()); }

bool table<v1::Task>::matches(const task_filter& f, const v1::Task& t) {
  auto any = [](const auto& list, const auto& value) { return std::find(list.begin(), list.end(), value) != list.end(); };
  return is(f.scope, t.scope()) && (f.statuses.empty() || any(f.statuses, t.status())) && is(f.assignee, t.assignee()) &&
         is(f.requester, t.requester()) && (f.depends_on.empty() || any(t.depends_on(), f.depends_on)) &&
         is(f.idempotency_key, t.idempotency_key()) &&
         (f.idempotency_base.empty() || t.idempotency_key() == f.idempotency_base || starts(t.idempotency_key(), f.idempotency_base + ":")) &&
         starts(t.id(), f.id_prefix) && (!f.unassigned || *f.unassigned == t.assignee().empty()) &&
         (!f.updated_before_ms || t.updated_at_ms() < *f.updated_before_ms) && (!f.after || before(f, *f.after, t));
}

std::int64_t table<v1::Task>::due_at(const v1::Task&) { return 0; }

bool table<v1::Task>::before(const task_filter& f, const v1::Task& a, const v1::Task& b) {
  if (!f.by_creation && a.priority() != b.priority())
    return a.priority() > b.priority();
  return std::forward_as_tuple(a.created_at_ms(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.id());
}

// -- locks -----------------------------------------------------------------------------------------

std::string table<v1::Lock>::key(const v1::Lock& l) { return domain::key(l.scope(), l.path()); }

bool table<v1::Lock>::matches(const lock_filter& f, const v1::Lock& l) {
  return is(f.scope, l.scope()) && is(f.session_id, l.session_id()) && is(f.task_id, l.task_id()) && starts(l.path(), f.path_prefix) &&
         (!f.due_at_ms || is_due(l.deadline_ms(), *f.due_at_ms)) && (f.after_path.empty() || l.path() > f.after_path);
}

std::int64_t table<v1::Lock>::due_at(const v1::Lock& l) { return l.deadline_ms(); }

bool table<v1::Lock>::before(const lock_filter&, const v1::Lock& a, const v1::Lock& b) {
  return a.path() != b.path() ? a.path() < b.path() : by_key(a, b);
}

std::string table<v1::LockWaiter>::key(const v1::LockWaiter& w) { return domain::key(w.scope(), w.path(), w.seq()); }

bool table<v1::LockWaiter>::matches(const waiter_filter& f, const v1::LockWaiter& w) {
  return is(f.scope, w.scope()) && is(f.path, w.path()) && starts(w.path(), f.path_prefix) && is(f.session_id, w.session_id()) &&
         (!f.due_at_ms || is_due(w.deadline_ms(), *f.due_at_ms));
}

std::int64_t table<v1::LockWaiter>::due_at(const v1::LockWaiter& w) { return w.deadline_ms(); }

bool table<v1::LockWaiter>::before(const waiter_filter&, const v1::LockWaiter& a, const v1::LockWaiter& b) {
  return a.seq() != b.seq() ? a.seq() < b.seq() : by_key(a, b);
}

// -- messages --------------------------------------------------------------------------------------

std::string table<v1::Message>::key(const v1::Message& m) { return domain::key(m.scope(), m.id()); }

bool table<v1::Message>::matches(const message_filter& f, const v1::Message& m) {
  return is(f.scope, m.scope()) && is(f.recipient, m.recipient()) && is(f.sender, m.sender()) && (!f.read || *f.read == m.read()) &&
         starts(m.content(), f.content_prefix) && (!f.created_before_ms || m.created_at_ms() < *f.created_before_ms) &&
         (f.after_id == 0 || m.id() > f.after_id);
}

std::int64_t table<v1::Message>::due_at(const v1::Message&) { return 0; }

bool table<v1::Message>::before(const message_filter&, const v1::Message& a, const v1::Message& b) {
  return a.id() != b.id() ? a.id() < b.id() : by_key(a, b);
}

// -- key-value -------------------------------------------------------------------------------------

std::string table<v1::KvEntry>::key(const v1::KvEntry& e) { return domain::key(e.scope(), e.key()); }

bool table<v1::KvEntry>::matches(const kv_filter& f, const v1::KvEntry& e) {
  return is(f.scope, e.scope()) && (f.like_prefix.empty() || like(e.key(), f.like_prefix + '%')) && starts(e.key(), f.key_prefix) &&
         (!f.due_at_ms || is_due(e.expires_at_ms(), *f.due_at_ms)) && (!f.updated_before_ms || e.updated_at_ms() < *f.updated_before_ms) &&
         (f.after_key.empty() || e.key() > f.after_key);
}

std::int64_t table<v1::KvEntry>::due_at(const v1::KvEntry& e) { return e.expires_at_ms(); }

bool table<v1::KvEntry>::before(const kv_filter&, const v1::KvEntry& a, const v1::KvEntry& b) {
  return a.key() != b.key() ? a.key() < b.key() : by_key(a, b);
}

// -- spawns ----------------------------------------------------------------------------------------

std::string table<v1::Spawn>::key(const v1::Spawn& s) { return domain::key(s.id()); }

bool table<v1::Spawn>::matches(const spawn_filter& f, const v1::Spawn& s) {
  return is(f.scope, s.scope()) && is(f.role, s.role()) && is(f.key, s.key()) && is(f.task_id, s.task_id()) && is(f.session_id, s.session_id()) &&
         is(f.node_id, s.node_id()) && (!f.live || *f.live == is_live(s)) &&
         (!f.of_conversation || *f.of_conversation == !s.conversation_id().empty()) &&
         (!f.ended_before_ms || (s.ended_at_ms() != 0 && s.ended_at_ms() < *f.ended_before_ms)) && (f.after_id.empty() || position(s) > f.after_id);
}

std::int64_t table<v1::Spawn>::due_at(const v1::Spawn&) { return 0; }

bool table<v1::Spawn>::before(const spawn_filter&, const v1::Spawn& a, const v1::Spawn& b) {
  return std::forward_as_tuple(a.requested_at_ms(), a.id()) < std::forward_as_tuple(b.requested_at_ms(), b.id());
}

// -- subscriptions, approvals ----------------------------------------------------------------------

std::string table<v1::Subscription>::key(const v1::Subscription& s) { return domain::key(s.scope(), s.owner(), s.name()); }

bool table<v1::Subscription>::matches(const subscription_filter& f, const v1::Subscription& s) {
  return is(f.scope, s.scope()) && is(f.owner, s.owner()) && (!f.updated_before_ms || s.updated_at_ms() < *f.updated_before_ms);
}

std::int64_t table<v1::Subscription>::due_at(const v1::Subscription&) { return 0; }

bool table<v1::Subscription>::before(const subscription_filter&, const v1::Subscription& a, const v1::Subscription& b) {
  return a.name() != b.name() ? a.name() < b.name() : by_key(a, b);
}

std::string table<v1::Approval>::key(const v1::Approval& a) { return domain::key(a.id()); }

bool table<v1::Approval>::matches(const approval_filter& f, const v1::Approval& a) {
  return is(f.scope, a.scope()) && is(f.subject, a.subject()) && (!f.open || *f.open == (a.decided_at_ms() == 0)) &&
         is(f.asker, a.requested_by().id()) && is(f.request_key, a.request_key()) && is(f.conversation_id, a.conversation_id()) &&
         (!f.of_conversation || *f.of_conversation == !a.conversation_id().empty()) && (f.after_key.empty() || position(a) > f.after_key);
}

std::int64_t table<v1::Approval>::due_at(const v1::Approval& a) { return a.decided_at_ms() == 0 ? a.deadline_ms() : 0; }

bool table<v1::Approval>::before(const approval_filter&, const v1::Approval& a, const v1::Approval& b) {
  return std::forward_as_tuple(a.created_at_ms(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.id());
}

// -- conversations ---------------------------------------------------------------------------------

std::string table<v1::Conversation>::key(const v1::Conversation& c) { return domain::key(c.id()); }

bool table<v1::Conversation>::matches(const conversation_filter& f, const v1::Conversation& c) {
  return is(f.scope, c.scope()) && (!f.open || *f.open == (c.state() != v1::Conversation::ENDED)) &&
         (f.after_key.empty() || position(c) > f.after_key);
}

std::int64_t table<v1::Conversation>::due_at(const v1::Conversation& c) {
  if (c.state() == v1::Conversation::ENDED)
    return 0;
  const auto bypass = c.permissions() == v1::Conversation::AUTO ? c.permissions_end_ms() : 0;
  const auto background = c.background_until_ms();
  return bypass != 0 && background != 0 ? std::min(bypass, background) : std::max(bypass, background);
}

bool table<v1::Conversation>::before(const conversation_filter&, const v1::Conversation& a, const v1::Conversation& b) {
  return std::forward_as_tuple(a.created_at_ms(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.id());
}

std::string table<v1::Prompt>::key(const v1::Prompt& p) { return domain::key(p.id()); }

bool table<v1::Prompt>::matches(const prompt_filter& f, const v1::Prompt& p) {
  return is(f.scope, p.scope()) && is(f.conversation_id, p.conversation_id()) && (!f.open || *f.open == is_open(p)) &&
         (!f.retired || *f.retired == is_retired(p)) && (!f.retired_before_ms || (is_retired(p) && p.changed_at_ms() < *f.retired_before_ms)) &&
         (f.after_number == 0 || p.number() > f.after_number);
}

std::int64_t table<v1::Prompt>::due_at(const v1::Prompt&) { return 0; }

bool table<v1::Prompt>::before(const prompt_filter&, const v1::Prompt& a, const v1::Prompt& b) {
  return std::forward_as_tuple(a.number(), a.id()) < std::forward_as_tuple(b.number(), b.id());
}

std::string table<v1::UsageDay>::key(const v1::UsageDay& u) { return domain::key(u.conversation_id(), std::uint64_t{u.day()}); }

bool table<v1::UsageDay>::matches(const usage_day_filter& f, const v1::UsageDay& u) {
  return is(f.scope, u.scope()) && u.day() >= f.since_day && (!f.before_day || u.day() < *f.before_day) &&
         (f.after_key.empty() || key(u) > f.after_key);
}

std::int64_t table<v1::UsageDay>::due_at(const v1::UsageDay&) { return 0; }

bool table<v1::UsageDay>::before(const usage_day_filter&, const v1::UsageDay& a, const v1::UsageDay& b) { return by_key(a, b); }

// -- scope state -----------------------------------------------------------------------------------

std::string table<v1::ScopeState>::key(const v1::ScopeState& s) { return domain::key(s.scope()); }

bool table<v1::ScopeState>::matches(const scope_state_filter& f, const v1::ScopeState& s) {
  return f.after_scope.empty() || s.scope() > f.after_scope;
}

std::int64_t table<v1::ScopeState>::due_at(const v1::ScopeState& s) {
  return s.cascades().empty() && !s.lines_pending() ? 0 : 1; // at once
}

bool table<v1::ScopeState>::before(const scope_state_filter&, const v1::ScopeState& a, const v1::ScopeState& b) { return a.scope() < b.scope(); }

// -- all -------------------------------------------------------------------------------------------

std::int64_t due_at(const v1::RowPatch& p) {
  std::int64_t at_ms = 0;
  all_rows::each([&]<class Row>() {
    if (const auto* row = table<Row>::in(p))
      at_ms = table<Row>::due_at(*row);
  });
  return at_ms;
}

} // namespace swarm::domain
