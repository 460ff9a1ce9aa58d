// What another node asks of this one: the half of the link actor that answers.
#pragma once

#include "actors/fabric/cluster/link_internal.hpp"

namespace swarm::link_serve {

using link_internal::self_ptr;

/// Only what is shared is open to other nodes, and only its home answers for it.
bool is_home_of(self_ptr self, const std::string& scope);

/// A request has come; `cost` is its credit. It is answered once, whatever comes of it.
void serve(self_ptr self, link_lane lane, const v1::LinkRequest& request, std::size_t cost);
/// The other node does not wait for this one any more.
void cancel(self_ptr self, std::uint64_t id);
/// The link was reset: what was asked on it is asked again.
void forget_all(self_ptr self, link_lane lane);

} // namespace swarm::link_serve
