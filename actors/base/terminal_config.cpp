#include "actors/base/terminal_config.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

// As in actors/base/limits_config.cpp: a malformed file is refused, not asserted.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"

namespace swarm {

namespace {

result<terminal_config, std::string> parse(std::string text, const std::string& file) {
  auto at = [&](std::size_t line, std::string_view why) { return concat({file, ":", line, ": ", why}); };
  if (text.size() > limits::configuration_bytes_max)
    return concat({file, ": is larger than ", limits::configuration_bytes_max / limits::kib, " KiB"});
  if (auto unfit = make_fit_for_toml(text))
    return at(unfit->line, unfit->text);
  terminal_config out;
  try {
    const auto parsed = toml::parse(text);
    const auto* terminal = parsed["terminal"].as_table();
    if (!terminal)
      return out;
    for (const auto& [key, value] : *terminal) {
      const auto line = value.source().begin.line;
      if (key.str() != "detach_key")
        return at(line, concat({"unknown key \"", key.str(), "\" in [terminal]; there is detach_key"}));
      auto given = value.value_exact<std::string>();
      if (!given)
        return at(line, "detach_key must be a text in quotes, for instance \"ctrl-]\"");
      auto byte = parse_detach_key(*given);
      if (!byte)
        return at(line, concat({"detach_key in [terminal]", detach_key_words}));
      out.detach_key = *byte;
    }
  } catch (const toml::parse_error& e) {
    return at(e.source().begin.line, e.description());
  }
  return out;
}

} // namespace

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

result<terminal_config, std::string> read_terminal_config(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (file.empty() || (!std::filesystem::exists(file, unreadable) && !unreadable))
    return terminal_config{};
  std::string text(limits::configuration_bytes_max + 1, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    return file.string() + ": cannot be read";
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse(std::move(text), file.string());
}

} // namespace swarm
