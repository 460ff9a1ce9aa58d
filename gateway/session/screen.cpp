#include "gateway/session/screen.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include <vterm.h>

#include "actors/base/text.hpp"

namespace swarm::mcp {

namespace {

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::string text_of(const VTermScreenCell* cells, int columns) {
  std::string out;
  for (int i = 0; i < columns; ++i) {
    const auto& cell = cells[i];
    if (cell.chars[0] == static_cast<std::uint32_t>(-1))
      continue; // the right half of a wide character
    if (cell.chars[0] == 0)
      out += ' ';
    for (auto c : cell.chars) {
      if (c == 0)
        break;
      append_utf8(out, c);
    }
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

struct history {
  std::deque<std::string> lines;
  std::size_t most;
};

int push_line(int columns, const VTermScreenCell* cells, void* user) {
  auto& past = *static_cast<history*>(user);
  past.lines.push_back(text_of(cells, columns));
  if (past.lines.size() > past.most)
    past.lines.pop_front();
  return 1;
}

} // namespace

std::string screen_text(std::string_view output, std::uint32_t columns, std::uint32_t rows, std::size_t lines, bool visible) {
  auto within = [](std::uint32_t n, std::uint32_t otherwise) { return static_cast<int>(n == 0 ? otherwise : std::min<std::uint32_t>(n, 1000)); };
  const auto width = within(columns, 80);
  const auto height = within(rows, 24);
  std::unique_ptr<VTerm, decltype(&vterm_free)> terminal{vterm_new(height, width), vterm_free};
  vterm_set_utf8(terminal.get(), 1);
  auto* screen = vterm_obtain_screen(terminal.get());
  vterm_screen_enable_altscreen(screen, 1);
  history past{{}, lines};
  VTermScreenCallbacks callbacks{};
  callbacks.sb_pushline = push_line;
  vterm_screen_set_callbacks(screen, &callbacks, &past);
  vterm_screen_reset(screen, 1);
  vterm_input_write(terminal.get(), output.data(), output.size());
  vterm_screen_flush_damage(screen);
  std::deque<std::string> shown;
  if (!visible)
    shown = std::move(past.lines);
  for (int row = 0; row < height; ++row) {
    std::vector<VTermScreenCell> cells(static_cast<std::size_t>(width));
    for (int column = 0; column < width; ++column)
      vterm_screen_get_cell(screen, {row, column}, &cells[static_cast<std::size_t>(column)]);
    shown.push_back(text_of(cells.data(), width));
  }
  while (!shown.empty() && shown.back().empty())
    shown.pop_back();
  std::string out;
  for (auto i = shown.size() - std::min(shown.size(), lines); i < shown.size(); ++i)
    out += shown[i] + '\n';
  return to_utf8(out);
}

} // namespace swarm::mcp
