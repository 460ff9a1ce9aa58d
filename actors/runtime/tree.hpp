// How an actor shows itself in `swarmctl graph`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/replies_to.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/typed_actor.hpp>

#include "actors/runtime/error.hpp"

namespace swarm::runtime {

/// For extend_with: the actor's own row (empty path) and those below it.
using tree_actor = caf::typed_actor<caf::replies_to<tree_atom>::with<std::vector<tree_entry>>>;

/// Messages waiting behind the one in hand. Only the actor itself may ask: in CAF 0.17.6 counting moves arrived mail into the
/// actor's own queues, so no other thread can read it; hence actors report it when they answer `tree_atom`.
std::int64_t mailbox_depth(caf::scheduled_actor* self);

/// An actor's own row; its parent fills in path, age and restarts.
tree_entry self_row(caf::scheduled_actor* self, std::string state, std::string detail = {});

} // namespace swarm::runtime
