// The table [terminal] of config.toml. The command line uses it, and the node checks it when it starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "actors/base/config.hpp"
#include "actors/base/result.hpp"

namespace swarm {

/// "^]" and "ctrl-]" are Ctrl-], "^A", "^a" and "Ctrl-A" are Ctrl-A, any single other character is itself; nullopt for anything else.
std::optional<char> parse_detach_key(std::string_view text);
/// The text of an error about a value that is no detach key; the name of the setting goes before it.
inline constexpr std::string_view detach_key_words = " takes one character, or ctrl- (or ^) and a letter or one of [ ] \\ ^ _, for instance ctrl-]";

struct terminal_config {
  char detach_key = 0x1d; // Ctrl-]
};

/// The section [terminal] of config.toml.
const config_registry& terminal_registry();
/// As if the table were empty when there is no file. The failure is for people, with file and line.
result<terminal_config, std::string> read_terminal_config(const std::filesystem::path& file);

} // namespace swarm
