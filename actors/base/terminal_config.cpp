#include "actors/base/terminal_config.hpp"

#include <algorithm>

namespace swarm {

std::optional<char> parse_detach_key(std::string_view text) {
  if (text.size() == 1)
    return text[0];
  constexpr std::string_view named = "ctrl-";
  auto begins_so = [&] {
    return text.size() == named.size() + 1 && std::equal(named.begin(), named.end(), text.begin(), [](char a, char b) { return a == (b | 0x20); });
  };
  if (begins_so())
    text.remove_prefix(named.size());
  else if (text.size() == 2 && text[0] == '^')
    text.remove_prefix(1);
  else
    return std::nullopt;
  auto c = text[0] >= 'a' && text[0] <= 'z' ? static_cast<char>(text[0] - 'a' + 'A') : text[0];
  if (c < '@' || c > '_')
    return std::nullopt;
  return static_cast<char>(c - '@');
}

const config_registry& terminal_registry() {
  static const config_registry registry{{{
    .section = "terminal",
    .name = "detach_key",
    .kind = config_kind::text,
    .fallback = "\"ctrl-]\"",
    .reader = "swarmctl",
    .effect = "next command",
    .help = "the key that leaves an attached terminal, such as `ctrl-a`",
    .objection = [](std::string_view text) { return parse_detach_key(text) ? std::string{} : std::string{detach_key_words}; },
  }}};
  return registry;
}

result<terminal_config, std::string> read_terminal_config(const std::filesystem::path& file) {
  const auto document = read_config(file, terminal_registry());
  if (!document.faults.empty())
    return document.faults.front().told(file.string());
  terminal_config out;
  if (const auto* e = document.find("terminal", "detach_key"))
    out.detach_key = *parse_detach_key(std::get<std::string>(e->value));
  return out;
}

} // namespace swarm
