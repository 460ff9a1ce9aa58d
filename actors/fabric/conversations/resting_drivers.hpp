// The drivers of this node whose agent has ended. Each holds its caller's environment, and some memory.
#pragma once

#include <list>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/interfaces.hpp"

namespace swarm {

struct resting_drivers_state {
  static inline const char* name = "resting-drivers";
  std::list<conversation_actor> resting; // the longest first
};

resting_drivers_actor::behavior_type resting_drivers(resting_drivers_actor::stateful_pointer<resting_drivers_state> self);

} // namespace swarm
