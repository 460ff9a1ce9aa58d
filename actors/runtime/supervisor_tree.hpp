// A supervisor's rows of the live tree.
#pragma once

#include <vector>

#include "actors/runtime/supervisor.hpp"

namespace swarm::runtime {

/// Its own row, then each child with what that child shows of itself within the supervisor's tree_patience; at most
/// limits::tree_rows_max() rows.
caf::result<std::vector<tree_entry>> show_tree(supervisor_actor::stateful_pointer<supervisor_state> self);

} // namespace swarm::runtime
