// What a node says of its host, for placement.
#pragma once

#include <string>
#include <vector>

#include "swarm/v1/cluster.pb.h"

namespace swarm {

/// os, arch, cpus, memory_mib, and harness.<agent> = the program's path for each agent on the PATH of these NAME=value entries; in order
/// of name.
v1::NodeInfo describe_host(const std::vector<std::string>& environment);

} // namespace swarm
