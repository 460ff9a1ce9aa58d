// What is undone on the terminal of somebody who leaves a program that goes on.
#include "cli/verbs/terminal_modes.hpp"

#include <random>
#include <string>

#include <doctest/doctest.h>

using swarm::cli::terminal_modes;

namespace {

std::string undo_of(std::string_view bytes) {
  terminal_modes m;
  m.take(bytes);
  return m.undo();
}

} // namespace

TEST_CASE("plain output, and modes that were set and reset again, leave nothing to undo") {
  CHECK(undo_of("make[1]: done\r\n\x1b[1;32mok\x1b[0m\r\n").empty());
  CHECK(undo_of("\x1b[?1049h\x1b[?2004h\x1b=\x1b[?2004l\x1b>\x1b[?1049l").empty());
  CHECK(undo_of("\x1b[?25l\x1b[?25h\x1b[?7h").empty());
  CHECK(undo_of("\x1b[?1047h\x1b[?1049l").empty());
  CHECK(undo_of("\x1b[?1049h\x1b[?1000h\x1b[31m\x1b"
                "c")
          .empty());
  CHECK(undo_of("\x1b[?1049h\x1b[?1000h\x1b[31m\x1b[!p") == "\x1b[?1049l"); // a soft reset stays on the screen
}

TEST_CASE("an editor that is left gives back the screen last, and before it mouse, keypad, paste, cursor and colours") {
  auto vim = "\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002;1006h\x1b[?25l\x1b[1;24r\x1b[38;5;130m";
  CHECK(undo_of(vim) == "\x1b"
                        "7\x1b[r\x1b"
                        "8\x1b>\x1b[0m\x1b[?1l\x1b[?25h\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?1049l");
}

TEST_CASE("keyboards, cursor shapes and character sets come back as they were") {
  CHECK(undo_of("\x1b[>1u\x1b[>5u") == "\x1b[<2u");
  CHECK(undo_of("\x1b[>1u\x1b[>5u\x1b[<u") == "\x1b[<1u");
  CHECK(undo_of("\x1b[>1u\x1b[<9u").empty());
  CHECK(undo_of("\x1b[>4;2m") == "\x1b[>4m");
  CHECK(undo_of("\x1b[>4;2m\x1b[>4;0m").empty());
  CHECK(undo_of("\x1b[5 q") == "\x1b[0 q");
  CHECK(undo_of("\x1b(0") == "\x1b(B");
}

TEST_CASE("what stands in a title or a device string is text") {
  CHECK(undo_of("\x1b]0;\x1b[?1049h\x07").empty());
  CHECK(undo_of("\x1bP$q\x1b[?25l\x1b\\").empty());
  CHECK(undo_of("\x1b]0;t\x1b\\\x1b[?25l") == "\x1b[?25h");
}

TEST_CASE("the cuts between pieces of output do not matter, and undoing leaves nothing to undo") {
  const std::string all = "a\x1b[?1049hb\x1b]2;title\x07\x1b[>1u\x1b[?1000;1006h\x1b[1;4m\x1b(0\x1b[3 qz\x1b[2;9r\x1b=";
  auto expected = undo_of(all);
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    terminal_modes m;
    for (std::size_t at = 0; at < all.size();) {
      auto n = 1 + rng() % 7;
      m.take(std::string_view{all}.substr(at, n));
      at += n;
    }
    CHECK(m.undo() == expected);
    m.take(expected);
    CHECK(m.undo().empty());
  }
}

TEST_CASE("any bytes are taken, and undoing them leaves nothing to undo") {
  const std::string alphabet = "\x1b[?>;<0123456789hlmruqpc=()B]P\\\x07 !\x18x";
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng(seed);
    std::string bytes;
    for (auto n = rng() % 300; n > 0; --n)
      bytes += alphabet[rng() % alphabet.size()];
    terminal_modes m;
    m.take(bytes);
    m.take("\x1b\\\x18"); // whatever began is over
    m.take(m.undo());
    CHECK(m.undo().empty());
  }
}
