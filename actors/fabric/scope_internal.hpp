// What the two files of the scope's actor share.
#pragma once

#include "actors/fabric/scope.hpp"

namespace swarm::scope_internal {

using self_ptr = scope_actor::stateful_pointer<scope_state>;

/// Logs that something the scope is about could not be read.
void not_read(self_ptr self, const char* what, const caf::error& e);

} // namespace swarm::scope_internal
