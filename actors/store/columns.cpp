#include "actors/store/columns.hpp"

#include <limits>

#include <sqlite3.h>

namespace swarm {

namespace {

/// Zero means "not set" in the rows; NULL keeps such rows out of the partial indexes.
void bind_time(sqlite::cursor& c, std::int64_t ms) {
  if (ms != 0)
    c.integer(ms);
  else
    c.null();
}

void bind_if(sqlite::cursor& c, bool present, std::int64_t v) {
  if (present)
    c.integer(v);
  else
    c.null();
}

} // namespace

std::int64_t to_column(std::uint64_t n) {
  if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw sqlite::error{SQLITE_RANGE, "a number is too big for the store: " + std::to_string(n)};
  return static_cast<std::int64_t>(n);
}

void columns<v1::Session>::bind(sqlite::cursor& c, const v1::Session& row) {
  c.text(row.scope()).text(row.node_id()).integer(row.adopted()).integer(row.registered_at_ms());
  bind_if(c, row.presence() == v1::Session::HEARTBEAT, row.heartbeat_ms());
  bind_if(c, row.presence() == v1::Session::LEASE && row.lease_until_ms() > 0, row.lease_until_ms());
  c.text(row.identity());
}

void columns<v1::Credential>::bind(sqlite::cursor& c, const v1::Credential& row) { c.text(row.session_id()); }

void columns<v1::Task>::bind(sqlite::cursor& c, const v1::Task& row) {
  c.text(row.scope()).integer(row.status()).integer(rank_of(row.priority())).integer(row.created_at_ms()).integer(row.updated_at_ms());
  bind_if(c, domain::is_terminal(row.status()), row.updated_at_ms());
  c.text(row.assignee()).text(row.requester()).text(row.idempotency_key());
}

void columns<v1::Lock>::bind(sqlite::cursor& c, const v1::Lock& row) {
  c.text(row.scope()).text(row.path()).text(row.session_id()).text(row.task_id());
  bind_time(c, row.deadline_ms());
}

void columns<v1::LockWaiter>::bind(sqlite::cursor& c, const v1::LockWaiter& row) {
  c.text(row.scope()).text(row.path()).integer(to_column(row.seq())).text(row.session_id()).integer(row.deadline_ms());
}

void columns<v1::Message>::bind(sqlite::cursor& c, const v1::Message& row) {
  c.text(row.scope()).integer(to_column(row.id())).text(row.recipient()).text(row.sender()).integer(row.read());
  c.integer(row.created_at_ms()).bytes(std::string_view{row.content()}.substr(0, message_head_bytes));
}

void columns<v1::KvEntry>::bind(sqlite::cursor& c, const v1::KvEntry& row) {
  c.text(row.scope()).text(row.key()).integer(row.updated_at_ms());
  bind_time(c, row.expires_at_ms());
}

void columns<v1::Spawn>::bind(sqlite::cursor& c, const v1::Spawn& row) {
  c.text(row.scope()).text(row.role()).text(row.key()).text(row.task_id()).text(row.session_id()).text(row.node_id());
  c.integer(is_live(row)).integer(row.requested_at_ms()).integer(row.ended_at_ms());
}

void columns<v1::Subscription>::bind(sqlite::cursor& c, const v1::Subscription& row) {
  c.text(row.scope()).text(row.owner()).text(row.name()).integer(row.updated_at_ms());
}

void columns<v1::Approval>::bind(sqlite::cursor& c, const v1::Approval& row) {
  c.text(row.scope()).text(row.subject()).integer(row.decided_at_ms() == 0).integer(row.created_at_ms());
}

void columns<v1::ScopeState>::bind(sqlite::cursor&, const v1::ScopeState&) {}

} // namespace swarm
