// JSON as swarm-mcp replies with it, made from the v1 rows. The command line and the MCP server share it. Key order is swarm-mcp's;
// times are Unix seconds unless a comment says milliseconds; an empty text becomes null where swarm-mcp has null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;
using json = nlohmann::ordered_json;

/// Malformed UTF-8 becomes U+FFFD. `indent` below 0 gives the compact form.
std::string dump(const json&, int indent = 2);
/// The text, or null when it is empty.
json text_or_null(std::string_view);
/// Milliseconds to seconds; 0 becomes null.
json seconds_or_null(std::int64_t ms);
/// Milliseconds to seconds.
std::int64_t seconds(std::int64_t ms);

// -- sessions ----------------------------------------------------------------------------

/// Instance object: `adopted` is a boolean.
json instance(const v1::Session&);
/// Peer row: with registered_at and heartbeat, `adopted` is 0 or 1.
json peer(const v1::Session&);
/// A peer with where it can be seen, if it has said so: list_instances alone gives that.
json located_peer(const v1::Session&);
/// The keys workspace_backend, workspace_handle, handle_kind and pane_id of a session that has published them.
void add_located(json&, const v1::Session&);
/// The session's grants that hold at `now_ms`, and when they end, if it has any.
void add_grants(json&, const v1::Session&, std::int64_t now_ms);
/// A lock's row of where its owner can be seen.
json workspace(const v1::Workspace&);
/// The keys workspace_backend and workspace_handle, and pane_id where there is one.
void add_place(json&, const v1::Workspace&);

// -- messages ----------------------------------------------------------------------------

/// {id, sender, content, created_at}
json message(const v1::Message&);
/// Result of prompt_peer (as in swarm-mcp).
/// What the agent does now: working, idle, blocked, done or unknown.
const char* agent_status(const v1::Session&);
/// `nudge_error`: why somebody who should have been woken was not.
json prompt(const v1::PromptResult&, const std::string& nudge_error = {});

// -- tasks -------------------------------------------------------------------------------

/// Full row, all 25 columns; changed_at is in milliseconds.
json task(const v1::Task&);
/// The fields swarm_status shows of a task.
json task_summary(const v1::Task&);
/// Arrays by status plus terminal_counts. Without `terminal` the arrays done, failed and cancelled are absent.
json snapshot(const v1::Snapshot&, bool terminal = true);
/// request_task.
json task_requested(const v1::TasksCreated&);
/// request_task_batch.
json tasks_requested(const v1::TasksCreated&);
/// claim_next_task.
json claimed_next(const v1::TaskReply&);
/// update_task.
json task_updated(const v1::TaskReply&);
/// complete_task; `result` is the stored object.
json task_completed(const v1::TaskReply&);
/// report_progress.
json progress(const v1::TaskReply&);
/// approve_task.
json approved(const v1::TaskReply&);

// -- locks -------------------------------------------------------------------------------

/// LockRow, or {hidden, reason, file} across the identity boundary. `now_ms` gives the age of the owner's heartbeat.
json lock_row(const v1::LockView&, std::int64_t now_ms);
/// get_file_lock.
json file_lock(const v1::LockAnswer&, std::int64_t now_ms);
/// lock_file, granted or refused.
json lock_reply(const v1::Reply&, std::int64_t now_ms);

// -- key-value ---------------------------------------------------------------------------

/// {value, updated_at, owner_identity}
json kv_value(const v1::KvEntry&);
/// {key, updated_at}
json kv_row(const v1::KvEntry&);

// -- the rest ----------------------------------------------------------------------------

/// An event as `events --json` prints it; `at_ms` in milliseconds.
json event(const v1::Event&);
/// swarm_status.
json status(const v1::Status&);
/// wait_for_activity; parts without a change are absent.
json activity(const v1::Activity&);
/// A row of `pty list --json`.
json pty(const v1::PtyInfo&);
/// "running"
const char* spawn_status(v1::Spawn::Status) noexcept;
/// Payload of dispatch without its completion part.
json dispatch(const v1::DispatchReply&);
/// `at_ms`: when the sweep was decided; `scope` empty = all scopes.
json cleanup(const v1::SweepReport&, std::string_view scope, std::string_view mode, std::int64_t at_ms);
/// {error, …}: with the details of a batch, or the unread counts of a gated claim.
json error(const v1::Reply&);

} // namespace swarm::mcp
