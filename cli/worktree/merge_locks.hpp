// Which locks of others a merge into the home tree would go over.
#pragma once

#include <vector>

#include "cli/worktree/merge.hpp"
#include "swarm/v1/state.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

class invocation;

/// Other sessions' locks on files that the merge would change or that the worker has changed, or on directories that they lie in; of every scope in
/// which they may be locked.
/// Throws `failure` when a scope cannot be asked; with `force` it only says so.
std::vector<v1::LockView> locks_in_the_way(const invocation&, const worker_trees&, const worker_tree&, const merge_plan&, bool force);

} // namespace swarm::cli
