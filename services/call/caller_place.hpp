// Where the process of a connection stands: below a worker, below an agent, a person's, or nobody's. Docs: docs/security.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/agents/ancestry.hpp"
#include "services/call/agent_roots.hpp"
#include "swarm/v1/common.pb.h"

namespace swarm {

class worker_registry;

struct caller_place {
  enum class kind : std::uint8_t {
    unseen, // gone, or outside of our PID namespace
    worker,
    stray, // a worker's, nobody knows whose
    agent,
    marked, // an agent's by its environment alone
    orphan,
    user,
  };
  kind is = kind::unseen;
  v1::Principal worker = {};    // of a worker
  std::string own_session = {}; // of a stray: SWARM_MCP_INSTANCE_ID with which it was started
  process_key root = {};        // of an agent
  std::string program = {};     // of an agent
  std::string mark = {};        // NAME=value
};

/// What was seen on the way, for those who want to know why.
struct caller_look {
  caller_place place;
  agents::lineage line;
  agents::standing standing;
};

/// Thread-safe.
class caller_places {
public:
  /// `keeper_pid` tells which process tree the workers live in (0 = none yet).
  caller_places(const worker_registry& workers, agent_roots& roots, std::function<std::int64_t()> keeper_pid)
    : workers_(workers), roots_(roots), keeper_pid_(std::move(keeper_pid)) {}
  caller_look look_at(std::int64_t pid) const;
  agent_roots& roots() const noexcept { return roots_; }
  const worker_registry& workers() const noexcept { return workers_; }

private:
  bool is_keeper(const named_process&) const;

  const worker_registry& workers_;
  agent_roots& roots_;
  std::function<std::int64_t()> keeper_pid_;
};

/// The place in words: the rule and the process or variable that it matched.
std::string reason_of(const caller_place&);
/// What ends every refusal that has to do with it.
inline constexpr const char* ask_why = "; see: swarmctl whoami --explain";

} // namespace swarm
