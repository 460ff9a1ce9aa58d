// Where an agent's program takes what is typed: its input line, as its terminal shows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "actors/base/screen.hpp"

namespace swarm::agents {

/// What stands in the input line before the cursor. Programs break a line where they like, so it has no blanks.
struct input_line {
  std::string text;
  bool at_end = false; // nothing stands behind the cursor; with an empty text a hint may
};

/// Nothing when the screen shows no input line with a cursor in it, as while the program asks its user something. All programs draw it as a mark
/// (`>`, `❯`, `›`, `*`, or the bar of OpenCode) with the text behind it. A choice in a dialog may begin like one, but has no cursor.
std::optional<input_line> find_input_line(const screen_view&);

/// The text without its blanks, as find_input_line gives it.
std::string without_blanks(std::string_view);

} // namespace swarm::agents
