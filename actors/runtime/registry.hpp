// Which actor bears a name now. Never CAF's own registry: that keeps the first binding for ever and can hang the shutdown.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/limits.hpp"
#include "actors/runtime/error.hpp"

namespace swarm::runtime {

using registry_actor = caf::typed_actor<
  // News of a start (with a handle) or a death (without); an incarnation older than the known one changes nothing.
  caf::reacts_to<bind_atom, binding>,
  // Where the name lives; errc::not_found when it was never bound or its death is long past. `who` is null while it is down.
  caf::replies_to<lookup_atom, std::string>::with<binding>>;

struct registry_state {
  static inline const char* name = "swarm.registry";

  std::unordered_map<std::string, binding> by_name;
  std::deque<std::pair<std::string, std::uint64_t>> dead; // names in the order they went down, at most registry_dead_names_max
};

/// Spawned once, outside the supervision tree: it does nothing that could fail, and its content could not be rebuilt.
registry_actor::behavior_type registry(registry_actor::stateful_pointer<registry_state> self);

} // namespace swarm::runtime
