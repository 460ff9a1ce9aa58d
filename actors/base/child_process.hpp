// Starts a program as a child of this process, with nothing of ours in it that was not named.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"

namespace swarm {

struct child_options {
  std::vector<std::string> arguments;   // the program first: a path, or a name when it is looked for on PATH
  std::vector<std::string> environment; // NAME=VALUE, all of it
  bool on_path = false;
  /// In a session of its own: what it starts has no terminal to ask on, and the terminal's signals do not reach it.
  bool own_session = true;
  /// SIGINT waits for ever: Ctrl-C is for this process alone although they share a terminal.
  bool without_interrupts = false;
  std::string directory; // where it begins; empty: where this process is, which may be a directory that has been removed
  /// Standard input, output and error; -1: /dev/null.
  std::array<int, 3> standard{-1, -1, -1};
  bool errors_as_ours = false;       // standard error is this process's
  std::filesystem::path errors_into; // or is written to this file, which is emptied first; mode 0600
  int further = -1, further_as = -1; // one more descriptor, and its number in the child; all others are closed there
};

/// The child's number, or the error of the start: no such program, no memory, too many processes. Every signal is as by default there.
struct child_start {
  pid_t pid = -1;
  std::error_code error;
};
child_start start_child(const child_options&);

/// Waits for its end: the exit status, 128 + the signal that ended it, or -1 when it is no child of ours.
int wait_for_child(pid_t);

/// Both ends are closed in children that are not given them.
struct pipe_ends {
  unique_fd read, write;
};
/// Throws std::system_error.
pipe_ends make_pipe();

/// For execve and its relatives: as long as `texts` is not touched.
std::vector<char*> pointers_to(const std::vector<std::string>& texts);

} // namespace swarm
