// How each agent's program is told about the fabric: our MCP server and our hooks, for this one process, beside what its user has set up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// Arguments that follow the program's own, for work in `directory`. Empty for what is no agent. No secret is among them: anybody may
/// read arguments. `share` is what $SWARM_SHARE says of where our files lie; empty = beside swarmctl.
std::vector<std::string> agent_arguments(std::string_view harness, const std::string& swarmctl, const std::string& directory,
                                         const std::string& share);

/// Variables, NAME=value, for the same purpose.
std::vector<std::string> agent_environment(std::string_view harness, const std::string& swarmctl, const std::string& share);

/// Why the program must not be started like that, and what to do: a file of ours without which it would go its own way is missing. Empty = nothing
/// is in the way.
std::string agent_obstacle(std::string_view harness, const std::string& swarmctl, const std::string& share);

/// Whether the program, started like that, tells what it does by hooks. Then silence before the first of them is a question it asks its user
/// (may it trust this directory, whose account), not readiness.
bool agent_has_hooks(std::string_view harness) noexcept;

} // namespace swarm
