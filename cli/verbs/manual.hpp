// swarmctl(1): `swarmctl help --man` prints it, and the package installs what that prints.
#pragma once

#include <string>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// The manual page of swarmctl with all its commands, as roff source.
std::string manual_page(invocation&);

} // namespace swarm::cli
