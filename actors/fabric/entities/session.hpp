// Watches the process or the connection that a session lives by, and expires the session when that ends.
#pragma once

#include <set>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"

namespace swarm {

struct session_state {
  static inline const char* name = "session";
  entity_place place;
  v1::Session row;
  std::set<std::uint64_t> streams; // presence streams that are attached
  std::uint64_t watch = 0;         // registration at the process watch, 0 = none
  std::uint64_t grace = 0;         // generation of the grace timer
  bool ending = false;             // the command that expires it is under way
  ~session_state();
};

/// `row` is the newest known. `restarted`: the node has just started, so a session that lives by a connection gets the restart grace to reconnect.
session_actor::behavior_type session(session_actor::stateful_pointer<session_state> self, entity_place place, v1::Session row, bool restarted);

} // namespace swarm
