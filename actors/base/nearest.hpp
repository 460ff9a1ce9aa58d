// What somebody may have meant who mistyped a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// The name that differs from the word by the fewest letters; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& names);
/// "; did you mean NAME?"; empty when no name is near.
std::string meant(std::string_view word, const std::vector<std::string>& names);

} // namespace swarm
