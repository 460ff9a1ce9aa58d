// The store as the rest of the fabric sees it: one writer, several readers, and what they send.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/runtime/error.hpp"
#include "actors/runtime/messages.hpp"
#include "swarm/v1/command.pb.h"
#include "swarm/v1/query.pb.h"

namespace swarm {

/// One command with the identity of its request. The principal inside the command has been established by the service.
struct execution {
  v1::RequestId id;
  v1::Command command;
  bool valid = false; // domain::validate has passed it already, on the sender's thread instead of the writer's
  std::string digest; // domain::digest_of(command), if the sender has computed it
};

/// Everything one SQLite transaction made durable, in order; sent after COMMIT.
struct commit {
  std::vector<v1::Batch> batches;
};

/// Answers are durable in the commit log before readers can see their effects in the database. A reader that finds the barrier closed
/// asks the writer to catch up first. Closed until the writer has opened the store.
class read_barrier {
public:
  bool open() const noexcept { return readable_.load(std::memory_order_acquire) == answered_.load(std::memory_order_acquire); }
  void close() noexcept { answered_.fetch_add(1, std::memory_order_release); }
  void lift() noexcept { readable_.store(answered_.load(std::memory_order_relaxed), std::memory_order_release); }

private:
  std::atomic<std::uint64_t> answered_{1}, readable_{0};
};

/// Payloads are shared, immutable and never leave the process.
using execution_ptr = std::shared_ptr<const execution>;
using reply_ptr = std::shared_ptr<const v1::Reply>;
using query_ptr = std::shared_ptr<const v1::Query>;
using answer_ptr = std::shared_ptr<const v1::Answer>;
using commit_ptr = std::shared_ptr<const commit>;

/// What `status` says of the store.
struct store_status {
  std::uint64_t commits = 0;
  std::uint64_t commands = 0;
  std::uint32_t schema_version = 0;
  bool low_disk = false;      // below limits::disk_low_bytes()
  bool critical_disk = false; // below limits::disk_critical_bytes()
  std::string integrity;      // unchecked, checking, ok, or what is wrong
};
using store_status_ptr = std::shared_ptr<const store_status>;

/// Places in line for locks.
using lock_places_ptr = std::shared_ptr<const std::vector<v1::LockWaiter>>;

/// About conversations of whatever scope, by the names of their directories.
struct kept_question {
  std::vector<std::string> conversations;
  std::vector<std::string> with_blobs; // of those: whose blobs are to be named
};
using kept_question_ptr = std::shared_ptr<const kept_question>;
/// What the rows say of a conversation's files.
struct kept_conversation {
  std::uint64_t log_end = 0;
  std::set<std::string> blobs; // digests that its prompts and approvals name
};
/// Of those asked about that have a row.
using kept_conversations_ptr = std::shared_ptr<const std::map<std::string, kept_conversation>>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::execution_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::reply_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::query_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::answer_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::commit_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::store_status_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::lock_places_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::kept_question_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::kept_conversations_ptr)

CAF_BEGIN_TYPE_ID_BLOCK(swarm_store, caf::id_block::swarm_runtime::end)
  CAF_ADD_TYPE_ID(swarm_store, (swarm::execution_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::reply_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::query_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::answer_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::commit_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::store_status_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::lock_places_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::kept_question_ptr))
  CAF_ADD_TYPE_ID(swarm_store, (swarm::kept_conversations_ptr))
  CAF_ADD_ATOM(swarm_store, swarm, backup_atom, "backup")
  CAF_ADD_ATOM(swarm_store, swarm, catch_up_atom, "catch_up")
  CAF_ADD_ATOM(swarm_store, swarm, check_atom, "check")
  CAF_ADD_ATOM(swarm_store, swarm, flush_atom, "flush")
  CAF_ADD_ATOM(swarm_store, swarm, places_atom, "places")
  CAF_ADD_ATOM(swarm_store, swarm, status_atom, "status")
CAF_END_TYPE_ID_BLOCK(swarm_store)

namespace swarm {

/// Receives every commit, in commit order.
using commit_sink_actor = caf::typed_actor<caf::reacts_to<commit_ptr>>;

/// The only one that writes. Group commit: everything waiting in its mailbox joins one transaction.
using writer_actor = caf::typed_actor<
  // Decides one command. Errors: errc::unknown_outcome (repeat with the same id), errc::low_disk, errc::overloaded.
  caf::replies_to<execution_ptr>::with<reply_ptr>,
  // Executes what has been collected; the writer sends it to itself.
  caf::reacts_to<flush_atom>,
  // Commits to the database what is durable only in the commit log, for readers to see; true when done.
  caf::replies_to<catch_up_atom>::with<bool>,
  // The same, from its own timer.
  caf::reacts_to<tick_atom>,
  // Counters and health.
  caf::replies_to<status_atom>::with<store_status_ptr>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Answers queries from a snapshot of its own connection; several run side by side.
using reader_actor = caf::typed_actor<
  // Errors: errc::store_failed.
  caf::replies_to<query_ptr>::with<answer_ptr>,
  // Online backup into a file that must not exist (mode 0600); replies its size in bytes.
  caf::replies_to<backup_atom, std::string>::with<std::uint64_t>,
  // PRAGMA quick_check, or integrity_check when full; replies "ok" or what is wrong.
  caf::replies_to<check_atom, bool>::with<std::string>,
  // Who stands in line for a lock of this scope: at most limits::sweep_rows_max. Errors: errc::unavailable in a scope of another node.
  caf::replies_to<places_atom, std::string>::with<lock_places_ptr>,
  // What is known of these conversations here. Errors: errc::unavailable of another node.
  caf::replies_to<kept_question_ptr>::with<kept_conversations_ptr>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

} // namespace swarm
