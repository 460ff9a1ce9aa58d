// Where a worker is started.
#pragma once

#include <optional>
#include <string>

#include "swarm/v1/cluster.pb.h"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// The name a harness has among a node's labels, for instance harness.claude.
std::string harness_label(std::string_view harness);

/// Fills in the node that starts the worker a dispatch or request_spawn asks for, and why that one; other commands are left alone.
/// `caller` is the node the request came from. In order: what `on` names; else, of the nodes that are linked, do not drain, have the labels
/// asked for, the harness, a checkout of the scope when the directory lies in one, and a free place: the caller's own when the directory is
/// one of its host, else the one with the fewest workers for its processors. Without a cluster it is the caller's.
///
/// When none fits, the node stays empty and the text says why each does not: only a command that really needs a worker is refused for that.
/// Refused at once is what can never be right.
std::optional<v1::Refusal> place(v1::Command& cmd, const v1::ClusterView& cluster, const std::string& caller);

struct placement {
  std::string node_id; // empty = none fits
  std::string why;
};
/// For the next attempt of a worker whose host was lost.
placement place_again(const v1::Spawn& worker, const v1::ClusterView& cluster);
/// Why a worker that was given to the node some time ago is not to begin there now: it has left, is drained, or has not been heard from for
/// limits::host_lease(). Empty = it may.
std::string gone_since(const std::string& node_id, const v1::ClusterView& cluster, std::int64_t now_ms);

} // namespace swarm
