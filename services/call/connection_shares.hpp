// How many of the connections to the node's socket each caller may have.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "actors/base/limits.hpp"

namespace swarm {

struct connection_bounds {
  std::size_t total = limits::connections_max();
  std::size_t per_caller = limits::connections_per_caller_max();
  std::size_t for_operator = limits::connections_kept_for_operator; // of the total
};

/// A caller is a worker or an agent with every process below it, or one other process: who has many processes, or acts as many sessions, has one
/// share all the same. The last connections are for the operator alone, who ends a caller that has taken the others. One thread at a time.
class connection_shares {
public:
  enum class verdict { taken, caller_full, node_full };

  explicit connection_shares(const connection_bounds& b = {}) : bounds_(b) {}

  /// One more connection of the caller.
  verdict take(const std::string& caller, bool is_operator);
  /// It is closed.
  void give_back(const std::string& caller);

  std::size_t open() const noexcept { return open_; }
  std::size_t open(const std::string& caller) const;

private:
  connection_bounds bounds_;
  std::size_t open_ = 0;
  std::unordered_map<std::string, std::size_t> by_caller_; // only those that have any
};

} // namespace swarm
