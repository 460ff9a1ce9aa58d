// Which files a shell command obviously writes: redirections and the usual programs. A careful look, not a shell: what it cannot know
// (variables, results of other commands) it leaves out, and it never runs anything.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::shell {

struct written_path {
  std::string path;     // absolute, normalised; symlinks not resolved
  bool tree = false;    // and everything below it
  bool pattern = false; // `path` is a shell pattern, as fnmatch() reads it
  bool missing = false; // where a `cd` would lead that fails as things are: the command then writes another one of these paths
};

/// Where a command stands; absolute paths, the second may be empty.
struct place {
  std::string directory;
  std::string home;
  std::map<std::string, std::string> variables = {}; // those of its environment that lead to files
};

/// In the order in which they were met; one more than limits::hook_paths_max when there are more than that. Patches given to `git apply` or `patch`
/// are read.
std::vector<written_path> paths_written_by(std::string_view script, const place&);
/// The same for a program and its arguments, which no shell reads.
std::vector<written_path> paths_written_by(const std::vector<std::string>& argv, const place&);

/// Both sides of every file of a patch in apply_patch's envelope (Add, Update, Delete File, Move to, Move File: a -> b), as written.
std::vector<std::string> paths_in_envelope(std::string_view patch);

} // namespace swarm::shell
