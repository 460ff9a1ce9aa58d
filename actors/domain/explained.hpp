// The sentence with which a refusal names the verb that explains it.
#pragma once

#include <string_view>

namespace swarm::domain {

/// Last in the texts of refusals that have to do with who the caller is. Who knows more about the caller says that in its place.
inline constexpr std::string_view explained = " `swarmctl whoami --explain` says who this process is to the node.";

} // namespace swarm::domain
