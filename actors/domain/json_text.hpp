// JSON that somebody else wrote.
#pragma once

#include <optional>
#include <string_view>

#include "actors/base/limits.hpp"
#include "actors/domain/transaction.hpp"

namespace swarm::domain {

bool nested_deeper(std::string_view text, int depth);
/// Nothing for what is not JSON or nested deeper than `depth_max`: writing a value out again takes recursion.
std::optional<json> parse_json(std::string_view text, int depth_max = limits::json_depth_max);

} // namespace swarm::domain
