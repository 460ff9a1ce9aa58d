// Which columns each row type has beside its key and body: the one place that names them for writing.
#pragma once

#include <array>
#include <string>

#include "actors/base/limits.hpp"
#include "actors/domain/rows.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

/// Bytes of a message's text kept in a column for prefix filters.
inline constexpr std::size_t message_head_bytes = 192;

/// A priority as an ascending sort key; complement instead of negation, which would overflow at the lowest value.
constexpr std::int64_t rank_of(std::int64_t priority) noexcept { return ~priority; }

inline bool is_live(const v1::Spawn& row) noexcept {
  return row.status() == v1::Spawn::REQUESTED || row.status() == v1::Spawn::STARTING || row.status() == v1::Spawn::RUNNING;
}

/// Index columns cannot hold all of uint64: what does not fit is a damaged row, not a wrapped number.
std::int64_t to_column(std::uint64_t n);

/// `columns<Row>`: the table's name, the columns between key and body, and their values in that order.
template <class Row>
struct columns;

template <>
struct columns<v1::Session> {
  static constexpr const char* table = "sessions";
  static constexpr std::array names{"scope", "node_id", "adopted", "registered_ms", "beat_ms", "lease_ms", "identity"};
  static void bind(sqlite::cursor& c, const v1::Session& row);
};

template <>
struct columns<v1::Credential> {
  static constexpr const char* table = "credentials";
  static constexpr std::array names{"session_id"};
  static void bind(sqlite::cursor& c, const v1::Credential& row);
};

template <>
struct columns<v1::Task> {
  static constexpr const char* table = "tasks";
  static constexpr std::array names{"scope", "status", "rank", "created_ms", "updated_ms", "retired_ms", "assignee", "requester", "idempotency_key"};
  static void bind(sqlite::cursor& c, const v1::Task& row);
};

template <>
struct columns<v1::Lock> {
  static constexpr const char* table = "locks";
  static constexpr std::array names{"scope", "path", "session_id", "task_id", "deadline_ms"};
  static void bind(sqlite::cursor& c, const v1::Lock& row);
};

template <>
struct columns<v1::LockWaiter> {
  static constexpr const char* table = "lock_waiters";
  static constexpr std::array names{"scope", "path", "seq", "session_id", "deadline_ms"};
  static void bind(sqlite::cursor& c, const v1::LockWaiter& row);
};

template <>
struct columns<v1::Message> {
  static constexpr const char* table = "messages";
  static constexpr std::array names{"scope", "id", "recipient", "sender", "read", "created_ms", "head"};
  static void bind(sqlite::cursor& c, const v1::Message& row);
};

template <>
struct columns<v1::KvEntry> {
  static constexpr const char* table = "kv";
  static constexpr std::array names{"scope", "name", "updated_ms", "expires_ms"};
  static void bind(sqlite::cursor& c, const v1::KvEntry& row);
};

template <>
struct columns<v1::Spawn> {
  static constexpr const char* table = "spawns";
  static constexpr std::array names{"scope", "role", "name", "task_id", "session_id", "node_id", "live", "requested_ms", "ended_ms"};
  static void bind(sqlite::cursor& c, const v1::Spawn& row);
};

template <>
struct columns<v1::Subscription> {
  static constexpr const char* table = "subscriptions";
  static constexpr std::array names{"scope", "owner", "name", "updated_ms"};
  static void bind(sqlite::cursor& c, const v1::Subscription& row);
};

template <>
struct columns<v1::Approval> {
  static constexpr const char* table = "approvals";
  static constexpr std::array names{"scope", "subject", "open", "created_ms"};
  static void bind(sqlite::cursor& c, const v1::Approval& row);
};

template <>
struct columns<v1::ScopeState> {
  static constexpr const char* table = "scope_states";
  static constexpr std::array<const char*, 0> names{};
  static void bind(sqlite::cursor& c, const v1::ScopeState& row);
};

} // namespace swarm
