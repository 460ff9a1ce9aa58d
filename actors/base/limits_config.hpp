// Overrides of limits from the node's configuration file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// One limit that can be configured; bytes, a count or milliseconds.
struct limit_setting {
  std::string_view name;
  std::uint64_t value = 0, lowest = 0, highest = 0;
};

/// Every limit that can be configured, with its present value, in the order of limits.hpp.
std::vector<limit_setting> limit_settings();

/// Takes the table `[limits]` of a TOML file (`name = integer`) over. All or nothing: a text for the user when the file cannot be
/// read or parsed, or names an unknown limit, a value outside of its range, or values that contradict each other. A file that does
/// not exist changes nothing. Call it before there is a second thread.
std::optional<std::string> configure_limits(const std::filesystem::path& file);
/// The same from the text of such a file.
std::optional<std::string> configure_limits_from(std::string_view text);

} // namespace swarm
