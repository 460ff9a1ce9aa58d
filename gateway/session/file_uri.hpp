// The URI of a file where a path is expected: some programs read it, others take it for a file of this name.
#pragma once

#include <optional>
#include <string_view>

namespace swarm::mcp {

/// The path of file:/x, file:///x and file://localhost/x, with its percent signs. Scheme and host are taken in any case. Of file://elsewhere/x and
/// file://~/x it is what follows the slashes; nothing for another text.
std::optional<std::string_view> path_of_file_uri(std::string_view text) noexcept;

} // namespace swarm::mcp
