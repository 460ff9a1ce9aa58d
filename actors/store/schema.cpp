#include "actors/store/schema.hpp"

#include <array>

namespace swarm {

namespace {

// One table per row type: its key as domain::key encodes it, the columns its filter needs, the row itself as protobuf. Tables
// of small rows are WITHOUT ROWID (one page fewer per write); tasks, messages and kv hold bodies too big for that.
constexpr const char* version_1 = R"sql(
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE sessions(key BLOB PRIMARY KEY, scope TEXT NOT NULL, node_id TEXT NOT NULL, adopted INTEGER NOT NULL,
  registered_ms INTEGER NOT NULL, beat_ms INTEGER, lease_ms INTEGER, identity TEXT NOT NULL, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_scope ON sessions(scope, registered_ms, key);
CREATE INDEX sessions_by_beat ON sessions(beat_ms) WHERE beat_ms IS NOT NULL;
CREATE INDEX sessions_by_lease ON sessions(lease_ms) WHERE lease_ms IS NOT NULL;

CREATE TABLE credentials(key BLOB PRIMARY KEY, session_id TEXT NOT NULL, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX credentials_by_session ON credentials(session_id);

CREATE TABLE tasks(n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, scope TEXT NOT NULL, status INTEGER NOT NULL, rank INTEGER NOT NULL,
  created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, retired_ms INTEGER, assignee TEXT NOT NULL, requester TEXT NOT NULL,
  idempotency_key TEXT NOT NULL, body BLOB NOT NULL) STRICT;
CREATE INDEX tasks_by_status ON tasks(scope, status, rank, created_ms, key);
CREATE INDEX tasks_by_rank ON tasks(scope, rank, created_ms, key);
CREATE INDEX tasks_by_creation ON tasks(scope, created_ms, key);
CREATE INDEX tasks_by_requester ON tasks(scope, requester, status);
CREATE INDEX tasks_by_assignee ON tasks(scope, assignee, status) WHERE assignee <> '';
CREATE INDEX tasks_by_retirement ON tasks(scope, retired_ms) WHERE retired_ms IS NOT NULL;
CREATE UNIQUE INDEX tasks_by_idempotency ON tasks(scope, idempotency_key) WHERE idempotency_key <> '';
CREATE TABLE task_dependencies(dependency TEXT NOT NULL, task BLOB NOT NULL, PRIMARY KEY(dependency, task)) STRICT, WITHOUT ROWID;
CREATE INDEX task_dependencies_by_task ON task_dependencies(task);

CREATE TABLE locks(key BLOB PRIMARY KEY, scope TEXT NOT NULL, path TEXT NOT NULL, session_id TEXT NOT NULL, task_id TEXT NOT NULL,
  deadline_ms INTEGER, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX locks_by_session ON locks(session_id);
CREATE INDEX locks_by_task ON locks(task_id) WHERE task_id <> '';
CREATE INDEX locks_by_deadline ON locks(scope, deadline_ms) WHERE deadline_ms IS NOT NULL;

CREATE TABLE lock_waiters(key BLOB PRIMARY KEY, scope TEXT NOT NULL, path TEXT NOT NULL, seq INTEGER NOT NULL, session_id TEXT NOT NULL,
  deadline_ms INTEGER NOT NULL, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX lock_waiters_by_session ON lock_waiters(session_id);
CREATE INDEX lock_waiters_by_deadline ON lock_waiters(scope, deadline_ms);

CREATE TABLE messages(n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, scope TEXT NOT NULL, id INTEGER NOT NULL, recipient TEXT NOT NULL,
  sender TEXT NOT NULL, read INTEGER NOT NULL, created_ms INTEGER NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL) STRICT;
CREATE INDEX messages_by_recipient ON messages(scope, recipient, read, id);
CREATE INDEX messages_by_age ON messages(scope, created_ms);

CREATE TABLE kv(n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, scope TEXT NOT NULL, name TEXT NOT NULL, updated_ms INTEGER NOT NULL,
  expires_ms INTEGER, body BLOB NOT NULL) STRICT;
CREATE INDEX kv_by_expiry ON kv(scope, expires_ms) WHERE expires_ms IS NOT NULL;

CREATE TABLE spawns(key BLOB PRIMARY KEY, scope TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, task_id TEXT NOT NULL,
  session_id TEXT NOT NULL, node_id TEXT NOT NULL, live INTEGER NOT NULL, requested_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
  body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX spawns_by_scope ON spawns(scope, requested_ms, key);
CREATE INDEX spawns_by_name ON spawns(scope, role, name);
CREATE INDEX spawns_by_task ON spawns(task_id) WHERE task_id <> '';
CREATE INDEX spawns_by_session ON spawns(session_id) WHERE session_id <> '';
CREATE INDEX spawns_live ON spawns(requested_ms, key) WHERE live = 1;

CREATE TABLE subscriptions(key BLOB PRIMARY KEY, scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, updated_ms INTEGER NOT NULL,
  body BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE approvals(key BLOB PRIMARY KEY, scope TEXT NOT NULL, subject TEXT NOT NULL, open INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_scope ON approvals(scope, open, created_ms, key);

CREATE TABLE scope_states(key BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE events(scope TEXT NOT NULL, revision INTEGER NOT NULL, at_ms INTEGER NOT NULL, type TEXT NOT NULL, subject TEXT NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY(scope, revision)) STRICT, WITHOUT ROWID;

-- n counts up, so the oldest replies are the lowest n.
CREATE TABLE replies(n INTEGER PRIMARY KEY, principal TEXT NOT NULL, client TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL,
  reply BLOB NOT NULL, pending INTEGER NOT NULL, at_ms INTEGER NOT NULL, UNIQUE(principal, client, seq)) STRICT;
CREATE TABLE watermarks(principal TEXT NOT NULL, client TEXT NOT NULL, below INTEGER NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(principal, client)) STRICT, WITHOUT ROWID;
CREATE INDEX watermarks_by_age ON watermarks(at_ms);
)sql";

// Every lock asks whether a session of another identity is near.
constexpr const char* version_2 = "CREATE INDEX sessions_by_identity ON sessions(scope, identity)";

// What is answered stands in a commit log first. A program that does not read it must not open the store after a crash.
constexpr const char* version_3 = "INSERT OR REPLACE INTO facts(name, value) VALUES('commit_log', '')";

// What one asker has open, and what it asks for again.
constexpr const char* version_4 = R"sql(
ALTER TABLE approvals ADD COLUMN asker TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN request_key TEXT NOT NULL DEFAULT '';
CREATE INDEX approvals_by_asker ON approvals(scope, asker, open, created_ms, key);
)sql";

// Conversations with agents, what was said to them and what they have cost.
constexpr const char* version_5 = R"sql(
CREATE TABLE conversations(key BLOB PRIMARY KEY, scope TEXT NOT NULL, open INTEGER NOT NULL, created_ms INTEGER NOT NULL, body BLOB NOT NULL)
  STRICT, WITHOUT ROWID;
CREATE INDEX conversations_by_scope ON conversations(scope, created_ms, key);

CREATE TABLE prompts(n INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, scope TEXT NOT NULL, conversation TEXT NOT NULL, number INTEGER NOT NULL,
  open INTEGER NOT NULL, retired_ms INTEGER, body BLOB NOT NULL) STRICT;
CREATE INDEX prompts_by_conversation ON prompts(conversation, number, key);
CREATE INDEX prompts_underway ON prompts(conversation, number, key) WHERE retired_ms IS NULL;
CREATE INDEX prompts_by_retirement ON prompts(scope, retired_ms) WHERE retired_ms IS NOT NULL;

CREATE TABLE usage_days(key BLOB PRIMARY KEY, scope TEXT NOT NULL, day INTEGER NOT NULL, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX usage_days_by_scope ON usage_days(scope, key);
CREATE INDEX usage_days_by_day ON usage_days(scope, day);

ALTER TABLE spawns ADD COLUMN conversation TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN conversation TEXT NOT NULL DEFAULT '';
CREATE INDEX approvals_by_conversation ON approvals(conversation, open, created_ms, key) WHERE conversation <> '';
)sql";

constexpr std::array<const char*, 5> steps{version_1, version_2, version_3, version_4, version_5};

} // namespace

std::span<const char* const> migrations() { return steps; }

std::uint32_t schema_version() { return static_cast<std::uint32_t>(steps.size()); }

std::uint32_t stored_schema_version(sqlite::connection& db) { return static_cast<std::uint32_t>(db.number("PRAGMA user_version")); }

namespace {

void refuse_newer(std::uint32_t stored, std::size_t known) {
  if (stored > known)
    throw store_error{errc::newer_schema, "the store has schema version " + std::to_string(stored) + ", this program knows versions up to " +
                                            std::to_string(known) + "; start the newer program again, or restore a backup made before the upgrade"};
}

void step_to(sqlite::connection& db, std::size_t version, const char* sql) {
  db.run("BEGIN IMMEDIATE");
  try {
    db.run(sql);
    db.run(("PRAGMA user_version=" + std::to_string(version)).c_str());
    db.run("COMMIT");
  } catch (...) {
    if (db.in_transaction())
      db.run("ROLLBACK");
    throw;
  }
}

} // namespace

void migrate(sqlite::connection& db, std::span<const char* const> wanted) {
  auto stored = stored_schema_version(db);
  refuse_newer(stored, wanted.size());
  for (auto version = stored + std::size_t{1}; version <= wanted.size(); ++version)
    step_to(db, version, wanted[version - 1]);
}

void require_schema(sqlite::connection& db) {
  auto stored = stored_schema_version(db);
  refuse_newer(stored, steps.size());
  if (stored < schema_version())
    throw store_error{errc::store_failed, "the store has schema version " + std::to_string(stored) + " and has not been migrated to " +
                                            std::to_string(schema_version()) + " yet; the writer does that when it starts"};
}

std::string fact(sqlite::connection& db, const std::string& name) {
  auto row = db.prepared("SELECT value FROM facts WHERE name=?1").use();
  row.text(name);
  return row.step() ? std::string{row.view_at(0)} : std::string{};
}

void set_fact(sqlite::connection& db, const std::string& name, const std::string& value) {
  db.prepared("INSERT INTO facts(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value=excluded.value")
    .use()
    .text(name)
    .text(value)
    .run();
}

} // namespace swarm
