#include "cli/config.hpp"

// As in actors/base/limits_config.cpp: a malformed file is refused, not asserted.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "cli/edit/file.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace {

toml::table parse(std::string text, const std::string& file) {
  auto wrong = [&](std::size_t line, std::string_view why) { return failure(code::refused, concat({file, ":", line, ": ", why})); };
  if (text.size() > limits::configuration_bytes_max)
    throw failure(code::refused, concat({file, ": is larger than ", limits::configuration_bytes_max / limits::kib, " KiB"}));
  if (auto unfit = make_fit_for_toml(text))
    throw wrong(unfit->line, unfit->text);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw wrong(e.source().begin.line, e.description());
  }
}

} // namespace

terminal_config read_terminal_config(const std::filesystem::path& file) {
  terminal_config out;
  auto bytes = file.empty() ? std::nullopt : read_settings(file).bytes;
  if (!bytes)
    return out;
  const auto parsed = parse(std::move(*bytes), file.string());
  const auto* terminal = parsed["terminal"].as_table();
  if (!terminal)
    return out;
  for (const auto& [key, value] : *terminal) {
    auto where = concat({file.string(), ":", value.source().begin.line, ": "});
    auto text = value.value_exact<std::string>();
    if (key.str() != "detach_key")
      throw failure(code::refused, concat({where, "unknown key \"", key.str(), "\" in [terminal]; there is detach_key"}));
    if (!text)
      throw failure(code::refused, where + "detach_key must be a text in quotes, for instance \"ctrl-]\"");
    out.detach_key = std::move(*text);
  }
  return out;
}

} // namespace swarm::cli
