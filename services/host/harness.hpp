// Worker programs: what can be started on this node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "swarm/v1/command.pb.h"

namespace swarm {

/// Why this dispatch, spawn or conversation cannot run here, before any task state changes; fills in argv of shells and agents. The caller's
/// SWARM_HARNESS_<NAME> names another program for an agent, and is an alias for it. One with a worktree of its own gets the directory
/// in the main worktree.
std::optional<v1::Refusal> check_harness(v1::Command& cmd, const std::vector<std::string>& environment);

} // namespace swarm
