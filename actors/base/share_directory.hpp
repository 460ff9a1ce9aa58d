// Where the files lie that come with the programs: agents/, skills/, routines/.
#pragma once

#include <filesystem>
#include <string_view>

namespace swarm {

/// The file of the program that runs, symbolic links resolved; also when it was replaced meanwhile. Empty when /proc does not say.
std::filesystem::path running_program();

/// `named`, what $SWARM_SHARE says, unless it is empty; else share/swarm-fabric beside the directory of the program, as installed; else
/// deploy/ of the source tree the program was built in. Empty when there is none.
std::filesystem::path share_directory(std::string_view named, const std::filesystem::path& program);
/// For the program that runs.
std::filesystem::path share_directory(std::string_view named);

} // namespace swarm
