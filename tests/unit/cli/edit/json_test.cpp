// Editing somebody else's JSON: what is put in comes out again to the byte, and nothing around it moves.
#include <doctest/doctest.h>

#include "cli/edit/json.hpp"

using namespace swarm::cli;

namespace {

using path = json_text::path;

std::string with(const std::string& text, const path& where, const json& value) {
  json_text t{text};
  t.set(where, value);
  return t.text();
}

std::string without(const std::string& text, const path& where) {
  json_text t{text};
  t.erase(where);
  return t.text();
}

std::size_t line_refused(const std::string& text) {
  try {
    json_text t{text};
    return 0;
  } catch (const unreadable& e) {
    CHECK(std::string{e.what()}.rfind("line " + std::to_string(e.line) + ": ", 0) == 0);
    return e.line;
  }
}

} // namespace

TEST_CASE("a key is put into JSON of any style and taken out again to the byte") {
  const json entry{{"command", "/bin/x"}, {"args", json::array({"mcp"})}};
  for (const std::string text : {
         "{\n  \"a\": 1\n}\n",
         "{\n  \"a\": 1\n}",
         "{\n    \"a\": 1,\n    \"s\": {\n        \"x\": []\n    }\n}\n",
         "{\n\t\"a\": 1,\n\t\"s\": {\n\t\t\"x\": 1.50e3\n\t}\n}\n",
         "{\r\n  \"a\": 1,\r\n  \"s\": {\r\n    \"x\": 1\r\n  }\r\n}\r\n",
         "{\"a\":1,\"s\":{\"x\":\"}\"}}",
         "{\"a\": 1, \"s\": {\"x\": 1}}\n",
         "{ \"a\": 1 }",
         "{\n  // why\n  \"a\": 1, /* and */\n  \"s\": {\n    \"x\": 1, // the last\n  },\n}\n",
         "{\n  \"a\": 1, \"s\": {\n    \"x\": 1 // the last\n  }\n  // the end\n}\n",
         "\xef\xbb\xbf{\n  \"a\": \"\\u00e9 // no comment, no comma ,}\",\n  \"s\": {\"x\": [1,\n2]}\n}\n",
         "{\n  \"s\": {},\n  \"a\": 1\n}\n",
         "{\n  \"s\": { },\n  \"a\": 1\n}\n",
       }) {
    CAPTURE(text);
    for (const auto& where : {path{"k"}, path{"s", "k"}}) {
      bool held = where.size() == 1 || json_text{text}.find({"s"});
      auto changed = with(text, where, entry);
      CAPTURE(changed);
      json_text t{changed};
      REQUIRE(t.find(where));
      CHECK(*t.find(where) == entry);
      REQUIRE(t.find({"a"}));
      CHECK(*t.find({"a"}) == *json_text{text}.find({"a"}));
      CHECK(with(changed, where, entry) == changed);
      auto back = without(changed, held ? where : path{"s"});
      // An empty container with a blank in it closes up.
      if (text.find("{ }") == text.npos || where.size() == 1)
        CHECK(back == text);
    }
  }
}

TEST_CASE("the new lines look like their neighbours") {
  CHECK(with("{\n    \"a\": {\n        \"b\": 1\n    }\n}\n", {"a", "c"}, json{{"x", 1}}) ==
        "{\n    \"a\": {\n        \"b\": 1,\n        \"c\": {\n            \"x\": 1\n        }\n    }\n}\n");
  CHECK(with("{\"a\":1}", {"b", "c"}, true) == "{\"a\":1,\"b\":{\"c\":true}}");
  CHECK(with("", {"a"}, 1) == "{\n  \"a\": 1\n}\n");
  CHECK(with("  \n", {"a"}, 1) == "{\n  \"a\": 1\n}\n");
  CHECK(with("{}", {"a"}, 1) == "{\n  \"a\": 1\n}");
  CHECK(with("{\n  \"a\": 1, // one\n}\n", {"b"}, 2) == "{\n  \"a\": 1, // one\n  \"b\": 2,\n}\n");
  CHECK(with("{\n  \"a\": 1 // one\n}\n", {"b"}, 2) == "{\n  \"a\": 1, // one\n  \"b\": 2\n}\n");
}

