// The supervised tree of a node, and where its services enter it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <caf/actor_system.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/store/reader.hpp"
#include "actors/store/writer.hpp"

namespace swarm {

/// Handles the services may use; null while the part is being restarted (answer UNAVAILABLE, the caller repeats).
struct node_entries {
  front_actor front;
  watch_hub_actor watch;
  processes_actor processes;
  conversation_logs_actor conversation_logs;
  conversation_blobs_actor conversation_blobs;
  federation_actor federation;
  writer_actor writer;
  short_calls_actor short_calls;
  reader_actor maintenance; // for backups and checks, which take long
};

/// What the services see of the registry that the supervisor keeps. Thread-safe.
class entry_actors {
public:
  node_entries get() const;
  /// Blocks until there is a front other than this one (null: any); null at the deadline. Not for actors.
  front_actor wait_for_front(const front_actor& other_than, std::chrono::steady_clock::time_point deadline) const;
  /// The actor system can only end when nobody holds its actors.
  void clear() { names_->clear(); }
  const std::shared_ptr<runtime::registry>& names() const { return names_; }

private:
  std::shared_ptr<runtime::registry> names_ = std::make_shared<runtime::registry>();
};

struct node_options {
  node_environment_ptr environment;
  ledger_options ledger;
  std::size_t readers = 2;
  /// Readers and the logs get threads of their own; tests on the deterministic scheduler say false.
  bool detached = true;
  /// Of locks' files; null = as usual.
  std::function<lock_looker_actor()> make_lock_looker;
  runtime::supervisor_options supervision;
};

/// Spawns the tree node(rest_for_one)[watch, writer, readers, pty-log, conversation-logs, conversation-blobs, processes, federation, front,
/// short-calls]. The board outlives it.
runtime::supervisor_actor start_node(caf::actor_system& sys, node_options options, std::shared_ptr<entry_actors> board);

} // namespace swarm
