// What an attached conversation looks like on a terminal: what was said scrolls by, and the last row is where a person types. Bytes for the terminal
// come out; nothing is written here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/verbs/chat_lines.hpp"

namespace swarm::cli {

class chat_screen {
public:
  chat_screen(std::size_t columns, bool colours) : columns_(columns), colours_(colours) {}

  /// Whole lines. What was streamed and has no end yet ends before them.
  std::string lines(const chat_text&);
  /// More of a text that is being said. It shows at once, wrapped at the terminal's edge.
  std::string stream(std::string_view more, colour);
  /// The streamed text is over.
  std::string end_stream() { return lines({}); }
  /// The row to type in: `hint` before it, and the place in `line` where typing goes on, in bytes.
  std::string typing(const std::string& hint, const std::string& line, std::size_t place);
  std::string resize(std::size_t columns);
  /// Everything below what was said is taken away, for whoever gets the terminal next.
  std::string leave();

private:
  std::string erase();
  std::string draw();
  std::string commit();
  std::string painted(colour, std::string_view text) const;

  std::size_t columns_;
  bool colours_;
  std::string tail_; // of the streamed text, what stands on the row above the one to type in
  colour tail_colour_ = colour::none;
  bool tail_shown_ = false;
  std::string hint_, line_;
  std::size_t place_ = 0;
};

} // namespace swarm::cli
