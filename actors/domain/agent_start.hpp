// What the environment with which an agent's program was started says of its sessions: their identity, whether they coordinate, and what they are
// granted. A person sets it there; who runs below the program cannot change it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "swarm/v1/command.pb.h"

namespace swarm::domain {

/// The value of a variable, empty when it is not set.
using variable_reader = std::function<std::string(std::string_view name)>;

/// Of an agent whose own variables are SWARM_<prefix>_…; root and program are left empty.
v1::AgentStart agent_start(std::string_view prefix, const variable_reader&);

/// The name in SWARM_<prefix>_IDENTITY, else AGENT_IDENTITY, else SWARM_IDENTITY; empty = none of them holds a valid one.
std::string identity_name_of_start(std::string_view prefix, const variable_reader&);
/// SWARM_<prefix>_<name> without blanks around it.
std::string own_variable(std::string_view prefix, const variable_reader&, std::string_view name);
/// The same, else SWARM_<name>.
std::string own_or_common_variable(std::string_view prefix, const variable_reader&, std::string_view name);

} // namespace swarm::domain
