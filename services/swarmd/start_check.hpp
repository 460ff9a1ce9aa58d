// What would keep a node from starting, found without starting it.
#pragma once

#include <string>
#include <vector>

#include "actors/base/paths.hpp"

namespace swarm {

/// One text for people for each obstacle; none when the node can start. Changes nothing. The store is looked at only while no node runs, whose own
/// check is better.
std::vector<std::string> obstacles_to_start(const state_dir&);

} // namespace swarm
