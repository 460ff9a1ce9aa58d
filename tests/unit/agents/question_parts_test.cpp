#include "actors/agents/question_parts.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/base/limits.hpp"

using namespace swarm::agents;
using nlohmann::json;

namespace {

json asked(const std::string& text, std::vector<std::string> labels = {"yes", "no"}, bool many = false) {
  json out{{"question", text}, {"multiSelect", many}, {"options", json::array()}};
  for (auto& l : labels)
    out["options"].push_back({{"label", l}, {"description", "why " + l}});
  return out;
}

std::vector<question_part> parts(json questions) { return question_parts(json{{"questions", std::move(questions)}}.dump()); }

} // namespace

TEST_CASE("a question has as many parts as an agent asks at once, each under a name of its own") {
  CHECK(question_parts("{}").empty());
  CHECK(question_parts("no json").empty());
  const auto five = parts({asked("1?"), asked("2?", {"a"}, true), asked("3?"), asked("4?"), asked("5?")});
  REQUIRE(five.size() == 4);
  CHECK(five[0].shown == "1?");
  CHECK_FALSE(five[0].many);
  CHECK(five[1].many);
  CHECK(five[1].choices.at(0).description == "why a");
  const std::string begin(2'000, 'q');
  const auto alike = parts({asked(begin + "1"), asked(begin + "2"), asked(begin + "1")});
  CHECK(alike[0].shown.size() == swarm::limits::question_part_bytes_max);
  CHECK(alike[1].shown.ends_with(" (2)"));
  CHECK(alike[1].text.ends_with("2"));
  CHECK(alike[2].shown == alike[0].shown); // the same question
}

TEST_CASE("a long choice is meant by the begin that is shown, unless two begin so") {
  const std::string long_one(300, 'a');
  const auto p = parts(json::array({asked("?", {long_one + "1", "b"})})).at(0);
  CHECK(p.choices[0].shown().size() == swarm::limits::question_label_bytes_max);
  CHECK(p.meant_by(std::string{p.choices[0].shown()}) == long_one + "1");
  CHECK(p.meant_by("own words") == "own words");
  const auto two = parts(json::array({asked("?", {long_one + "1", long_one + "2"})})).at(0);
  CHECK(two.meant_by(long_one) == long_one);
}
