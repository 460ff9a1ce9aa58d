// The MCP server at a pair of descriptors: lines in, lines out, and the two ways in which clients end it.
#pragma once

#include "gateway/mcp/node.hpp"
#include "gateway/mcp/tool.hpp"

namespace swarm::mcp {

/// Serves the client until it closes its end, goes away, or ends the process by SIGINT, SIGTERM or SIGHUP; a session of this process leaves
/// the swarm then. A line longer than limits::mcp_line_bytes_max is answered with an error and passed over. Call it before other threads
/// exist: it takes these signals from all of them. Returns the exit status.
int serve_stdio(const host&, tool_table&, int in, int out);

} // namespace swarm::mcp
