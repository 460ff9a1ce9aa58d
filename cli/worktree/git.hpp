// Runs git without a shell, a terminal and the caller's GIT_DIR and the like, with a deadline (limits::git_deadline) and bounded output
// (limits::git_output_bytes_max).
#pragma once

#include <string>
#include <vector>

namespace swarm::cli {

struct git_result {
  int status = -1;      // exit status, or 128 + signal, or -1 when it was ended: after the deadline, or by the caller's wish
  bool stopped = false; // by the caller's wish
  std::string out;
  std::string err;
  bool complete = true; // false: there was more output than is kept
  bool ok() const noexcept { return status == 0 && complete; }
};

/// git in that directory. Arguments that others chose must not look like options: give full refs and absolute paths.
class git {
public:
  explicit git(std::string directory) : directory_(std::move(directory)) {}
  const std::string& directory() const noexcept { return directory_; }

  /// Throws `failure` when git is not there or cannot be started. What git itself answers is in the result. Git is ended with all that it has
  /// started, such as a hook, at the deadline or when the descriptor `stop` gets readable.
  git_result run(const std::vector<std::string>& arguments, int stop = -1) const;
  /// Returns git's output. Throws `failure` with git's message if git failed or printed too much.
  std::string output(const std::vector<std::string>& arguments) const;
  /// The same without the newlines at the end.
  std::string line(const std::vector<std::string>& arguments) const;

private:
  std::string directory_;
};

/// Why a command did not succeed, for a person.
std::string git_trouble(const std::vector<std::string>& arguments, const git_result&);

/// The parts of a text that end in NUL, as git's -z prints them.
std::vector<std::string> nul_separated(const std::string& text);

} // namespace swarm::cli
