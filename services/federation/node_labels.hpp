// How a node describes its host, for placement.
#pragma once

#include <string>
#include <vector>

#include "swarm/v1/cluster.pb.h"

namespace swarm {

/// The labels os, arch, cpus and memory_mib, and harness.<agent> with the program's path for each agent that is on the PATH of `environment`
/// (NAME=value entries). They are in order of name.
v1::NodeInfo describe_host(const std::vector<std::string>& environment);

} // namespace swarm
