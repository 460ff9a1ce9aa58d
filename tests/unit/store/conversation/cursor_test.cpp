#include <doctest/doctest.h>

#include <random>

#include "actors/store/conversation/cursor.hpp"

using namespace swarm;

namespace {

log_cursor random_cursor(std::mt19937_64& dice) {
  auto some = [&dice] { return dice() >> (dice() % 64); };
  return {some(), {some(), static_cast<log_mark>(some())}, static_cast<std::uint32_t>(some()), static_cast<log_mark>(some())};
}

} // namespace

TEST_CASE("a cursor is one word for the outside and comes back as it was") {
  std::mt19937_64 dice{1};
  for (int i = 0; i < 1000; ++i) {
    const auto c = random_cursor(dice);
    const auto text = to_text(c);
    CHECK(text.size() == 44);
    CHECK(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == std::string::npos);
    REQUIRE(parse_cursor(text));
    CHECK(*parse_cursor(text) == c);
  }
}

TEST_CASE("a text in which any character differs, or that is longer or shorter, is no cursor") {
  std::mt19937_64 dice{2};
  const auto text = to_text(random_cursor(dice));
  for (std::size_t at = 0; at < text.size(); ++at)
    for (int c = 0; c < 256; ++c) {
      auto other = text;
      other[at] = static_cast<char>(c);
      if (other != text)
        CHECK_FALSE(parse_cursor(other));
    }
  CHECK_FALSE(parse_cursor(""));
  CHECK_FALSE(parse_cursor(text.substr(1)));
  CHECK_FALSE(parse_cursor(text.substr(0, 43)));
  CHECK_FALSE(parse_cursor(text + "A"));
  CHECK_FALSE(parse_cursor(text + "="));
  CHECK_FALSE(parse_cursor(std::string(44, 'A')));
}
