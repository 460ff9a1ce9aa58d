// Sets limits from the table [limits] of config.toml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/config.hpp"

namespace swarm {

/// One limit that config.toml can set. The values are bytes, a count or milliseconds.
struct limit_setting {
  std::string_view name;
  std::uint64_t value = 0, lowest = 0, highest = 0;
};

/// Every limit that config.toml can set, with its present value.
std::vector<limit_setting> limit_settings();

/// The section [limits] of config.toml. Its defaults are the limits at the first call, so it is first called before one is set.
const config_registry& limits_registry();

/// Sets the limits that the section `[limits]` of a TOML file names (`name = integer`). Returns a text for the user, and sets none of them, when the
/// file cannot be read or parsed, names an unknown limit or a value out of its range, or when two values contradict each other; other sections are
/// not looked at. A missing file changes nothing. Call it before the process has a second thread.
std::optional<std::string> configure_limits(const std::filesystem::path& file);
/// The same with the text of such a file.
std::optional<std::string> configure_limits_from(std::string_view text);

} // namespace swarm
