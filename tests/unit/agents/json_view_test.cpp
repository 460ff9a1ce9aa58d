#include "actors/agents/json_view.hpp"

#include <doctest/doctest.h>

using namespace swarm::agents;

TEST_CASE("a value is found by its name and keeps its bytes") {
  const auto v = json_view::of(R"( { "a" : [ 1 , {"b":"}\\\""} ], "n" : -1.5e3 , "t":true,"s":"x\n\u00e4" , "e":{ }, "u":null} )");
  CHECK(v["a"].raw() == R"([ 1 , {"b":"}\\\""} ])");
  CHECK(v["a"].elements(9)[1]["b"].text() == R"(}\")");
  CHECK(v["n"].number() == -1500);
  CHECK(v["n"].count() == 0);
  CHECK(v["t"].is_true());
  CHECK(v["s"].text() == "x\n\u00e4");
  CHECK(v["e"].is_object());
  CHECK(v["u"].raw() == "null");
  CHECK_FALSE(v["none"].exists());
  CHECK_FALSE(v["s"]["none"].exists());
}

TEST_CASE("of several members with a name the last one is taken and a name may be written with escapes") {
  const auto v = json_view::of(R"({"a":1,"\u0061":2,"b":3})");
  CHECK(v["a"].count() == 2);
  const json_view::members m{v};
  CHECK(m["a"].count() == 2);
  CHECK(m["b"].count() == 3);
  CHECK(m.all().size() == 3);
  CHECK_FALSE(json_view::members(v, 2)["b"].exists());
}

TEST_CASE("what is no JSON or more than one value is nothing") {
  for (const char* wrong : {"", " ", "{", "{}{}", "[1,]", "{\"a\":}", "nul", "\"\\ud83d\"", "\"\xff\"", "{\"a\":\"\x01\"}"})
    CHECK_FALSE(json_view::of(wrong).exists());
  CHECK_FALSE(json_view::of(std::string_view{"{}\0", 3}).exists());
}

TEST_CASE("a value that is nested very deeply is passed over") {
  std::string deep;
  for (int i = 0; i < 200'000; ++i)
    deep += i % 2 == 0 ? "[" : "{\"a\":";
  deep += "1";
  for (int i = 199'999; i >= 0; --i)
    deep += i % 2 == 0 ? "]" : "}";
  const std::string text = "{\"deep\":" + deep + ",\"after\":7}";
  const auto v = json_view::of(text);
  CHECK(v["after"].count() == 7);
  CHECK(v["deep"].raw().size() == deep.size());
}

TEST_CASE("a text is quoted on one line and comes back") {
  for (const std::string text : {"", "a\nb\r\"\\", "\x01\u2028\u00e4"}) {
    auto quoted = json_quoted(text);
    CHECK(quoted.find('\n') == quoted.npos);
    CHECK(json_view::of(quoted).text() == text);
  }
  CHECK(json_view::of(json_quoted("\xff")).text() == "\ufffd");
}
