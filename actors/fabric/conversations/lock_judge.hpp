// Whether a tool may write what peers hold. Its driver has said what it writes. Only locks' paths are looked at here, for symbolic links; a file
// system that hangs holds nobody else (hence detached).
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/interfaces.hpp"

namespace swarm {

lock_verdict_ptr judge_locks(const lock_case&);

struct lock_judge_state {
  static inline const char* name = "lock-judge";
};

lock_judge_actor::behavior_type lock_judge(lock_judge_actor::stateful_pointer<lock_judge_state> self);

} // namespace swarm
