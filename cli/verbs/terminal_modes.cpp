#include "cli/verbs/terminal_modes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

namespace swarm::cli {

namespace {

constexpr std::size_t parameters_max = 64; // longer ones are none of these
constexpr int keyboard_pushes_most = 32;
constexpr int alternate_screen_modes[] = {47, 1047, 1049};

// On unless a program turns them off.
bool is_on_by_default(int mode) { return mode == 7 || mode == 25; }

bool is_alternate_screen(int mode) {
  return std::find(std::begin(alternate_screen_modes), std::end(alternate_screen_modes), mode) != std::end(alternate_screen_modes);
}

std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> out;
  while (true) {
    int n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    out.push_back(n);
    auto end = text.find(';');
    if (end == text.npos)
      return out;
    text.remove_prefix(end + 1);
  }
}

std::string set_mode(int mode, bool on) { return "\x1b[?" + std::to_string(mode) + (on ? "h" : "l"); }

} // namespace

void terminal_modes::take(std::string_view bytes) {
  for (auto c : bytes)
    take(c);
}

void terminal_modes::take(char c) {
  constexpr char esc = '\x1b', bell = '\a', cancel = '\x18';
  if (c == cancel)
    state_ = state::ground;
  switch (state_) {
    case state::ground:
      if (c == esc)
        state_ = state::escape;
      return;
    case state::escape:
      state_ = state::ground;
      if (c == '[')
        state_ = state::control, parameters_.clear();
      else if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X')
        state_ = state::text;
      else if (c == '(')
        state_ = state::charset;
      else if (c == '=' || c == '>')
        keypad_ = c == '=';
      else if (c == 'c')
        forget(false);
      else if (c == esc)
        state_ = state::escape;
      return;
    case state::charset:
      charset_ = c != 'B';
      state_ = state::ground;
      return;
    case state::control:
      if (c == esc) {
        state_ = state::escape;
      } else if (c >= 0x40 && c <= 0x7e) {
        state_ = state::ground;
        if (parameters_.size() < parameters_max)
          take_control(c);
      } else if (parameters_.size() < parameters_max) {
        parameters_ += c;
      }
      return;
    case state::text:
      if (c == bell)
        state_ = state::ground;
      else if (c == esc)
        state_ = state::text_escape;
      return;
    case state::text_escape: state_ = c == '\\' ? state::ground : state::text; return;
  }
}

void terminal_modes::take_control(char final) {
  if (parameters_.starts_with('?'))
    return take_private(final);
  if (parameters_.starts_with('>') && final == 'u')
    keyboard_pushes_ = std::min(keyboard_pushes_ + 1, keyboard_pushes_most);
  else if (parameters_.starts_with('<') && final == 'u')
    keyboard_pushes_ = std::max(keyboard_pushes_ - std::max(numbers_in(std::string_view{parameters_}.substr(1)).front(), 1), 0);
  else if (parameters_.starts_with(">4") && final == 'm')
    other_keys_ = parameters_.starts_with(">4;") && !parameters_.ends_with(";0");
  else if (final == 'm' && (parameters_.empty() || (parameters_.front() >= '0' && parameters_.front() <= ';')))
    colours_ = !parameters_.empty() && parameters_ != "0";
  else if (final == 'r')
    region_ = !parameters_.empty();
  else if (final == 'q' && parameters_.ends_with(' '))
    cursor_shape_ = parameters_ != " " && parameters_ != "0 ";
  else if (final == 'p' && parameters_ == "!")
    forget(true);
}

void terminal_modes::take_private(char final) {
  if (final != 'h' && final != 'l')
    return;
  const bool on = final == 'h';
  for (auto mode : numbers_in(std::string_view{parameters_}.substr(1))) {
    private_modes_.erase(mode);
    if (on != is_on_by_default(mode))
      private_modes_[mode] = on;
    // Each of these leaves the other screen, whichever entered it.
    if (!on && is_alternate_screen(mode))
      for (auto other : alternate_screen_modes)
        private_modes_.erase(other);
  }
}

/// The program has reset the terminal.
void terminal_modes::forget(bool keeps_screen) {
  auto modes = std::exchange(private_modes_, {});
  std::erase_if(modes, [&](const auto& m) { return !keeps_screen || !is_alternate_screen(m.first); });
  *this = {};
  private_modes_ = std::move(modes);
}

std::string terminal_modes::undo() const {
  std::string out;
  if (keyboard_pushes_ > 0)
    out += "\x1b[<" + std::to_string(keyboard_pushes_) + "u";
  if (other_keys_)
    out += "\x1b[>4m";
  if (region_) // moves the cursor
    out += "\x1b"
           "7\x1b[r\x1b"
           "8";
  if (charset_)
    out += "\x1b(B";
  if (cursor_shape_)
    out += "\x1b[0 q";
  if (keypad_)
    out += "\x1b>";
  if (colours_)
    out += "\x1b[0m";
  for (const auto& [mode, on] : private_modes_)
    if (!is_alternate_screen(mode))
      out += set_mode(mode, !on);
  for (const auto& [mode, on] : private_modes_)
    if (is_alternate_screen(mode))
      out += set_mode(mode, !on);
  return out;
}

} // namespace swarm::cli
