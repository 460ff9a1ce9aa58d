// A session that lives with a process or a connection: notices its end and says so to the store.
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
  std::set<std::uint64_t> streams;
  std::uint64_t watch = 0; // number at the process watch, 0 = none
  std::uint64_t grace = 0; // generation of the grace timer
  bool ending = false;
  ~session_state();
};

/// `row` is the newest known; `restarted` gives a connection until the end of the restart grace to come back.
session_actor::behavior_type session(session_actor::stateful_pointer<session_state> self, entity_place place, v1::Session row, bool restarted);

} // namespace swarm
