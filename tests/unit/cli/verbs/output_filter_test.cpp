// What of a program's output reaches the terminal, the pipe or the file of the user who dispatched it.
#include "cli/verbs/output_filter.hpp"

#include <random>
#include <string>

#include <doctest/doctest.h>

using swarm::cli::output_filter;
using target = output_filter::target;

namespace {

std::string shown(target t, const std::string& bytes) {
  output_filter f{t};
  auto out = f.take(bytes);
  return out + f.finish();
}

} // namespace

TEST_CASE("on a terminal colours and progress pass, and nothing else drives it") {
  CHECK(shown(target::terminal, "\x1b[1;31mred\x1b[0m\r\n") == "\x1b[1;31mred\x1b[0m\n");
  CHECK(shown(target::terminal, "10%\r20%\x1b[K\r") == "10%\r20%\x1b[K\r");
  CHECK(shown(target::terminal, "\x1b[2J\x1b]0;title\x07x") == "\\x1b[2J\\x1b]0;title\\x07x");
  CHECK(shown(target::terminal, "\x1b[?1049h") == "\\x1b[?1049h");
  CHECK(shown(target::terminal, "tab\there\n") == "tab\there\n");
}

TEST_CASE("in a pipe there is plain text with the lines' ends of text, and a worker on pipes is passed on byte by byte") {
  CHECK(shown(target::text, "\x1b[32mok\x1b[m\r\nnext\r\n") == "ok\nnext\n");
  CHECK(shown(target::text, "a\rb") == "a\rb");
  CHECK(shown(target::text, "\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K in \x1b[2Kfile\r\n") == "match in file\n");
  CHECK(shown(target::text, "\x1b[2J\x1b[H") == "\x1b[2J\x1b[H");
  const std::string binary{"\x00\x1b[31m\xff\r\n", 9};
  CHECK(shown(target::bytes, binary) == binary);
}

TEST_CASE("the cuts between pieces of output do not matter") {
  const std::string all = "plain ä \x1b[38;5;9mcolour\x1b[0m 1%\r2%\r\n\x1b[2Kx\x1b[?25l € end\r\n\x1b[";
  for (auto t : {target::terminal, target::text}) {
    auto expected = shown(t, all);
    for (unsigned seed = 0; seed < 300; ++seed) {
      std::mt19937 rng(seed);
      output_filter f{t};
      std::string out;
      for (std::size_t at = 0; at < all.size();) {
        auto n = 1 + rng() % 6;
        out += f.take(std::string_view{all}.substr(at, n));
        at += n;
      }
      CHECK(out + f.finish() == expected);
    }
  }
}
