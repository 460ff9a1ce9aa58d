// A home that is not reached: what becomes of what is asked of it meanwhile, and what is said of it.
#pragma once

#include <optional>

#include "actors/fabric/cluster/link_internal.hpp"

namespace swarm::link_away {

using link_internal::self_ptr;

/// A client, and nobody else, is better served by an answer at once. What this node does and looks up for itself waits: not to know is no "no".
bool is_of_client(const v1::LinkRequest&);

/// The answer to a question whose time is over.
caf::error not_reached(self_ptr self, const link_state::question& q);

/// Refuses what clients ask of a home that is away, after one more try to reach it: a home that has just come back is asked, whatever the pause
/// until the next dial is.
void refuse_while_away(self_ptr self);

/// Since when and why the home is not reached, in the row of its node. Nothing while a restart, or the first dial, may not be over.
void describe(self_ptr self, v1::ClusterNode&);

/// Of what this node asks for itself: an error, after which it asks again later.
std::optional<caf::error> is_silent(self_ptr self, const v1::LinkRequest& request);

} // namespace swarm::link_away
