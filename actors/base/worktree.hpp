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

/// The path under which a file is locked: in a linked worktree that of the same file in the tree the scope is about, else `path` itself,
/// which is absolute and normalised. That tree is the one a path as `scope` lies in, spelled as there, when it is one of the same
/// repository; otherwise the main one.
std::string repository_path(const std::string& path, std::string_view scope = {});

} // namespace swarm
