// What the two files of a link's actor share.
#pragma once

#include "actors/fabric/cluster/link.hpp"

namespace swarm::link_internal {

using self_ptr = link_actor::stateful_pointer<link_state>;

/// Sends what the link has to send, and does what it wants.
void pump(self_ptr self);

} // namespace swarm::link_internal
