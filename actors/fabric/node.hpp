// The supervised tree of a node, and the doors' way into it.
#pragma once

#include <mutex>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/fabric/context.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/store/reader.hpp"
#include "actors/store/writer.hpp"

namespace swarm {

/// Handles the services may use; null while the part is being restarted (answer UNAVAILABLE, the caller repeats).
struct node_entrances {
  front_actor front;
  watch_hub_actor watch;
  processes_actor processes;
  writer_actor writer;
  door_actor door;
  reader_actor maintenance; // for backups and checks, which take long
};

/// Thread-safe box the supervisor's factories write and the services read.
class entrance_board {
public:
  node_entrances get() const {
    std::lock_guard guard{mutex_};
    return now_;
  }
  template <class Change>
  void update(Change change) {
    std::lock_guard guard{mutex_};
    change(now_);
  }

private:
  mutable std::mutex mutex_;
  node_entrances now_;
};

struct node_options {
  node_context_ptr context;
  ledger_options ledger;
  std::size_t readers = 2;
  /// Readers and the log of terminals get threads of their own; tests on the deterministic scheduler say false.
  bool detached = true;
  runtime::supervisor_options supervision;
};

/// Spawns the tree node(rest_for_one)[watch, writer, readers, pty-log, processes, front, door]. The board outlives it.
runtime::supervisor_actor start_node(caf::actor_system& sys, node_options options, std::shared_ptr<entrance_board> board);

} // namespace swarm
