// A second host, on the loopback: a node that has joined another, and an sshd, the other way to a terminal elsewhere.
#pragma once

#include "tools/bench.d/peers.hpp"

namespace swarm::bench {

/// Two nodes of one cluster, linked. A scope without a slash has its home at the first.
class two_nodes {
public:
  two_nodes(const std::filesystem::path& bin, const std::filesystem::path& dir);
  ~two_nodes();
  node home, member;
};

/// An sshd with a configuration and keys of its own, for the user who runs the benchmark.
class ssh_server {
public:
  explicit ssh_server(const std::filesystem::path& dir);
  /// The words of a client that runs the command there on a terminal.
  std::vector<std::string> on_terminal(const std::string& command) const;

private:
  std::filesystem::path dir_;
  int port_;
  child process_;
};

} // namespace swarm::bench
