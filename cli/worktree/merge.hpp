// The merge of a worker's branch into the home tree: what it would do, the merge itself, and how it is taken back.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/worktree/signals.hpp"
#include "cli/worktree/store.hpp"

namespace swarm::cli {

/// What git makes of HEAD and the branch. The names of files differ from those in the branch when HEAD has renamed them.
struct merge_plan {
  std::string tree;              // both together; where they conflict, with git's marks
  std::set<std::string> files;   // that differ between HEAD and it
  std::set<std::string> made;    // those of them that HEAD does not have
  std::set<std::string> removed; // those of them that it does not have
};

/// Throws `failure` when git cannot tell.
merge_plan plan_merge(const worker_trees&, const worker_tree&);

/// Throws `failure` when something in the home tree, which is in no commit, would be lost by the merge: changes, and files that git does not know,
/// ignored ones included.
void check_home_files(const worker_trees&, const worker_tree&, const merge_plan&);

struct conflict {
  std::vector<std::string> files;
  std::string text;
};

struct merge_result {
  std::optional<conflict> stopped; // nothing = merged
  std::string commit;              // what the branch of the home tree points to now
};

/// Throws `failure` when it is not merged for another reason than a conflict. Whenever it is not merged, it is taken back, and what cannot be taken
/// back is said. A signal ends git.
merge_result merge_branch(const worker_trees&, const worker_tree&, const merge_plan&, const std::string& message, signals_held&);

/// A few of these names, for a person.
std::string some(const std::vector<std::string>& names);

} // namespace swarm::cli
