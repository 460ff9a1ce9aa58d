// A caf::error in words for people.
#pragma once

#include <string>

#include <caf/error.hpp>

namespace swarm::runtime {

/// The text the error was made with, else what its code means.
std::string error_text(const caf::error&);

} // namespace swarm::runtime
