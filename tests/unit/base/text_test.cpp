#include "actors/base/text.hpp"

#include <limits>
#include <random>

#include <doctest/doctest.h>

using namespace swarm;

namespace {

std::string random_text(std::mt19937& rng) {
  static const std::string parts[] = {"a",    "\x1b[31m", "\n",   "\t",           "\xc3\xa9", "\xe2\x82\xac",      "\xf0\x9f\x98\x80",
                                      "\x80", "\xc3",     "\xff", "\xed\xa0\x80", "\x7f",     std::string(1, '\0')};
  std::string out;
  for (auto n = rng() % 20; n > 0; --n)
    out += parts[rng() % std::size(parts)];
  return out;
}

} // namespace

TEST_CASE("control characters and malformed bytes become visible escapes") {
  CHECK(escape_control("plain text") == "plain text");
  CHECK(escape_control("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(escape_control(std::string{"a\0b", 3}) == "a\\x00b");
  CHECK(escape_control("a\x7f") == "a\\x7f");
  CHECK(escape_control("a\rb") == "a\\x0db");
  CHECK(escape_control("\xc2\x9b"
                       "31m") == "\\x9b31m");
  CHECK(escape_control("\xc2\xa0") == "\xc2\xa0");
  CHECK(escape_control("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_control("caf\xc3\xa9 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xf0\x9f\x98\x80");
}

TEST_CASE("what takes no room or turns the direction of a text is shown so that no command looks like another one") {
  CHECK(escape_control("rm \xe2\x80\xae"
                       "gpj") == "rm \\u202egpj");
  CHECK(escape_control("a\xe2\x80\x8b"
                       "b\xef\xbb\xbf") == "a\\u200bb\\ufeff");
  CHECK(escape_control("\xe2\x81\xa6\xf3\xa0\x81\xa1") == "\\u2066\\ue0061");
  CHECK(escape_control("\xe2\x80\x93\xe2\x80\xa6\xe2\x9c\x94\xef\xb8\x8f") == "\xe2\x80\x93\xe2\x80\xa6\xe2\x9c\x94\xef\xb8\x8f");
}

TEST_CASE("tab stays, newline stays only when asked to") {
  CHECK(escape_control("a\tb\nc") == "a\tb\nc");
  CHECK(escape_control("a\tb\nc", false) == "a\tb\\nc");
}

TEST_CASE("an escaped text has no control characters and is valid, whatever went in") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng{seed};
    auto out = escape_control(random_text(rng), false);
    CHECK(is_utf8(out));
    for (unsigned char c : out)
      CHECK((c == '\t' || (c >= 0x20 && c != 0x7f)));
    CHECK(escape_control(out, false) == out);
  }
}

TEST_CASE("a prefix ends at a character") {
  CHECK(utf8_prefix("abc", 5) == "abc");
  CHECK(utf8_prefix("abc", 2) == "ab");
  CHECK(utf8_prefix("a\xc3\xa9", 2) == "a");
  CHECK(utf8_prefix("a\xc3\xa9", 3) == "a\xc3\xa9");
  CHECK(utf8_prefix("\xf0\x9f\x98\x80", 3).empty());
  CHECK(utf8_prefix("", 0).empty());
}

TEST_CASE("UTF-8 is strict") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("\xf4\x8f\xbf\xbf"));
  for (auto bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                   "\xe2\x82", "\xc3"})
    CHECK_FALSE(is_utf8(bad));
}

TEST_CASE("repairing gives valid text and leaves valid text alone") {
  CHECK(to_utf8("a\xff"
                "b") == "a\xef\xbf\xbd"
                        "b");
  CHECK(to_utf8("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 rng{seed};
    auto text = random_text(rng);
    auto out = to_utf8(text);
    CHECK(is_utf8(out));
    CHECK((is_utf8(text) ? out == text : out != text));
  }
}

TEST_CASE("length counts UTF-16 code units") {
  CHECK(utf16_length("") == 0);
  CHECK(utf16_length("abc") == 3);
  CHECK(utf16_length("\xc3\xa9\xe2\x82\xac") == 2);
  CHECK(utf16_length("\xf0\x9f\x98\x80") == 2);
}

TEST_CASE("texts and numbers are joined as they are") {
  CHECK(concat({}) == "");
  std::string name = "n1";
  CHECK(concat({"the node ", name, " has ", 3, " programs", std::string_view{"."}}) == "the node n1 has 3 programs.");
  CHECK(concat({std::numeric_limits<std::int64_t>::min(), " ", std::numeric_limits<std::uint64_t>::max()}) ==
        "-9223372036854775808 18446744073709551615");
  CHECK(concat({std::string("a\0b", 3)}).size() == 3);
}

TEST_CASE("numbers have the digits that are asked for") {
  CHECK(fixed(1.25, 1) == "1.2");
  CHECK(fixed(0.05, 0) == "0");
  CHECK(fixed(1e300, 1).size() == 303);
  CHECK(fixed(1.25, -1) == "1");
  CHECK(fixed(std::numeric_limits<double>::lowest(), 1'000).size() == 1 + 309 + 1 + 64);
  CHECK(hex(0, 2) == "00");
  CHECK(hex(0x1b, 2) == "1b");
  CHECK(hex(0x1234, 2) == "1234");
  CHECK(hex(std::numeric_limits<std::uint64_t>::max(), 16) == "ffffffffffffffff");
}
