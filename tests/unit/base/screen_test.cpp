#include "actors/base/screen.hpp"

#include <random>

#include <doctest/doctest.h>

using namespace swarm;

TEST_CASE("a screen shows its rows, where the cursor stands, and whether it can be seen") {
  screen s{20, 3};
  s.write("one\r\n> two\x1b[2D");
  auto v = s.view();
  CHECK(v.rows == std::vector<std::string>{"one", "> two", ""});
  CHECK(v.cursor_row == 1);
  CHECK(v.before_cursor == "> t");
  CHECK(v.after_cursor == "wo");
  CHECK(v.cursor_is_seen);
  s.write("\x1b[?25l");
  CHECK_FALSE(s.view().cursor_is_seen);
  s.write("\x1b[7mw\x1b[27m\x1b[D");
  CHECK(s.view().cursor_is_seen); // drawn by the program
}

TEST_CASE("what scrolls off is kept as far as it was asked for, and a new size keeps what is on the screen") {
  screen s{20, 2, 2};
  s.write("1\r\n2\r\n3\r\n4\r\n5");
  CHECK(s.history() == std::vector<std::string>{"2", "3"});
  CHECK(s.view().rows == std::vector<std::string>{"4", "5"});
  s.resize(30, 4);
  CHECK(s.view().rows.size() == 4);
  s.write("\x1b[2J\x1b[4;29Hxy");
  CHECK(s.view().rows[3] == std::string(28, ' ') + "xy");
  screen none{20, 1};
  none.write("1\r\n2");
  CHECK(none.history().empty());
}

TEST_CASE("a screen is the same however its output is cut into pieces, and any bytes do it no harm") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const std::vector<std::string> parts{"text ", "❯ ",        "\r\n",      "\x1b[3;4H", "\x1b[7m",     "\x1b[27m",    "\x1b[2K", "\x1b]0;t\x07",
                                         "漢字",  "\x1b[?25l", "\x1b[?25h", "\xff\xfe",  "\x1b[?1049h", "\x1b[?1049l", "\x1b[2J"};
    std::string output;
    for (int i = 0; i < 80; ++i)
      output += parts[random() % parts.size()];
    screen whole{40, 10}, cut{40, 10};
    whole.write(output);
    for (std::size_t at = 0; at < output.size();) {
      auto n = 1 + random() % 7;
      cut.write(std::string_view{output}.substr(at, n));
      at += n;
    }
    auto a = whole.view(), b = cut.view();
    CHECK(a.rows == b.rows);
    CHECK(a.cursor_row == b.cursor_row);
    CHECK(a.before_cursor == b.before_cursor);
    CHECK(a.cursor_is_seen == b.cursor_is_seen);
  }
}
