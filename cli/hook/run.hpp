// `swarmctl hook`: handles one event of an agent's session.
#pragma once

#include <string>

#include "cli/hook/event.hpp"
#include "cli/invocation.hpp"

namespace swarm::cli {

struct hook_options {
  bool enforce = false;     // a write takes the lock of its file
  bool fail_closed = false; // a write that cannot be checked is denied
};

/// Prints the answer on stdout in the agent's own format, and errors on stderr. Never throws: a hook that fails must not stop its agent.
void run_hook(const invocation&, const agents::agent&, hook_event, const hook_options&, const std::string& input);

} // namespace swarm::cli
