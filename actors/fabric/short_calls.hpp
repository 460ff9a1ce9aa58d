// The door: runs the short calls of the services.
#pragma once

#include "actors/fabric/interfaces.hpp"

namespace swarm {

using door_ptr = door_actor::pointer;

/// A call that came in by a service. Only the door touches it once it has been sent there, and while the door lives; one that is
/// dropped before it has been answered answers UNAVAILABLE by itself.
class door_call {
public:
  virtual ~door_call() = default;
  /// Begins: asks others as `door`, and answers in a continuation.
  virtual void begin(door_ptr door) = 0;
  /// Ends it unanswered.
  virtual void abort() = 0;
};

door_actor::behavior_type door(door_ptr self);

} // namespace swarm
