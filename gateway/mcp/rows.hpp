// Lists that tools and resources need whole: page after page.
#pragma once

#include <vector>

#include "gateway/mcp/node.hpp"

namespace swarm::mcp {

std::vector<v1::Session> all_sessions(connection&, v1::Query);
std::vector<v1::Task> all_tasks(connection&, v1::Query);
std::vector<v1::KvEntry> all_kv(connection&, v1::Query);

} // namespace swarm::mcp
