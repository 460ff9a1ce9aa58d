// Where a worker is started.
#pragma once

#include <optional>
#include <string>

#include "swarm/v1/cluster.pb.h"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// The name a harness has among a node's labels, for instance harness.claude.
std::string harness_label(std::string_view harness);

/// Fills in the node that starts the worker a dispatch or request_spawn asks for; other commands are left alone. `caller` is the node the
/// request came from. In order: what `on` names; else, of the nodes that are linked, do not drain and have the labels asked for and the
/// harness, the caller's; else the one with the least of its capacity in use. Without a cluster it is the caller's.
std::optional<v1::Refusal> place(v1::Command& cmd, const v1::ClusterView& cluster, const std::string& caller);

} // namespace swarm
