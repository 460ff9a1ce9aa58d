// One terminal: an offset log (ring while the program runs, segment files behind it), staged input, size.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/parked.hpp"

namespace swarm {

struct pty_state {
  static inline const char* name = "pty";

  struct reading {
    pty_read read;
    runtime::parked<pty_chunk_ptr> promise;
    caf::actor_addr who; // monitored while parked: one that has left makes room
  };

  node_environment_ptr node;
  processes_actor parent;
  pty_log_actor log;
  v1::PtyInfo info;
  std::shared_ptr<const ring_reader> ring; // until the program has ended and everything is in the files
  std::uint64_t spilled = 0;               // bytes handed to the log
  std::uint32_t attempt = 0;
  std::uint64_t taken_told = 0; // to the keeper: in the files up to here
  std::uint64_t on_the_way = 0; // of them: not yet dealt with by it, at most limits::pty_log_ahead_bytes_max and a chunk
  std::list<reading> readers;   // parked at the end
  struct typing {
    std::string request;
    bool ends_input = false;                             // of a program on pipes
    std::vector<runtime::parked<std::uint64_t>> callers; // a repeated request waits with the first
  };
  std::map<std::uint64_t, typing> inputs;                    // by ticket, waiting for the kernel
  std::deque<std::pair<std::string, std::uint64_t>> applied; // request ids of late and what was accepted
  std::optional<std::int64_t> person_typed_ms;
  pty_change change{.number = 1};
  struct watching {
    std::uint64_t seen;
    runtime::parked<pty_change_ptr> promise;
  };
  std::optional<watching> watcher; // the agent's actor
  caf::actor_addr agent;           // who says what the agent does
  bool input_closed = false;

  /// The pipes of a driver: what passes there is for its conversation's actor.
  bool is_private() const noexcept { return !log; }
};

/// `info` says what runs in it; without a log its output is for the node alone, and is gone when it was read. `child` is what the keeper has, without
/// a ring for a terminal whose program ended before this node started.
pty_actor::behavior_type pty(pty_actor::stateful_pointer<pty_state> self, node_environment_ptr node, processes_actor parent, pty_log_actor log,
                             v1::PtyInfo info, const child_info& child);

} // namespace swarm
