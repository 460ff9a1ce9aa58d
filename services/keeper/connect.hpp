// Finding or starting the keeper of a state directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include <sys/types.h>

#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm::keeper {

/// A non-blocking connected socket. Throws std::runtime_error when the deadline passes, or at once when nobody listens and no
/// program is given or it cannot start. An empty program means: do not start one.
unique_fd connect_or_start(const state_dir&, const std::filesystem::path& program, std::chrono::milliseconds deadline);
/// A process, by its number and its start: no later one is taken for it.
struct pinned_process {
  pid_t pid = 0;
  std::uint64_t start = 0; // clock ticks since boot
};
/// The process at the other end of a connected socket; for the keeper's, the one that listens. Nothing when it is gone.
std::optional<pinned_process> peer_of(int socket);
/// The keeper that runs in the directory; nothing when none does.
std::optional<pinned_process> running_keeper(const state_dir&);
/// It has not ended.
bool is_alive(const pinned_process&);

/// swarm-keeper in the directory of the running executable.
std::filesystem::path default_program();

} // namespace swarm::keeper
