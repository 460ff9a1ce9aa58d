// Which columns each row type has beside its key and body: the one place that names them for writing.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/domain/rows.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

/// Bytes of a message's text kept in a column for prefix filters.
inline constexpr std::size_t message_head_bytes = 192;

/// A priority as an ascending sort key; complement instead of negation, which would overflow at the lowest value.
constexpr std::int64_t rank_of(std::int64_t priority) noexcept { return ~priority; }

/// Index columns cannot hold all of uint64: what does not fit is a damaged row, not a wrapped number.
std::int64_t to_column(std::uint64_t n);

/// Takes a row's column values instead of a statement.
struct column_values {
  std::vector<sqlite::value> values;
  column_values& integer(std::int64_t v) { return add(v); }
  column_values& text(std::string_view v) { return add(std::string{v}); }
  column_values& bytes(std::string_view v) { return add(sqlite::blob{std::string{v}}); }
  column_values& null() { return add(std::monostate{}); }

private:
  column_values& add(sqlite::value v) {
    values.push_back(std::move(v));
    return *this;
  }
};

/// `columns<Row>`: the table's name, the columns between key and body, and their values in that order, for a cursor or
/// column_values.
template <class Row>
struct columns;

template <>
struct columns<v1::Session> {
  static constexpr const char* table = "sessions";
  static constexpr std::array names{"scope", "node_id", "adopted", "registered_ms", "beat_ms", "lease_ms", "identity"};
  template <class Sink>
  static void bind(Sink& c, const v1::Session& row);
};

template <>
struct columns<v1::Credential> {
  static constexpr const char* table = "credentials";
  static constexpr std::array names{"session_id"};
  template <class Sink>
  static void bind(Sink& c, const v1::Credential& row);
};

template <>
struct columns<v1::Task> {
  static constexpr const char* table = "tasks";
  static constexpr std::array names{"scope", "status", "rank", "created_ms", "updated_ms", "retired_ms", "assignee", "requester", "idempotency_key"};
  template <class Sink>
  static void bind(Sink& c, const v1::Task& row);
};

