// ssh to the host of a node: at its other end `swarmctl dial-stdio` copies bytes to and from the node's socket.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "actors/base/unique_fd.hpp"
#include "gateway/client/target.hpp"

namespace swarm::cli {

/// What dial-stdio says first, as a line of its own: whatever comes before is a login shell's.
inline constexpr std::string_view dial_greeting = "swarm-dial-stdio 1\n";

struct dial_options {
  bool may_start = true;             // start a node there when none runs
  std::chrono::milliseconds wait{0}; // else wait that long for one to appear
};

/// Lives as long as the connection is used; ssh ends with it.
class ssh_line {
public:
  ssh_line(unique_fd socket, pid_t pid, unique_fd process);
  ~ssh_line();
  ssh_line(const ssh_line&) = delete;
  ssh_line& operator=(const ssh_line&) = delete;

  /// Carries the node's bytes from here on.
  unique_fd take_socket() { return std::move(socket_); }
  int socket() const noexcept { return socket_.get(); }
  /// Readable once ssh has ended.
  const unique_fd& process() const noexcept { return process_; }
  /// After that: the exit status, or 128 + signal.
  int exit_status();

private:
  unique_fd socket_;
  pid_t pid_;
  unique_fd process_;
};

/// A line to the node, or null when none runs there or `cancel` became readable. Throws `call_failed` when ssh or the other side did not work.
std::unique_ptr<ssh_line> open_ssh_line(const target&, const dial_options&, std::chrono::milliseconds time, int cancel);

/// The arguments of ssh, its name first.
std::vector<std::string> ssh_arguments(const target&, const dial_options&, std::chrono::seconds connect_within);
/// `ssh …` as a person types it to reach the host.
std::string ssh_by_hand(const target&);

/// Greets on `out`, then copies what comes on `in` to the node and back until either side ends.
void copy_both_ways(int in, int out, int node);

} // namespace swarm::cli
