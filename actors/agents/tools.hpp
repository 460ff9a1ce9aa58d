// What the tools of agents do, by their names and by the names of what they are given: the hooks of agents on terminals and the drivers of
// conversations know it from here.
#pragma once

#include <span>
#include <string_view>

namespace swarm::agents {

enum class tool_kind {
  other,
  reads,  // only looks
  writes, // files, whose paths it is given
  runs,   // a shell line, or other code
};

/// Without the server's part, mcp__<server>__<tool>.
std::string_view tool_name(std::string_view tool);
/// Whether it is a tool of the fabric's own MCP server: the node's table of rights says what it may.
bool is_of_fabric(std::string_view tool);
/// Also of a tool of an MCP server. No two agents use one name for different things.
tool_kind kind_of_tool(std::string_view tool);
/// Of a tool that runs code: whether a shell reads it.
bool reads_shell_lines(std::string_view tool);
/// Whether what it writes is named in patches.
bool takes_patches(std::string_view tool);
/// With this a patch begins.
inline constexpr std::string_view patch_mark = "*** Begin Patch";

using parameter_names = std::span<const std::string_view>;
/// A file or directory.
parameter_names path_parameters() noexcept;
/// A shell line.
parameter_names script_parameters() noexcept;

} // namespace swarm::agents
