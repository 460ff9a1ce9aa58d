// Entrance of the services: finds or wakes the scope of a call.
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/context.hpp"
#include "actors/runtime/directory.hpp"

namespace swarm {

struct front_state {
  static inline const char* name = "front";
  node_links links;
  runtime::directory<std::string, scope_actor> scopes;
  std::size_t next_reader = 0;
  std::vector<runtime::parked<bool>> waiting_for_boot;
  bool booted = false;
};

front_actor::behavior_type front(front_actor::stateful_pointer<front_state> self, node_links links);

} // namespace swarm
