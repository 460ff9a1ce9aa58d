#include "cli/verbs/line_editor.hpp"

#include <algorithm>
#include <utility>

namespace swarm::cli {

namespace {

constexpr std::size_t parameters_max = 16;
constexpr std::size_t history_max = 100;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

/// Of the character at the begin, with its length in bytes.
std::pair<std::uint32_t, std::size_t> character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  std::size_t length = 1;
  while (length < text.size() && length < 4 && continues(text[length]))
    ++length;
  std::uint32_t code = first < 0x80u ? first : first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    code = (code << 6u) | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {code, length};
}

std::size_t columns_of(std::uint32_t code) {
  constexpr std::pair<std::uint32_t, std::uint32_t> none[] = {{0x300, 0x36f}, {0x200b, 0x200f}, {0xfe00, 0xfe0f}};
  constexpr std::pair<std::uint32_t, std::uint32_t> two[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                                                             {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
  auto holds = [code](const auto& range) { return code >= range.first && code <= range.second; };
  return std::any_of(std::begin(none), std::end(none), holds) ? 0 : std::any_of(std::begin(two), std::end(two), holds) ? 2 : 1;
}

} // namespace

std::size_t columns_of(std::string_view text) {
  std::size_t out = 0;
  while (!text.empty()) {
    const auto [code, length] = character(text);
    out += columns_of(code);
    text.remove_prefix(length);
  }
  return out;
}

std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t used = 0; at < text.size();) {
    const auto [code, length] = character(text.substr(at));
    used += columns_of(code);
    if (used > columns)
      break;
    at += length;
  }
  return at;
}

std::string line_editor::take() {
  auto out = std::exchange(line_, {});
  place_ = 0;
  if (!out.empty() && (history_.empty() || history_.back() != out))
    history_.push_back(out);
  if (history_.size() > history_max)
    history_.erase(history_.begin());
  at_ = history_.size();
  return out;
}

void line_editor::clear() {
  line_.clear();
  place_ = 0;
  at_ = history_.size();
}

std::size_t line_editor::before() const {
  auto at = place_;
  while (at > 0 && continues(line_[--at]))
    ;
  return at;
}

std::size_t line_editor::behind() const {
  auto at = std::min(place_ + 1, line_.size());
  while (at < line_.size() && continues(line_[at]))
    ++at;
  return at;
}

std::size_t line_editor::word_begin() const {
  auto at = place_;
  while (at > 0 && line_[at - 1] == ' ')
    --at;
  while (at > 0 && line_[at - 1] != ' ' && line_[at - 1] != '\n')
    --at;
  return at;
}

line_editor::event line_editor::erase(std::size_t from, std::size_t to) {
  if (from == to)
    return event::none;
  line_.erase(from, to - from);
  place_ = from;
  return event::changed;
}

line_editor::event line_editor::recall(int step) {
  if ((step < 0 && at_ == 0) || (step > 0 && at_ >= history_.size()))
    return event::none;
  if (at_ == history_.size())
    kept_ = line_;
  at_ = step < 0 ? at_ - 1 : at_ + 1;
  line_ = at_ == history_.size() ? kept_ : history_[at_];
  place_ = line_.size();
  return event::changed;
}

line_editor::event line_editor::control(char final) {
  const auto given = std::exchange(parameters_, {});
  switch (final) {
    case 'A': return recall(-1);
    case 'B': return recall(1);
    case 'C': place_ = behind(); return event::changed;
    case 'D': place_ = before(); return event::changed;
    case 'H': place_ = 0; return event::changed;
    case 'F': place_ = line_.size(); return event::changed;
    case '~':
      if (given == "200" || given == "201")
        pasting_ = given == "200";
      if (given == "3")
        return erase(place_, behind());
      if (given == "1" || given == "7")
        place_ = 0;
      if (given == "4" || given == "8")
        place_ = line_.size();
      return event::changed;
    default: return event::none;
  }
}

line_editor::event line_editor::typed(char c) {
  line_.insert(place_, 1, c);
  ++place_;
  return event::changed;
}

line_editor::event line_editor::feed(char c) {
  constexpr char esc = '\x1b', backspace = '\x7f';
  switch (std::exchange(state_, state::ground)) {
    case state::ground: break;
    case state::escape:
      state_ = c == '[' ? state::control : c == 'O' ? state::single : state::ground;
      parameters_.clear();
      return event::none;
    case state::single: return control(c);
    case state::control:
      if (c >= 0x40 && c <= 0x7e)
        return control(c);
      if (parameters_.size() < parameters_max)
        parameters_ += c;
      state_ = state::control;
      return event::none;
  }
  if (c == esc) {
    state_ = state::escape;
    return event::none;
  }
  if (pasting_ && c == '\r')
    return typed('\n');
  switch (c) {
    case '\r': return event::submitted;
    case '\n':
    case '\t': return typed(c);
    case '\x01': place_ = 0; return event::changed;
    case '\x03': return event::interrupt;
    case '\x04': return line_.empty() ? event::end : erase(place_, behind());
    case '\x05': place_ = line_.size(); return event::changed;
    case '\x0b': return erase(place_, line_.size());
    case '\x0c': return event::redraw;
    case '\x15': return erase(0, place_);
    case '\x17': return erase(word_begin(), place_);
    case '\b':
    case backspace: return erase(before(), place_);
    default: return static_cast<unsigned char>(c) < 0x20u ? event::none : typed(c);
  }
}

} // namespace swarm::cli
