// What a keeper runs whose node does not: after `swarmctl down --keep-programs`, or after a crash. For the owner of the state directory alone: the
// keeper has one client.
#pragma once

#include <vector>

#include "actors/base/paths.hpp"
#include "swarm/v1/pty.pb.h"

namespace swarm {

/// As the node had noted them; what it had not noted has an id and a process only. None without a keeper. Throws std::runtime_error.
std::vector<v1::PtyInfo> kept_programs(const state_dir&);
/// Ends them and returns what it ended. The keeper stays, and tells the next node how they ended. Throws std::runtime_error when some are still there
/// after their time.
std::vector<v1::PtyInfo> end_kept_programs(const state_dir&);

/// Ends the programs and the keeper that has them, whoever that is; returns before it has ended. Throws std::runtime_error.
void quit_running_keeper(const state_dir&);

} // namespace swarm
