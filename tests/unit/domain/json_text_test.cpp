#include <doctest/doctest.h>

#include "actors/domain/json_text.hpp"

using namespace swarm;
using namespace swarm::domain;

namespace {

std::string object_of(std::size_t members) {
  std::string out = "{";
  for (std::size_t i = 0; i < members; ++i)
    out += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return out + "}";
}

} // namespace

TEST_CASE("an object with as many members as allowed is taken, one with more is refused") {
  CHECK(parse_json(object_of(limits::json_members_max)));
  CHECK_FALSE(parse_json(object_of(limits::json_members_max + 1)));
  CHECK_FALSE(parse_json("[" + object_of(limits::json_members_max + 1) + "]"));
}

TEST_CASE("members are counted for each object by itself, and colons in texts are no members") {
  auto full = object_of(limits::json_members_max);
  CHECK(parse_json("[" + full + "," + full + "]"));
  CHECK(parse_json("{\"a\":" + full + "}"));
  CHECK(parse_json("{\"a\":\"" + std::string(limits::json_members_max + 1, ':') + "\\\"::\"}"));
  CHECK_FALSE(has_more_members("}}::", 1)); // no object is open
}

TEST_CASE("half a character in somebody else's JSON becomes U+FFFD, and whole ones stay") {
  auto text = [](const std::string& in) -> std::string {
    auto value = parse_json_of_others("[\"" + in + "\"]");
    return value ? value->at(0).get<std::string>() : "no JSON";
  };
  const std::string half = "\xef\xbf\xbd";
  CHECK(text("a\\ud83d.c") == "a" + half + ".c");
  CHECK(text("a\\uDE00.c") == "a" + half + ".c");
  CHECK(text("\\ud83d\\ud83d\\ude00\\ud83d") == half + "\xf0\x9f\x98\x80" + half);
  CHECK(text("\\ud83d\\u0041") == half + "A");
  CHECK(text("\xf0\x9f") == text("\xf0") + half);
  CHECK(text("\xff\\ud83d") == half + half);
  // A backslash of its own, and whole characters.
  CHECK(text("\\\\ud83d \xff") == "\\ud83d " + half);
  CHECK(text("\\ud83d\\ude00 \xff") == "\xf0\x9f\x98\x80 " + half);
  CHECK(text("\\ud83") == "no JSON");
  CHECK_FALSE(parse_json("[\"\\ud83d\"]"));
}
