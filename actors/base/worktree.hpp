// Git worktrees, found by reading git's own files: cheap enough for every check of a path, and nobody's program is run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm {

struct git_tree {
  std::string root;             // of the worktree, spelled as it was asked for
  std::string repository;       // root of the main worktree: `root` itself unless linked. Of a bare repository its directory
  std::string git_directory;    // the tree's own: <root>/.git; of a linked one <common>/worktrees/<name>
  std::string common_directory; // what all worktrees of the repository share: <repository>/.git
  bool linked = false;          // made by `git worktree add`
};

/// The worktree an absolute normalised path lies in; the path itself need not exist. A submodule in a linked worktree belongs to
/// that. Empty when it lies in none, or when the nearest .git is broken.
std::optional<git_tree> find_git_tree(const std::string& path);

/// The directory beside a repository in which the fabric makes worktrees, unless it is told another one, is named like the repository and this.
inline constexpr std::string_view worktrees_suffix = ".worktrees";
/// In git's own directory of a worktree that the fabric made: which worker it belongs to (cli/worktree/store.hpp).
inline constexpr const char* worker_record_file = "swarm.json";
/// The scope of the worker for which the fabric made the worktree that `directory` lies in; empty when the fabric made none there.
std::string scope_of_worker_tree(const std::string& directory);

/// Returns the path under which a file is locked, so that all worktrees of a repository share one lock. `path` is absolute and normalised.
/// A path in no linked worktree, or below a broken .git, is returned unchanged. A path in a linked worktree is moved to the worktree that
/// contains `scope`, if `scope` is an absolute path in the same repository, otherwise to git_tree::repository.
std::string repository_path(const std::string& path, std::string_view scope = {});
/// The inverse for a session that works in `tree`: the file that its lock on `path`, of `scope`, means. Reads no file system.
std::string path_in_tree(const git_tree& tree, const std::string& path, std::string_view scope);

} // namespace swarm
