// Makes a process that waits at the gate: everything is set up, nothing of the program has run.
#pragma once

#include <cstdint>
#include <string>

#include <sys/resource.h>
#include <sys/types.h>

#include "actors/base/unique_fd.hpp"
#include "swarm/internal/keeper.pb.h"

namespace swarm::keeper {

/// What the child writes to `status`: gate_reached once, then after a failed exec its text; or setup_failed and a text. The end
/// of file after gate_reached means that the program runs (or that the child died).
inline constexpr char gate_reached = 'G';
inline constexpr char setup_failed = 'E';
/// What opens the gate. The end of file there ends the child.
inline constexpr char gate_opened = 'O';

struct launched {
  pid_t pid = 0;
  std::uint64_t start = 0;
  unique_fd output; // PTY master, or the pipe from stdout and stderr
  unique_fd input;  // PTY master again, or the pipe to stdin
  unique_fd slave;  // held so that a program that closes its terminal for a while does not end the stream; none for pipes
  unique_fd gate;
  unique_fd status;
};

/// Empty when `start` can be launched, else what is wrong with it.
std::string check(const internal::StartChild& start);
/// Forks. `files` is the descriptor limit the child gets. Throws std::runtime_error with a text for the user.
launched launch(const internal::StartChild& start, const rlimit& files);
/// Sets the size of a terminal from its master.
bool set_size(int master, std::uint32_t columns, std::uint32_t rows);

} // namespace swarm::keeper
