// Runs git without a shell, a terminal and the caller's GIT_DIR and the like, with a deadline (limits::git_deadline) and bounded output
// (limits::git_output_bytes_max).
#pragma once

#include <string>
#include <vector>

#include <signal.h>

namespace swarm::cli {

struct git_result {
  int status = -1; // exit status, or 128 + signal, or -1 after the deadline
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

  /// Throws `failure` when git is not there or cannot be started. What git itself answers is in the result.
  git_result run(const std::vector<std::string>& arguments) const;
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

/// Blocks SIGINT, SIGTERM and SIGHUP while it exists: nothing is left half done between two steps that belong together.
class signals_held {
public:
  signals_held();
  ~signals_held();
  signals_held(const signals_held&) = delete;
  signals_held& operator=(const signals_held&) = delete;

private:
  sigset_t before_;
};

} // namespace swarm::cli
