// A member's own word that a client of its asked for a worker (docs/adr/0020-members-sign-their-orders.md).
#pragma once

#include <string>
#include <string_view>

#include "swarm/v1/command.pb.h"
#include "swarm/v1/state.pb.h"

namespace swarm::domain {

/// The node that seals.
struct order_sealer {
  std::string node_id;
  std::string node_key; // 32 bytes, which only the node knows
};

/// For a command of a client of this node that another node decides: names the spawn that comes of it, the same one for the same request, and seals
/// what it is to run. Nothing for commands that ask for no worker.
void seal_order(v1::Command&, const v1::RequestId&, const order_sealer&);

/// Whether this node has sealed the order that the row comes of, and the row is what was ordered.
bool is_sealed_here(const v1::Spawn&, std::string_view scope, const order_sealer&);

} // namespace swarm::domain
