// JSON that somebody else wrote.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "actors/base/limits.hpp"
#include "actors/domain/transaction.hpp"

namespace swarm::domain {

bool nested_deeper(std::string_view text, int depth);
/// Some object in the text has more members than that.
bool has_more_members(std::string_view text, std::size_t members);
/// Nothing for what is not JSON, nested deeper than `depth_max` (writing a value out again takes recursion), or with an object of more than
/// limits::json_members_max members (each is searched among those before).
std::optional<json> parse_json(std::string_view text, int depth_max = limits::json_depth_max);
/// The same for JSON of programs that cut texts anywhere: half a character, as bytes that are no UTF-8 or as one half of a surrogate pair such as
/// "\ud83d", becomes U+FFFD. That is also what such a program writes as the name of a file.
std::optional<json> parse_json_of_others(std::string_view text);
/// A text among the members of an object; empty when there is none of that name, or it is something else.
std::string text_in(const json& object, std::string_view name);

} // namespace swarm::domain
