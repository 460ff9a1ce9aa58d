#include "actors/agents/input_line.hpp"

#include <array>

namespace swarm::agents {

namespace {

using namespace std::string_view_literals;

constexpr std::array blanks{" "sv, "\xc2\xa0"sv /* no-break space */};
constexpr std::array frames{"│"sv, "┃"sv, "|"sv};
constexpr std::array marks{">"sv, "❯"sv, "›"sv, "*"sv};
/// OpenCode draws it beside each row of its input, and none with a text above that.
constexpr auto bar = "┃"sv;

template <class List>
bool take_any(std::string_view& text, const List& what) {
  for (auto w : what)
    if (text.starts_with(w)) {
      text.remove_prefix(w.size());
      return true;
    }
  return false;
}

template <class List>
bool drop_any(std::string_view& text, const List& what) {
  for (auto w : what)
    if (text.ends_with(w)) {
      text.remove_suffix(w.size());
      return true;
    }
  return false;
}

void skip_blanks(std::string_view& text) {
  while (take_any(text, blanks)) {
  }
}

void drop_blanks(std::string_view& text) {
  while (drop_any(text, blanks)) {
  }
}

/// A row of the screen: what it begins with, and its text.
struct row_parts {
  bool marked = false;
  bool barred = false;
  std::string_view text;
};

row_parts parts_of(std::string_view row) {
  row_parts out;
  skip_blanks(row);
  out.barred = row.starts_with(bar);
  take_any(row, frames);
  skip_blanks(row);
  auto rest = row;
  // A mark stands alone: `>>` and `*.txt` are text.
  if (!out.barred && take_any(rest, marks) && (rest.empty() || take_any(rest, blanks))) {
    out.marked = true;
    row = rest;
    skip_blanks(row);
  }
  out.text = row;
  return out;
}

std::string_view without_frame(std::string_view row) {
  drop_blanks(row);
  drop_any(row, frames);
  drop_blanks(row);
  return row;
}

} // namespace

std::string without_blanks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (take_any(text, blanks))
      continue;
    if (text.front() != '\n' && text.front() != '\t')
      out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

std::optional<input_line> find_input_line(const screen_view& view) {
  if (!view.cursor_is_seen || view.cursor_row >= view.rows.size())
    return std::nullopt;
  input_line out;
  out.at_end = without_frame(view.after_cursor).empty();
  auto row = parts_of(view.before_cursor);
  for (auto at = view.cursor_row;; row = parts_of(without_frame(view.rows[--at]))) {
    out.text.insert(0, without_blanks(row.text));
    if (row.marked)
      return out;
    const bool top = at == 0 || without_frame(view.rows[at - 1]).empty() || parts_of(without_frame(view.rows[at - 1])).text.empty();
    if (row.barred && (top || !parts_of(view.rows[at - 1]).barred))
      return out;
    // An empty row has no text that goes on from the one above; the cursor's has when that one is full.
    if (at == 0 || (row.text.empty() && at != view.cursor_row))
      return std::nullopt;
  }
}

} // namespace swarm::agents
