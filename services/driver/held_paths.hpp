// What peers hold, for a tool that asks while no node answers.
#pragma once

#include <string>

#include "swarm/internal/driver.pb.h"

namespace swarm::driver {

/// Why the tool may not run; empty when nothing is in its way. A tool whose paths are not known passes, unless it does not show them because they are
/// too long. Reads the file system for symbolic links.
std::string held_against(const internal::Locks& held, const internal::HookQuestion& question, const std::string& home);

} // namespace swarm::driver
