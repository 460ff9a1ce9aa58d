// A line that a person types at a terminal in raw mode: bytes in, what they mean out. It draws nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::cli {

class line_editor {
public:
  enum class event : std::uint8_t {
    none,
    changed,   // the line, or the place in it
    submitted, // Enter: take() gives the line
    interrupt, // ^C
    end,       // ^D with nothing typed
    redraw,    // ^L
  };
  event feed(char);
  /// The line that was submitted, or what stands there; it is empty then, and can be had back with the arrow up.
  std::string take();
  void clear();

  bool empty() const noexcept { return line_.empty(); }
  /// A key would be the first of a line, and none of a paste or of an escape sequence.
  bool at_begin() const noexcept { return line_.empty() && state_ == state::ground && !pasting_; }
  const std::string& line() const noexcept { return line_; }
  /// Bytes of the line before the place where typing goes on.
  std::size_t place() const noexcept { return place_; }

private:
  enum class state : std::uint8_t { ground, escape, control, single };
  event control(char final);
  event typed(char);
  event erase(std::size_t from, std::size_t to);
  event recall(int step);
  std::size_t before() const;
  std::size_t behind() const;
  std::size_t word_begin() const;

  std::string line_;
  std::size_t place_ = 0;
  state state_ = state::ground;
  std::string parameters_;
  bool pasting_ = false;
  std::vector<std::string> history_;
  std::size_t at_ = 0; // in the history; its size = the line that is being typed
  std::string kept_;   // that line while another one is shown
};

/// Columns that the text takes on a terminal. Control characters must have been escaped.
std::size_t columns_of(std::string_view text);
/// The longest begin that fits into so many columns, in bytes.
std::size_t fitting(std::string_view text, std::size_t columns);

} // namespace swarm::cli
