// A lock with a line: parks the callers whose places are rows.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"

namespace swarm {

struct lock_state {
  static inline const char* name = "lock";
  entity_place place;
  struct caller {
    execution_ptr what;
    runtime::parked<reply_ptr> promise;
  };
  /// Callers standing in line, by request; a retry of the same request stands beside the first.
  std::multimap<std::string, caller> waiting;
  /// Answers that arrived before the "you are waiting" they end; the two take different ways.
  std::deque<std::pair<std::string, reply_ptr>> early;
  /// Of these it is not known yet whether they have to wait.
  std::vector<execution_ptr> asking;
  struct grant {
    std::string request; // wait_key
    std::string session_id;
  };
  /// Grants for which nobody stood, by fence: given back after limits::restart_grace(), unless their request is repeated.
  std::map<std::uint64_t, grant> unheard;
};

lock_actor::behavior_type lock(lock_actor::stateful_pointer<lock_state> self, entity_place place);

} // namespace swarm
