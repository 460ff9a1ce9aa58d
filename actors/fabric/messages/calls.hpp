// A call of a service on its way through the fabric, and the fabric's picture of itself.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>

#include "actors/runtime/messages.hpp"
#include "actors/store/interfaces.hpp"
#include "swarm/v1/node.pb.h"

namespace swarm {

/// A command on its way through the fabric.
struct call {
  std::shared_ptr<const execution> what;
  /// NAME=value of the caller, already filtered; handed to a worker by memory, never stored.
  std::vector<std::string> environment;
  /// How long the caller waits, where another node is asked; nullopt: does not say.
  std::optional<std::chrono::milliseconds> patience = {};
};
using call_ptr = std::shared_ptr<const call>;

using graph_ptr = std::shared_ptr<const v1::ActorGraph>;

class any_short_call;
using any_short_call_ptr = std::shared_ptr<any_short_call>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::call_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::graph_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::any_short_call_ptr)
