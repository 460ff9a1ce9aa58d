#include "cli/verbs/chat_screen.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/text.hpp"
#include "cli/verbs/line_editor.hpp"

namespace swarm::cli {

namespace {

constexpr const char* line_end = "\r\n";
constexpr std::size_t columns_min = 20;

const char* code_of(colour c) {
  switch (c) {
    case colour::none: return "";
    case colour::green: return "32";
    case colour::red: return "31";
    case colour::yellow: return "33";
    case colour::cyan: return "36";
    case colour::dim: return "2";
    case colour::bold: return "1";
  }
  return "";
}

std::string without_tabs(std::string text) {
  if (text.find('\t') == text.npos)
    return text;
  std::string out;
  for (auto c : text)
    out.append(c == '\t' ? 4 : 1, c == '\t' ? ' ' : c);
  return out;
}

/// As it is shown while it is typed, in one row.
std::string one_row(std::string_view text) {
  std::string out;
  for (auto c : text)
    out += c == '\n' ? "⏎" : std::string(1, c);
  return without_tabs(escape_control(out, false));
}

} // namespace

std::string chat_screen::painted(colour c, std::string_view text) const {
  // The text comes from an agent.
  auto safe = without_tabs(escape_control(text, false));
  return !colours_ || c == colour::none || safe.empty() ? safe : concat({"\x1b[", code_of(c), "m", safe, "\x1b[0m"});
}

std::string chat_screen::erase() { return concat({"\r", std::exchange(tail_shown_, false) ? "\x1b[1A" : "", "\x1b[J"}); }

/// What was streamed stays as it stands.
std::string chat_screen::commit() { return tail_.empty() ? std::string{} : painted(tail_colour_, std::exchange(tail_, {})) + line_end; }

std::string chat_screen::draw() {
  std::string out;
  if (!tail_.empty()) {
    out += painted(tail_colour_, tail_) + line_end;
    tail_shown_ = true;
  }
  // Of a long line the part around the place is shown.
  const auto room = std::max(columns_, columns_min) - 1;
  const auto hint = std::string{one_row(hint_).substr(0, fitting(one_row(hint_), room / 2))};
  auto left = one_row(std::string_view{line_}.substr(0, place_));
  const auto free = room - columns_of(hint);
  while (columns_of(left) > free)
    left.erase(0, fitting(left, std::max<std::size_t>(columns_of(left) - free, 2)));
  const auto right = one_row(std::string_view{line_}.substr(place_));
  const auto shown = right.substr(0, fitting(right, free - columns_of(left)));
  out += painted(colour::bold, hint) + left + shown;
  if (!shown.empty())
    out += concat({"\x1b[", columns_of(shown), "D"});
  return out;
}

std::string chat_screen::lines(const chat_text& text) {
  auto out = erase() + commit();
  for (const auto& line : text)
    out += painted(line.paint, among_others(line)) + line_end;
  return out + draw();
}

std::string chat_screen::stream(std::string_view more, colour paint) {
  auto out = erase();
  if (paint != tail_colour_)
    out += commit();
  tail_colour_ = paint;
  const auto width = std::max(columns_, columns_min) - 1;
  while (!more.empty()) {
    const auto end = std::min(more.find('\n'), more.size());
    tail_ += without_tabs(escape_control(more.substr(0, end), false));
    // A line of megabytes takes as long as its rows do.
    const auto line = std::exchange(tail_, {});
    std::string_view rest{line};
    for (auto at = fitting(rest, width); at < rest.size(); at = fitting(rest, width)) {
      // Between words, where there are any.
      if (const auto blank = rest.substr(0, at + 1).rfind(' '); blank != rest.npos && blank > at / 2)
        at = blank;
      tail_ = rest.substr(0, at);
      out += commit();
      rest.remove_prefix(rest[at] == ' ' ? at + 1 : at);
    }
    tail_ = rest;
    if (end < more.size())
      out += tail_.empty() ? std::string{line_end} : commit();
    more.remove_prefix(std::min(end + 1, more.size()));
  }
  return out + draw();
}

std::string chat_screen::typing(const std::string& hint, const std::string& line, std::size_t place) {
  auto out = erase();
  hint_ = hint;
  line_ = line;
  place_ = place;
  return out + draw();
}

std::string chat_screen::resize(std::size_t columns) {
  auto out = erase();
  columns_ = columns;
  return out + draw();
}

std::string chat_screen::leave() {
  hint_.clear();
  line_.clear();
  place_ = 0;
  return erase() + commit();
}

} // namespace swarm::cli
