// Whether a tool may write what peers hold. It follows symbolic links, and a file system that hangs holds nobody else (hence detached).
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/interfaces.hpp"

namespace swarm {

struct lock_judge_state {
  static inline const char* name = "lock-judge";
};

lock_judge_actor::behavior_type lock_judge(lock_judge_actor::stateful_pointer<lock_judge_state> self);

} // namespace swarm
