// Whether what a tool writes is what somebody has locked, whatever either calls it: by symlinks, through a linked work tree, as part of a
// directory or of a pattern.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/shell/writes.hpp"
#include "cli/hook/store.hpp"

namespace swarm::cli {

/// The path with all symlinks in the part of it that exists resolved; itself when that cannot be done.
std::string canonical_path(const std::string& path);

class path_matcher {
public:
  /// Directory, root, file root and scope of `me` say what its paths are locked as (as in swarm-mcp).
  path_matcher(const std::vector<shell::written_path>& written, const hook_memory& me);

  /// The written path that goes by the name of this lock; null when none does.
  const shell::written_path* find(const std::string& lock_path) const;
  /// The written path that lies below the directory this lock keeps; null when none does.
  const shell::written_path* find_below(const std::string& lock_path) const;
  /// That the file at `file`, absolute, is what is written there.
  bool is_written(const shell::written_path&, const std::string& file) const;

private:
  struct entry {
    shell::written_path written;
    std::vector<std::string> files; // its own names
    std::vector<std::string> names; // what it is locked as
  };
  std::vector<entry> entries_;
  std::unordered_map<std::string, std::size_t> exact_;
  std::vector<std::size_t> wide_; // trees and patterns
};

/// What a session's path is locked as, with symlinks resolved: one name for each file.
std::string lock_name(const std::string& path, const hook_memory& me);
/// The files that are written, each by the name it is locked as: of a pattern those it fits, of a directory also those below it, as they
/// are on the disk now. Nothing when there are more than limits::hook_paths_max. What is no file, such as a device, is left out.
std::optional<std::set<std::string>> lock_names(const std::vector<shell::written_path>&, const hook_memory& me);
/// The path lies in a repository that has linked work trees, so that what is locked under one name may be several files.
bool has_several_trees(const std::string& path);
/// Where the file of a lock lies for its holder, who may work in a linked work tree.
std::string file_of_holder(const std::string& lock_path, const v1::Session& holder);

} // namespace swarm::cli
