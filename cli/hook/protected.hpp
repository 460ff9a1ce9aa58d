// What no agent writes, whatever its mode: where the node keeps its state, and where swarm's settings are. Who may talk to the fabric, and do what,
// is said there, and that is a person's to say. An agent can read there; docs/security.md says so.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/environment.hpp"
#include "cli/hook/event.hpp"

namespace swarm::cli {

/// Absolute and normalised. `state_directory`: of the node that is spoken to; the user's usual one is among them as well.
std::vector<std::string> protected_directories(const environment&, const std::string& state_directory);

/// Why the tool call must not happen, for the agent; empty when it writes none of the directories.
std::string reason_against(const tool_use&, std::span<const std::string> directories);

} // namespace swarm::cli
