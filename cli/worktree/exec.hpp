// What a worker with a worktree of its own is started through: makes the worktree, runs the program in it, tidies up.
#pragma once

#include "cli/invocation.hpp"

namespace swarm::cli {

/// `swarmctl worktree exec -- PROGRAM ARGUMENT...`, in a worker's terminal: its exit status is the program's, its end by a signal, too.
int run_in_worktree(invocation&);

} // namespace swarm::cli
