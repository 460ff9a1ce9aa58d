// Where the files lie that come with the programs: agents/, skills/, routines/.
#pragma once

#include <filesystem>

#include "cli/environment.hpp"

namespace swarm::cli {

/// The file of the program that runs, links resolved; also when it was replaced meanwhile. Empty when /proc does not say.
std::filesystem::path running_program();

/// $SWARM_SHARE; else share/swarm-fabric beside the directory of the program, as installed; else deploy/ of the source tree the
/// program was built in. Empty when there is none.
std::filesystem::path share_directory(const environment&);

} // namespace swarm::cli
