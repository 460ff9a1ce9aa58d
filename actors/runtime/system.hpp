// How the actor system of every program is set up.
#pragma once

#include <caf/actor_system_config.hpp>

#include "actors/runtime/error.hpp"

namespace swarm::runtime {

namespace detail {
void apply_settings(caf::actor_system_config& cfg, std::size_t threads);
}

/// Lets CAF print swarm::errc with its text and context.
void announce_errors(caf::actor_system_config& cfg);

/// Worker threads for a machine with `cores` cores: half of them, at least 1, at most 16, and one more that the writer may block.
std::size_t default_threads(std::size_t cores);

/// `threads`: workers of the scheduler, at least 1. IdBlocks: the type-id blocks above the runtime's own, which is always there.
/// Reads no file, no argument and no environment.
template <class... IdBlocks>
caf::actor_system_config make_config(std::size_t threads) {
  caf::actor_system_config cfg;
  cfg.add_message_types<caf::id_block::swarm_runtime>();
  (cfg.add_message_types<IdBlocks>(), ...);
  detail::apply_settings(cfg, threads);
  return cfg;
}

} // namespace swarm::runtime