TEST_CASE("items are added behind the last one and taken out anywhere") {
  CHECK(with("{\n  \"l\": [\n    1\n  ]\n}\n", {"l", "-"}, 2) == "{\n  \"l\": [\n    1,\n    2\n  ]\n}\n");
  CHECK(with("{\n  \"l\": [1, 2]\n}\n", {"l", "-"}, 3) == "{\n  \"l\": [1, 2, 3]\n}\n");
  CHECK(with("{\n  \"l\": []\n}\n", {"l", "-"}, "x") == "{\n  \"l\": [\n    \"x\"\n  ]\n}\n");
  CHECK(with("{}\n", {"h", "E", "-"}, 1) == "{\n  \"h\": {\n    \"E\": [\n      1\n    ]\n  }\n}\n");
  const std::string three = "{\n  \"l\": [\n    1,\n    // two\n    2,\n    3\n  ]\n}\n";
  CHECK(without(three, {"l", "0"}) == "{\n  \"l\": [\n    // two\n    2,\n    3\n  ]\n}\n");
  CHECK(without(three, {"l", "1"}) == "{\n  \"l\": [\n    1,\n    // two\n    3\n  ]\n}\n");
  CHECK(without(three, {"l", "2"}) == "{\n  \"l\": [\n    1,\n    // two\n    2\n  ]\n}\n");
  CHECK(without(three, {"l", "3"}) == three);
  CHECK(without(three, {"l", "x"}) == three);
  CHECK(without("{\"l\":[1]}", {"l", "0"}) == "{\"l\":[]}");
}

TEST_CASE("what stands behind what is taken out never becomes part of a comment") {
  CHECK(without("{\n  \"a\": 1, // one\n  \"b\": 2, \"c\": 3\n}\n", {"b"}) == "{\n  \"a\": 1, // one\n   \"c\": 3\n}\n");
  CHECK(without("{\n  \"a\": 1, // one\n  \"b\": 2 }\n", {"b"}) == "{\n  \"a\": 1 // one\n   }\n");
  CHECK(without("{ // none\n  \"b\": 2 }\n", {"b"}) == "{ // none\n   }\n");
  CHECK(without("{\n  \"l\": [ // of\n    1, 2 ]\n}\n", {"l", "0"}) == "{\n  \"l\": [ // of\n     2 ]\n}\n");
  CHECK(without("{\n  \"a\": 1, // one\n  \"b\": 2, // two\n  \"c\": 3\n}\n", {"b"}) == "{\n  \"a\": 1, // one\n   // two\n  \"c\": 3\n}\n");
}

TEST_CASE("a comma behind a comment is a comma") {
  const std::string text = "{\n  \"a\": 1 /* one */,\n}\n";
  CHECK(with(text, {"b"}, 2) == "{\n  \"a\": 1 /* one */,\n  \"b\": 2,\n}\n");
  CHECK(without(text, {"a"}) == "{ /* one */\n}\n");
  CHECK(without("{\"l\": [1, 2 /* two */,]}", {"l", "1"}) == "{\"l\": [1,]}");
}

TEST_CASE("a value is replaced where it stands, and of two keys of one name the last wins") {
  CHECK(with("{\n  \"a\": \"old\", // why\n  \"b\": 1\n}\n", {"a"}, "new") == "{\n  \"a\": \"new\", // why\n  \"b\": 1\n}\n");
  CHECK(with("{\"a\":1,\"a\":2}", {"a"}, 3) == "{\"a\":1,\"a\":3}");
  CHECK(without("{\"a\":1,\"b\":0,\"a\":2}", {"a"}) == "{\"b\":0}");
  // The order of keys does not make a value another one.
  const std::string text = "{\"s\":{\"y\":1,\"x\":2}}";
  CHECK(with(text, {"s"}, json{{"x", 2}, {"y", 1}}) == text);
}

TEST_CASE("what is not JSON is refused with its line, and what is in the way by name") {
  CHECK(line_refused("{\n  \"a\": 1,\n  \"b\" 2\n}\n") == 3);
  CHECK(line_refused("{\n  \"a\": \"x\n") == 2);
  CHECK(line_refused("[1]\n") == 1);
  CHECK(line_refused("7") == 1);
  CHECK(line_refused("\f") == 1); // no blank in JSON: it would be lost
  CHECK(line_refused("{} {}") == 1);
  CHECK(line_refused("{\n\n/* ") == 3);
  CHECK(line_refused("{\"a\": \"\xff\"}") == 1);
  CHECK(line_refused("{\"a\": 1e999}") == 1);
  CHECK(line_refused(std::string(300, '[')) == 1);
  std::string deep = "{\"a\":" + std::string(5'000, '[') + std::string(5'000, ']') + "}";
  CHECK(line_refused(deep) == 1);
  for (const auto& where : {path{"a", "b"}, path{"l", "k"}, path{"a", "-"}, path{"o", "-"}}) {
    json_text t{"{\n  \"a\": 1,\n  \"l\": [],\n  \"o\": {}\n}\n"};
    auto before = t.text();
    CHECK_THROWS_AS(t.set(where, 1), const unreadable&);
    CHECK(t.text() == before);
  }
}
