// Asks a person on the terminal.
#pragma once

#include <string_view>

#include "cli/output.hpp"

namespace swarm::cli {

/// Prints the question and ` [y/N] ` on stderr and reads a line. True for y and yes.
bool is_confirmed(console&, std::string_view question);

} // namespace swarm::cli
