// How a node describes its host, for placement.
#pragma once

#include <string>
#include <vector>

#include "swarm/v1/cluster.pb.h"

namespace swarm {

/// The agents whose programs are on the PATH of `environment`.
std::vector<std::string> agents_found(const std::vector<std::string>& environment);
/// The node's labels, sorted by name: os, arch, cpus and memory_mib, and harness.<agent> with the program's path for each agent's program that is on
/// the PATH of `environment`, the node's base environment (NAME=value entries). Values are cut at limits::id_bytes_max. Also sets workers_max.
v1::NodeInfo describe_host(const std::vector<std::string>& environment);

} // namespace swarm
