// JSON that somebody else wrote.
#pragma once

#include <optional>
#include <string_view>

#include "actors/domain/transaction.hpp"

namespace swarm::domain {

/// Writing a value out again takes recursion, so what is nested deeper than this is not read as JSON at all.
inline constexpr int json_depth_max = 256;

bool nested_deeper(std::string_view text, int depth);
/// Nothing for what is not JSON or nested deeper than `depth_max`.
std::optional<json> parse_json(std::string_view text, int depth_max = json_depth_max);

} // namespace swarm::domain
