// From arguments to an exit status.
#pragma once

#include <string>
#include <vector>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// `args` without the program's name. Prints through the context's console and never throws.
int run(invocation&, std::vector<std::string> args);

} // namespace swarm::cli
