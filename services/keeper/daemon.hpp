// How the keeper becomes a process of its own.
#pragma once

#include <string>
#include <vector>

#include "actors/base/paths.hpp"
#include "actors/base/unique_fd.hpp"
#include "services/keeper/log.hpp"

namespace swarm::keeper {

/// Exit status of a keeper that found another one: EX_TEMPFAIL.
inline constexpr int exit_owned = 75;

/// PATH, HOME, USER, LANG and TERM, nothing from the caller.
std::vector<std::string> clean_environment();
/// Executes this program again unless it already runs with exactly the clean environment, so that the caller's secrets are not in
/// /proc/<keeper>/environ either. Returns when the environment is clean; throws std::runtime_error when it cannot be made so.
void require_clean_environment(char** argv);

/// Its holder is the only keeper of the state directory (actors/base/owner.hpp), and signs it once it is a daemon.
std::filesystem::path lock_file(const state_dir&);

/// Session, process tree, stdio, directory and umask of a daemon; all descriptors but the given ones are closed. Returns in the
/// daemon only, the calling process exits with status 0. Throws std::runtime_error in the caller when it cannot fork.
void daemonise(log_file&, const std::vector<int>& keep);

} // namespace swarm::keeper
