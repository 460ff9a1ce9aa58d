// JSON that other programs wrote, as text.
#pragma once

#include <string>
#include <string_view>

namespace swarm {

/// JSON of programs that cut texts anywhere: half a character, as bytes that are no UTF-8 or as one half of a surrogate pair such as "\ud83d",
/// becomes U+FFFD. Parsers take neither.
std::string with_whole_characters(std::string_view json);

} // namespace swarm
