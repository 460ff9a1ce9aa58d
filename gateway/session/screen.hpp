// What a terminal shows, from the bytes its program wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace swarm::mcp {

/// The last `lines` lines a terminal of that size shows after this output, without colours and without blank lines at the end, each ended
/// by a newline. `visible` = of the screen alone, else also of what has scrolled off it. Output that begins in the middle is read as if it
/// began there. Sizes of 0 mean 80 x 24; beyond 1000 they are 1000.
std::string screen_text(std::string_view output, std::uint32_t columns, std::uint32_t rows, std::size_t lines, bool visible);

} // namespace swarm::mcp
