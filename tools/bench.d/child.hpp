// Programs that the benchmark starts and stops, and what the kernel says about them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"

namespace swarm::bench {

/// Quiet: output goes nowhere. Ended (SIGKILL) with its owner, also when SIGINT or SIGTERM ends the benchmark.
class child {
public:
  child() = default;
  /// `inherit`: a descriptor the program keeps; `standard`: what becomes its standard input and output. -1 for none.
  child(std::vector<std::string> argv, std::vector<std::string> extra_environment = {}, int inherit = -1, int standard = -1);
  child(child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  child& operator=(child&& other) noexcept;
  ~child();

  pid_t pid() const noexcept { return pid_; }
  /// Sends the signal (0: none) and waits for the end; its exit status, or -1 when a signal ended it.
  int end(int signal);

private:
  pid_t pid_ = 0;
};

/// Voluntary context switches of all threads that live now.
std::uint64_t voluntary_switches(pid_t);
/// Anonymous memory in bytes: what the program allocated itself, without files it maps.
std::uint64_t anonymous_memory(pid_t);
/// A TCP port of the loopback that was free a moment ago.
int free_port();

} // namespace swarm::bench
