// One event of one agent's session: what `swarmctl hook` does with it.
#pragma once

#include <string>

#include "cli/hook/event.hpp"
#include "cli/invocation.hpp"

namespace swarm::cli {

struct hook_options {
  bool enforce = false;     // a write takes the lock
  bool fail_closed = false; // what cannot be checked is not written
};

/// Answers on stdout as the host wants it, and says on stderr what went wrong. Never throws: a hook that fails must not stop its agent.
void run_hook(const invocation&, const agents::agent&, hook_event, const hook_options&, const std::string& input);

} // namespace swarm::cli
