// The other nodes of the cluster: who they are, and the actor that keeps the link to each.
#pragma once

#include <map>
#include <set>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/log_limiter.hpp"
#include "actors/runtime/restarts.hpp"

namespace swarm {

struct federation_state {
  static inline const char* name = "federation";

  struct member {
    link_actor who; // null while it is down
    v1::NodeAddress address;
    bool revoked = false;
    std::int64_t since_ms = 0;
    bool was_up = false;      // when it was looked at last
    std::int64_t lost_ms = 0; // boot time at which its link was first seen to be gone; 0: it has not been
    runtime::restart_record failures;
  };

  node_environment_ptr node;
  watch_hub_actor watch;
  processes_actor processes;
  front_actor front;
  std::map<std::string, member> members;   // by node id
  runtime::deadline_heap<std::string> due; // those to be started again
  runtime::single_timer timer;
  runtime::log_limiter refused; // connections of who is no node that this one is linked to
  bool asking = false;          // the linked nodes are asked for their state
  bool changed = false;         // and have news since
  ~federation_state();
};

federation_actor::behavior_type federation(federation_actor::stateful_pointer<federation_state> self, node_environment_ptr node,
                                           watch_hub_actor watch, processes_actor processes);

} // namespace swarm
