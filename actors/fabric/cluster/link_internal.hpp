// What the files of a link's actor share.
#pragma once

#include <string>

#include "actors/fabric/cluster/link.hpp"

namespace swarm::link_internal {

using self_ptr = link_actor::stateful_pointer<link_state>;

/// Sends what the link has to send, and does what it wants.
void pump(self_ptr self);
/// Unless it is connected, or is being dialled.
void dial(self_ptr self, link_lane which);
/// Nobody waits for the question any more.
void take_back(self_ptr self, std::uint64_t id, link_lane where);

inline std::int64_t boot_ms(self_ptr self) { return self->state.node->clock->boot_ms(); }

inline bool is_up(const link_state::lane& l) { return l.connection && l.link->up(); }
inline bool is_up(self_ptr self) { return is_up(self->state.lanes[static_cast<std::size_t>(link_lane::control)]); }

/// Of the other node, for people.
inline const std::string& name_of(self_ptr self) {
  const auto& st = self->state;
  return st.address.node_name().empty() ? st.address.node_id() : st.address.node_name();
}

} // namespace swarm::link_internal
