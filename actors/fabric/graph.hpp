// The live tree as the wire shows it.
#pragma once

#include <string>
#include <vector>

#include "actors/runtime/tree.hpp"
#include "swarm/v1/node.pb.h"

namespace swarm {

/// Adds the rows whose path contains `filter` (empty = all); `node` is the name of the node they live on, empty = the one that is asked.
/// Stops at limits::tree_rows_max() and limits::page_encoded_bytes_max.
void add_rows(v1::ActorGraph& graph, const std::vector<runtime::tree_entry>& rows, const std::string& filter, const std::string& node);
/// Adds what another node has answered, within the same bounds.
void add_rows(v1::ActorGraph& graph, const v1::ActorGraph& other);

} // namespace swarm
