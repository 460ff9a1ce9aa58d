// What the agents of conversations do, for the graph of actors.
#pragma once

#include "cli/invocation.hpp"

namespace swarm::cli {

/// Says beside each conversation that is in the graph what its agent does. Of scopes that cannot be asked nothing is added.
void add_conversations(const invocation&, v1::ActorGraph&);

} // namespace swarm::cli
