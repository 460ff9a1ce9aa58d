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
