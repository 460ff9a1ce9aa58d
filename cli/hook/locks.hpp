// Whether a tool writes a file that somebody has locked, even if the two name it differently: through symbolic links, from a linked worktree, as
// part of a directory or of a pattern.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/shell/writes.hpp"
#include "cli/hook/store.hpp"

namespace swarm::cli {

/// The path with the symbolic links of its existing part resolved; the path itself when that fails.
std::string canonical_path(const std::string& path);

class path_matcher {
public:
  /// The directory, root, file root and scope of `me` decide under which name a path is locked (as in swarm-mcp).
  path_matcher(const std::vector<shell::written_path>& written, const hook_memory& me);

  /// Returns the written path that is the lock's file or contains it, or null.
  const shell::written_path* find(const std::string& lock_path) const;
  /// Returns the written path that lies below the lock's directory, or null.
  const shell::written_path* find_below(const std::string& lock_path) const;
  /// True when the path is written at `file`, absolute, or below it.
  bool is_written(const shell::written_path&, const std::string& file) const;

private:
  struct entry {
    shell::written_path written;
    std::vector<std::string> files; // its names on disk
    std::vector<std::string> names; // the names it may be locked under
  };
  std::vector<entry> entries_;
  std::unordered_map<std::string, std::size_t> exact_;
  std::vector<std::size_t> wide_; // trees and patterns
};

/// The one name under which a session locks this file, with symbolic links resolved.
std::string lock_name(const std::string& path, const hook_memory& me);
/// The lock names of all files that are written. A pattern stands for the files that match it now, a directory also for everything in it.
/// Devices and the like are left out. Nothing when there are more than limits::hook_paths_max.
std::optional<std::set<std::string>> lock_names(const std::vector<shell::written_path>&, const hook_memory& me);
/// The roots of all repositories that the written paths lie in, each once: a repository may lie in another one.
std::vector<std::string> repositories_around(const std::vector<shell::written_path>&);
/// Whether the path lies in a repository that has linked worktrees, so that one lock name may mean several files.
bool has_several_trees(const std::string& path);
/// The file that a lock means for its holder, who may work in a linked worktree.
std::string file_of_holder(const std::string& lock_path, const v1::Session& holder);

} // namespace swarm::cli
