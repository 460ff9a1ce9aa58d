// The actor that keeps the output of terminals in files.
#pragma once

#include <map>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/fabric/terminals/pty_log_files.hpp"

namespace swarm {

struct pty_log_state {
  static inline const char* name = "pty-log";
  node_environment_ptr node;
  std::map<std::string, pty_log_files> open; // bounded; reopening is cheap
};

pty_log_actor::behavior_type pty_log(pty_log_actor::stateful_pointer<pty_log_state> self, node_environment_ptr node);

} // namespace swarm
