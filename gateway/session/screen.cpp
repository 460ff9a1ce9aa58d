#include "gateway/session/screen.hpp"

#include <algorithm>

#include "actors/base/screen.hpp"

namespace swarm::mcp {

std::string screen_text(std::string_view output, std::uint32_t columns, std::uint32_t rows, std::size_t lines, bool visible) {
  screen terminal{columns, rows, visible ? 0 : lines};
  terminal.write(output);
  auto shown = terminal.history();
  for (auto& row : terminal.view().rows)
    shown.push_back(std::move(row));
  while (!shown.empty() && shown.back().empty())
    shown.pop_back();
  std::string out;
  for (auto i = shown.size() - std::min(shown.size(), lines); i < shown.size(); ++i)
    out += shown[i] + '\n';
  return out;
}

} // namespace swarm::mcp
