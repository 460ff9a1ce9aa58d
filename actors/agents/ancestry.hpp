// Below which agent a process runs: its ancestors, as far up as they say something about it. docs/security.md has the rules in words.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/agents/agent.hpp"
#include "actors/base/process_view.hpp"

namespace swarm::agents {

/// What there is to see of a process that may be an agent's program.
struct look {
  std::string executable;             // path; empty = may not be seen
  std::string name;                   // that it gave itself last
  std::vector<std::string> arguments; // its own name first
};

/// Null when it is no agent of the table.
const agent* recognise(const look&);
/// What people call the program: the name of its executable, or of the script that an interpreter runs.
std::string name_of(const look&);

/// A process and its ancestors, nearest first, up to the first process of the PID namespace or to one that cannot be seen.
struct lineage {
  std::vector<named_process> processes;
  bool hidden = false; // above the last one is a process that cannot be seen
};

/// Empty when the process is gone, is in no PID namespace that we see (0), or its ancestors kept changing.
std::optional<lineage> lineage_of(const process_view&, pid_t);

enum class role : std::uint8_t { plain, agent, multiplexer, editor, service_manager };

struct relative {
  pid_t pid = 0;
  std::uint64_t start = 0;
  std::string program; // empty = may not be seen
  role is = role::plain;
  const agents::agent* agent = nullptr;
};

enum class walk_end : std::uint8_t {
  agent,       // the nearest agent was found
  top,         // there is nobody above
  stranger,    // a process of another user that may not be looked into: sshd, sudo, cron
  hidden,      // a process that may not be seen
  multiplexer, // whoever started it has gone from its panes
};

/// Where a process stands among people and agents.
struct standing {
  std::vector<relative> chain; // the process first; the last one is where the walk ended
  walk_end end = walk_end::top;
  /// Of the agent that it runs below: its place in `chain`.
  std::optional<std::size_t> root;
  /// NAME=value in its own start environment that makes it an agent's; empty when an agent was found, or when no such variable is set.
  std::string mark;
  /// Nobody who could be asked has started it: who did is gone, and the service manager has taken it over. In the kernel session of the manager
  /// itself, as in a container whose first process is a script, it is one where an older agent runs in its process group.
  bool is_orphan = false;
};

/// What has been known as an agent's process stays one while it lives, whatever it runs by now: `is_known_root` says so.
standing standing_of(
  const process_view&, const lineage&, uid_t us,
  const std::function<const agent*(const process_stat&)>& is_known_root = [](const process_stat&) { return nullptr; });

/// Whether the agent that a process runs below is this one, and not another that it has started.
bool runs_for(const process_view&, pid_t, pid_t agent);

/// Why a process is no person's as far as it can be seen from outside of a node: a sentence without its end. Empty when nothing says so.
std::string reason_for_suspicion(const process_view&, pid_t, uid_t us);

} // namespace swarm::agents
