// Where a node is: on this host, or behind ssh.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm::cli {

/// Where ssh connects to.
struct ssh_host {
  std::string destination; // [USER@]HOST, never with a dash in front
  std::string port;        // empty = what ssh's own settings say
};

/// Of `[USER@]HOST` or `ssh://[USER@]HOST[:PORT]`; empty for anything else.
std::optional<ssh_host> parse_ssh_host(std::string_view);

struct target {
  std::string name;
  std::string ssh;              // host of the node; empty = this one
  std::string state_dir;        // without ssh: where the node keeps its state
  std::string remote_state_dir; // with ssh: the same on that host; empty = what swarmctl takes there
  std::string scope;            // where the call names none; empty = none

  bool elsewhere() const noexcept { return !ssh.empty(); }
};

} // namespace swarm::cli