template <>
struct columns<v1::Lock> {
  static constexpr const char* table = "locks";
  static constexpr std::array names{"scope", "path", "session_id", "task_id", "deadline_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::Lock& row);
};

template <>
struct columns<v1::LockWaiter> {
  static constexpr const char* table = "lock_waiters";
  static constexpr std::array names{"scope", "path", "seq", "session_id", "deadline_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::LockWaiter& row);
};

template <>
struct columns<v1::Message> {
  static constexpr const char* table = "messages";
  static constexpr std::array names{"scope", "id", "recipient", "sender", "read", "created_ms", "head"};
  template <class Sink>
  static void bind(Sink& c, const v1::Message& row);
};

template <>
struct columns<v1::KvEntry> {
  static constexpr const char* table = "kv";
  static constexpr std::array names{"scope", "name", "updated_ms", "expires_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::KvEntry& row);
};

template <>
struct columns<v1::Spawn> {
  static constexpr const char* table = "spawns";
  static constexpr std::array names{"scope", "role", "name", "task_id", "session_id", "node_id", "live", "requested_ms", "ended_ms", "conversation"};
  template <class Sink>
  static void bind(Sink& c, const v1::Spawn& row);
};

template <>
struct columns<v1::Subscription> {
  static constexpr const char* table = "subscriptions";
  static constexpr std::array names{"scope", "owner", "name", "updated_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::Subscription& row);
};

template <>
struct columns<v1::Approval> {
  static constexpr const char* table = "approvals";
  static constexpr std::array names{"scope", "subject", "open", "created_ms", "asker", "request_key", "conversation"};
  template <class Sink>
  static void bind(Sink& c, const v1::Approval& row);
};

template <>
struct columns<v1::Conversation> {
  static constexpr const char* table = "conversations";
  static constexpr std::array names{"scope", "open", "created_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::Conversation& row);
};

template <>
struct columns<v1::Prompt> {
  static constexpr const char* table = "prompts";
  static constexpr std::array names{"scope", "conversation", "number", "open", "retired_ms"};
  template <class Sink>
  static void bind(Sink& c, const v1::Prompt& row);
};

template <>
struct columns<v1::UsageDay> {
  static constexpr const char* table = "usage_days";
  static constexpr std::array names{"scope", "day"};
  template <class Sink>
  static void bind(Sink& c, const v1::UsageDay& row);
};

template <>
struct columns<v1::ScopeState> {
  static constexpr const char* table = "scope_states";
  static constexpr std::array<const char*, 0> names{};
  template <class Sink>
  static void bind(Sink& c, const v1::ScopeState& row);
};

/// Zero means "not set" in the rows; NULL keeps such rows out of the partial indexes.
template <class Sink>
void bind_time(Sink& c, std::int64_t ms) {
  if (ms != 0)
    c.integer(ms);
  else
    c.null();
}

template <class Sink>
void bind_if(Sink& c, bool present, std::int64_t v) {
  if (present)
    c.integer(v);
  else
    c.null();
}

template <class Sink>
void columns<v1::Session>::bind(Sink& c, const v1::Session& row) {
  c.text(row.scope()).text(row.node_id()).integer(row.adopted()).integer(row.registered_at_ms());
  bind_if(c, row.presence() == v1::Session::HEARTBEAT, row.heartbeat_ms());
  bind_if(c, row.presence() == v1::Session::LEASE && row.lease_until_ms() > 0, row.lease_until_ms());
  c.text(row.identity());
}

template <class Sink>
void columns<v1::Credential>::bind(Sink& c, const v1::Credential& row) {
  c.text(row.session_id());
}

template <class Sink>
void columns<v1::Task>::bind(Sink& c, const v1::Task& row) {
  c.text(row.scope()).integer(row.status()).integer(rank_of(row.priority())).integer(row.created_at_ms()).integer(row.updated_at_ms());
  bind_if(c, domain::is_terminal(row.status()), row.updated_at_ms());
  c.text(row.assignee()).text(row.requester()).text(row.idempotency_key());
}

template <class Sink>
void columns<v1::Lock>::bind(Sink& c, const v1::Lock& row) {
  c.text(row.scope()).text(row.path()).text(row.session_id()).text(row.task_id());
  bind_time(c, row.deadline_ms());
}

template <class Sink>
void columns<v1::LockWaiter>::bind(Sink& c, const v1::LockWaiter& row) {
  c.text(row.scope()).text(row.path()).integer(to_column(row.seq())).text(row.session_id()).integer(row.deadline_ms());
}

template <class Sink>
void columns<v1::Message>::bind(Sink& c, const v1::Message& row) {
  c.text(row.scope()).integer(to_column(row.id())).text(row.recipient()).text(row.sender()).integer(row.read());
  c.integer(row.created_at_ms()).bytes(std::string_view{row.content()}.substr(0, message_head_bytes));
}

template <class Sink>
void columns<v1::KvEntry>::bind(Sink& c, const v1::KvEntry& row) {
  c.text(row.scope()).text(row.key()).integer(row.updated_at_ms());
  bind_time(c, row.expires_at_ms());
}

template <class Sink>
void columns<v1::Spawn>::bind(Sink& c, const v1::Spawn& row) {
  c.text(row.scope()).text(row.role()).text(row.key()).text(row.task_id()).text(row.session_id()).text(row.node_id());
  c.integer(domain::is_live(row)).integer(row.requested_at_ms()).integer(row.ended_at_ms()).text(row.conversation_id());
}

template <class Sink>
void columns<v1::Subscription>::bind(Sink& c, const v1::Subscription& row) {
  c.text(row.scope()).text(row.owner()).text(row.name()).integer(row.updated_at_ms());
}

template <class Sink>
void columns<v1::Approval>::bind(Sink& c, const v1::Approval& row) {
  c.text(row.scope()).text(row.subject()).integer(row.decided_at_ms() == 0).integer(row.created_at_ms());
  c.text(row.requested_by().id()).text(row.request_key()).text(row.conversation_id());
}

template <class Sink>
void columns<v1::Conversation>::bind(Sink& c, const v1::Conversation& row) {
  c.text(row.scope()).integer(row.state() != v1::Conversation::ENDED).integer(row.created_at_ms());
}

template <class Sink>
void columns<v1::Prompt>::bind(Sink& c, const v1::Prompt& row) {
  c.text(row.scope()).text(row.conversation_id()).integer(to_column(row.number())).integer(domain::is_open(row));
  bind_if(c, domain::is_retired(row), row.changed_at_ms());
}

template <class Sink>
void columns<v1::UsageDay>::bind(Sink& c, const v1::UsageDay& row) {
  c.text(row.scope()).integer(row.day());
}

template <class Sink>
void columns<v1::ScopeState>::bind(Sink&, const v1::ScopeState&) {}

} // namespace swarm
