#include "actors/base/json_text.hpp"

#include <charconv>
#include <optional>

#include "actors/base/text.hpp"

namespace swarm {

namespace {

/// The number that \uXXXX stands for, if that is what the text begins with.
std::optional<unsigned> escaped_unit(std::string_view text) {
  constexpr std::size_t length = 6;
  if (text.size() < length || text[0] != '\\' || text[1] != 'u')
    return std::nullopt;
  unsigned out = 0;
  const auto* end = text.data() + length;
  auto [stopped, error] = std::from_chars(text.data() + 2, end, out, 16);
  return error == std::errc{} && stopped == end ? std::optional{out} : std::nullopt;
}

bool is_first_half(std::optional<unsigned> unit) { return unit && *unit >= 0xd800 && *unit < 0xdc00; }
bool is_second_half(std::optional<unsigned> unit) { return unit && *unit >= 0xdc00 && *unit < 0xe000; }

} // namespace

std::string with_whole_characters(std::string_view json) {
  auto out = to_utf8(json);
  constexpr std::size_t length = 6;
  for (auto at = out.find('\\'); at != out.npos && at + 1 < out.size(); at = out.find('\\', at)) {
    const auto rest = std::string_view{out}.substr(at);
    const auto unit = escaped_unit(rest);
    if (is_first_half(unit) && is_second_half(escaped_unit(rest.substr(length)))) {
      at += 2 * length;
    } else if (is_first_half(unit) || is_second_half(unit)) {
      out.replace(at, length, "\\ufffd");
      at += length;
    } else {
      at += 2;
    }
  }
  return out;
}

} // namespace swarm
