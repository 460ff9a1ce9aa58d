// Finding or starting the keeper of a state directory.
#pragma once

#include <chrono>
#include <filesystem>

#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::keeper {

/// A non-blocking connected socket. Throws std::runtime_error when the deadline passes, or at once when nobody listens and no
/// program is given or it cannot start. An empty program means: do not start one.
unique_fd connect_or_start(const state_dir&, const std::filesystem::path& program, std::chrono::milliseconds deadline);
/// swarm-keeper in the directory of the running executable.
std::filesystem::path default_program();

} // namespace swarm::keeper
