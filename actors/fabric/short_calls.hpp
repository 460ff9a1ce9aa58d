// The actor that runs the short calls of the services.
#pragma once

#include "actors/fabric/interfaces.hpp"

namespace swarm {

using short_calls_ptr = short_calls_actor::pointer;

/// A call that came in through a service. Once it has been sent, only the actor `short_calls` touches it, as long as that actor lives. A call that
/// is dropped unanswered answers UNAVAILABLE by itself.
class any_short_call {
public:
  virtual ~any_short_call() = default;
  /// Begins: sends its requests in the name of `short_calls`, and answers in a continuation.
  virtual void begin(short_calls_ptr short_calls) = 0;
  /// Ends it unanswered.
  virtual void abort() = 0;
};

short_calls_actor::behavior_type short_calls(short_calls_ptr self);

} // namespace swarm
