#include "actors/agents/question_parts.hpp"

#include <algorithm>

#include "actors/agents/json_view.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

constexpr std::size_t cut_label_bytes = 60; // a choice that long may be the begin of a label
constexpr std::size_t number_bytes = 8;     // " (2)"

} // namespace

std::string_view question_part::choice::shown() const { return utf8_prefix(label, limits::question_label_bytes_max); }

std::string question_part::meant_by(const std::string& choice) const {
  const auto is = [&](const auto& c) { return c.label == choice; };
  if (std::any_of(choices.begin(), choices.end(), is))
    return choice;
  const auto begins = [&](const auto& c) { return choice.size() >= cut_label_bytes && c.label.starts_with(choice); };
  const auto one = std::find_if(choices.begin(), choices.end(), begins);
  return one != choices.end() && std::none_of(one + 1, choices.end(), begins) ? one->label : choice;
}

std::vector<question_part> question_parts(std::string_view input) {
  std::vector<question_part> out;
  for (const auto& q : json_view::of(input)["questions"].elements(limits::question_parts_max)) {
    question_part part{.text = q["question"].text(), .shown = {}, .many = q["multiSelect"].is_true()};
    const auto is_of_another = [&] {
      return std::any_of(out.begin(), out.end(), [&](const auto& p) { return p.shown == part.shown && p.text != part.text; });
    };
    part.shown = utf8_prefix(part.text, limits::question_part_bytes_max);
    for (int n = 2; is_of_another(); ++n) // long texts that begin alike
      part.shown = concat({utf8_prefix(part.text, limits::question_part_bytes_max - number_bytes), " (", n, ")"});
    for (const auto& o : q["options"].elements(limits::question_choices_max))
      part.choices.push_back({o["label"].text(), o["description"].text()});
    out.push_back(std::move(part));
  }
  return out;
}

} // namespace swarm::agents
