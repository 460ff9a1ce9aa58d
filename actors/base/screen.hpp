// What a terminal shows, from the bytes its program wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// What can be seen of a terminal at one moment.
struct screen_view {
  std::vector<std::string> rows; // without blanks at the end
  std::size_t cursor_row = 0;
  std::string before_cursor;   // of its row, blanks included
  std::string after_cursor;    // of its row, without blanks at the end; begins with what the cursor stands on
  bool cursor_is_seen = false; // the terminal shows it, or the program has drawn one there itself
};

/// A terminal's screen: no clock, no I/O. Output that begins in the middle is read as if it began there.
class screen {
public:
  /// Sizes of 0 mean 80 x 24; beyond 1000 they are 1000. Keeps `lines` of what scrolls off it.
  screen(std::uint32_t columns, std::uint32_t rows, std::size_t lines = 0);
  screen(screen&&) noexcept;
  screen& operator=(screen&&) noexcept;
  ~screen();

  /// Pieces may end anywhere.
  void write(std::string_view output);
  void resize(std::uint32_t columns, std::uint32_t rows);
  screen_view view() const;
  /// What has scrolled off it, oldest first.
  std::vector<std::string> history() const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace swarm
