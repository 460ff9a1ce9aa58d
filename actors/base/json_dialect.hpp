// What a program reads in its JSON settings besides JSON.
#pragma once

#include <cstdint>

namespace swarm {

enum class json_dialect : std::uint8_t { plain, comments, comments_and_trailing_commas };

} // namespace swarm
