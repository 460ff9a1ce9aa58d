#include "actors/base/screen.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include <vterm.h>

#include "actors/base/text.hpp"

namespace swarm {

namespace {

constexpr std::uint32_t side_max = 1000;

int within(std::uint32_t n, std::uint32_t otherwise) { return static_cast<int>(n == 0 ? otherwise : std::min(n, side_max)); }

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
  return to_utf8(out);
}

std::string without_blanks_at_end(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// How many bytes at the end are the beginning of a character: libvterm forgets them.
std::size_t unfinished(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(text.size(), 3); ++n) {
    const auto c = static_cast<unsigned char>(text[text.size() - n]);
    if ((c & 0xc0) == 0x80)
      continue;
    const std::size_t whole = c >= 0xf0 && c < 0xf8 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc0 && c < 0xe0 ? 2 : 1;
    return n < whole ? n : 0;
  }
  return 0;
}

} // namespace

struct screen::impl {
  std::unique_ptr<VTerm, decltype(&vterm_free)> terminal;
  VTermScreen* shown;
  std::deque<std::string> past;
  std::size_t past_max;
  VTermPos cursor{0, 0};
  bool cursor_shown = true;
  std::string held_back; // the beginning of a character

  impl(int rows, int columns, std::size_t lines) : terminal(vterm_new(rows, columns), vterm_free), past_max(lines) {
    vterm_set_utf8(terminal.get(), 1);
    shown = vterm_obtain_screen(terminal.get());
    vterm_screen_enable_altscreen(shown, 1);
    static const VTermScreenCallbacks callbacks = [] {
      VTermScreenCallbacks c{};
      c.sb_pushline = [](int width, const VTermScreenCell* cells, void* user) { return static_cast<impl*>(user)->push(width, cells); };
      c.movecursor = [](VTermPos to, VTermPos, int, void* user) {
        static_cast<impl*>(user)->cursor = to;
        return 1;
      };
      c.settermprop = [](VTermProp what, VTermValue* value, void* user) {
        if (what == VTERM_PROP_CURSORVISIBLE)
          static_cast<impl*>(user)->cursor_shown = value->boolean != 0;
        return 1;
      };
      return c;
    }();
    vterm_screen_set_callbacks(shown, &callbacks, this);
    vterm_screen_reset(shown, 1);
  }

  int push(int width, const VTermScreenCell* cells) {
    if (past_max == 0)
      return 1;
    past.push_back(without_blanks_at_end(text_of(cells, width)));
    if (past.size() > past_max)
      past.pop_front();
    return 1;
  }
};

screen::screen(std::uint32_t columns, std::uint32_t rows, std::size_t lines)
  : impl_(std::make_unique<impl>(within(rows, 24), within(columns, 80), lines)) {}
screen::screen(screen&&) noexcept = default;
screen& screen::operator=(screen&&) noexcept = default;
screen::~screen() = default;

void screen::write(std::string_view output) {
  std::string joined;
  if (!impl_->held_back.empty()) {
    joined = std::exchange(impl_->held_back, {});
    joined += output;
    output = joined;
  }
  const auto rest = unfinished(output);
  impl_->held_back = output.substr(output.size() - rest);
  output.remove_suffix(rest);
  vterm_input_write(impl_->terminal.get(), output.data(), output.size());
  vterm_screen_flush_damage(impl_->shown);
}

void screen::resize(std::uint32_t columns, std::uint32_t rows) {
  int height = 0, width = 0;
  vterm_get_size(impl_->terminal.get(), &height, &width);
  if (height != within(rows, 24) || width != within(columns, 80))
    vterm_set_size(impl_->terminal.get(), within(rows, 24), within(columns, 80));
}

screen_view screen::view() const {
  int height = 0, width = 0;
  vterm_get_size(impl_->terminal.get(), &height, &width);
  screen_view out;
  std::vector<VTermScreenCell> cells(static_cast<std::size_t>(width));
  const auto at = impl_->cursor;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column)
      vterm_screen_get_cell(impl_->shown, {row, column}, &cells[static_cast<std::size_t>(column)]);
    out.rows.push_back(without_blanks_at_end(text_of(cells.data(), width)));
    if (row != at.row)
      continue;
    const auto column = std::clamp(at.col, 0, width - 1);
    out.cursor_row = static_cast<std::size_t>(row);
    out.before_cursor = text_of(cells.data(), column);
    out.after_cursor = without_blanks_at_end(text_of(cells.data() + column, width - column));
    out.cursor_is_seen = impl_->cursor_shown || cells[static_cast<std::size_t>(column)].attrs.reverse != 0;
  }
  return out;
}

std::vector<std::string> screen::history() const { return {impl_->past.begin(), impl_->past.end()}; }

} // namespace swarm
