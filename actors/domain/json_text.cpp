#include "actors/domain/json_text.hpp"

#include <vector>

#include "actors/base/json_text.hpp"

namespace swarm::domain {

namespace {

/// Calls `on` with each character outside texts until it returns true; says whether it did.
template <class On>
bool any_of_structure(std::string_view text, On on) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (on(c)) {
      return true;
    }
  }
  return false;
}

} // namespace

bool nested_deeper(std::string_view text, int depth) {
  int now = 0;
  return any_of_structure(text, [&](char c) {
    if (c == ']' || c == '}')
      --now;
    return (c == '[' || c == '{') && ++now > depth;
  });
}

bool has_more_members(std::string_view text, std::size_t members) {
  std::vector<std::size_t> open; // members of each object, outermost first
  return any_of_structure(text, [&](char c) {
    if (c == '{')
      open.push_back(0);
    else if (c == '}' && !open.empty())
      open.pop_back();
    return c == ':' && !open.empty() && ++open.back() > members;
  });
}

std::optional<json> parse_json(std::string_view text, int depth_max) {
  if (nested_deeper(text, depth_max) || has_more_members(text, limits::json_members_max))
    return std::nullopt;
  auto value = json::parse(text, nullptr, false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
}

std::optional<json> parse_json_of_others(std::string_view text) {
  auto value = parse_json(text);
  return value ? std::move(value) : parse_json(with_whole_characters(text));
}

std::string text_in(const json& object, std::string_view name) {
  auto i = object.find(name);
  return i != object.end() && i->is_string() ? i->get<std::string>() : std::string{};
}

} // namespace swarm::domain
