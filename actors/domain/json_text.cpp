#include "actors/domain/json_text.hpp"

namespace swarm::domain {

bool nested_deeper(std::string_view text, int depth) {
  int now = 0;
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
    } else if (c == '[' || c == '{') {
      if (++now > depth)
        return true;
    } else if (c == ']' || c == '}') {
      --now;
    }
  }
  return false;
}

std::optional<json> parse_json(std::string_view text, int depth_max) {
  if (nested_deeper(text, depth_max))
    return std::nullopt;
  auto value = json::parse(text, nullptr, false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
}

} // namespace swarm::domain
