// The git worktrees of workers: made for one task each, found again by the next attempt, looked at, removed when nothing is in
// them. What belongs to which task stands in git's own directory of the worktree (<common>/worktrees/<name>/swarm.json), so that
// it goes with it. See docs/worktrees.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/unique_fd.hpp"
#include "cli/environment.hpp"
#include "cli/worktree/git.hpp"

namespace swarm::cli {

struct worker_tree {
  std::string task_id;  // of the task it was made for; empty for a worker without one
  std::string spawn_id; // of the worker that made it
  std::string scope;    // where the task lives
  std::string home;     // state directory of the node that knows it
  std::string origin;   // root of the worktree it was made for
  std::string branch;   // swarm/<...>
  std::string path;
  std::string directory;   // git's own of it: <common>/worktrees/<name>
  std::string base;        // the commit it began from
  std::string base_branch; // the branch that was checked out in `origin` then; empty = none

  const std::string& key() const noexcept { return task_id.empty() ? spawn_id : task_id; }
};

/// What is in a worktree. Whenever git cannot say, it counts as holding work.
struct tree_state {
  bool present = true;              // its directory is there
  bool in_use = false;              // its worker's program runs
  std::string trouble;              // why git cannot tell; empty = it can
  std::string operation;            // a rebase, merge, ... that is not finished; empty = none
  std::vector<std::string> changes; // files changed and not committed, untracked ones included, ignored ones not
  std::string head;                 // commit that is checked out; empty = unknown
  std::string head_branch;          // empty = none, or unknown
  std::string tip;                  // commit of its branch; empty = the branch is gone
  std::int64_t ahead = 0;           // commits the home tree's HEAD does not have
  std::int64_t behind = 0;          // commits of that HEAD it does not have
  bool merged = false;              // everything committed is in the home tree's HEAD or in base_branch

  bool dirty() const noexcept { return !trouble.empty() || !operation.empty() || !changes.empty(); }
};

/// Of one repository, seen from one of its worktrees, home: where the workers' branches come from and go to. That is the tree one stands
/// in: usually the main one; in a worker's tree it is the one that was made for.
class worker_trees {
public:
  /// Throws `failure` when the directory is in no repository, or in one that has no such tree.
  explicit worker_trees(const std::string& directory);

  /// Root of the home tree.
  const std::string& root() const noexcept { return home_.directory(); }
  /// git in the home tree.
  const git& home() const noexcept { return home_; }
  /// The branch checked out there; empty = none.
  std::string home_branch() const;
  /// Something unfinished there: a merge, a rebase, ...; empty = nothing.
  std::string home_operation() const;
  /// Files that git knows there and that are not as in HEAD, or not staged as in HEAD; of a renamed one both names.
  std::vector<std::string> home_changes() const;
  /// Git's own directory of it.
  const std::string& home_git_directory() const noexcept { return own_; }
  /// Of a name that git understands; empty when git knows no such name.
  std::string commit(const std::string& name) const;

  /// Held while worktrees are made, merged or removed: by one process at a time. Waits for the others.
  unique_fd lock() const;
  /// Held, shared, as long as the worker's program runs in it.
  static unique_fd use(const worker_tree&);

  std::vector<worker_tree> list() const;
  /// The one for this task or spawn, made if there is none yet. `wanted` says whose it is and for whom. Under lock().
  worker_tree make(worker_tree wanted, const environment&) const;
  tree_state look(const worker_tree&) const;
  enum class branch { goes, stays };
  /// Removes directory and branch, unless git sees work in the directory; says why not, empty when it is gone. Under lock().
  std::string remove(const worker_tree&, branch = branch::goes) const;
  /// Whether both hold nothing that was not there at the beginning.
  static bool untouched(const worker_tree&, const tree_state&);

private:
  static std::optional<worker_tree> read(const std::string& directory);
  /// Takes over what a process that was killed between making the worktree and recording it has left; its worker never ran.
  bool adopt(worker_tree&) const;
  bool is_merged(const std::string& commit, const worker_tree&) const;
  void look_inside(const worker_tree&, tree_state&) const;

  std::string repository_; // root of the main worktree, or a bare repository
  std::string common_;
  std::string own_; // git's own directory of the home tree
  git home_;
};

/// The worktree of this task, seen from that directory, if there is one that git knows; never throws and starts no git.
std::optional<worker_tree> find_worker_tree(const std::string& directory, const std::string& task_id) noexcept;

} // namespace swarm::cli
