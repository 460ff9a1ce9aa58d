// Somebody else's TOML, edited in place: tables are added at the end, and only lines that are ours change.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swarm::cli {

using toml_path = std::vector<std::string>;
/// Keys and what stands behind the equals sign.
using toml_values = std::vector<std::pair<std::string, std::string>>;

/// A text as a TOML string.
std::string toml_quoted(const std::string&);

/// Makes the table hold these values; its other keys stay. A new table comes last, under `comment` (a line with its #, or empty).
/// Throws `unreadable` when the file is no TOML or the table is written in a way that cannot be edited line by line.
std::string toml_with_table(const std::string& text, const toml_path&, const toml_values&, const std::string& comment);
/// Takes the table and those below it away, and the comment above it. Throws `unreadable` as above.
std::string toml_without_table(const std::string& text, const toml_path&, const std::string& comment);
/// Something is in that place. Throws `unreadable` when the file is no TOML.
bool toml_has(const std::string& text, const toml_path&);
/// A text in that place. Throws `unreadable` when the file is no TOML.
std::optional<std::string> toml_text_at(const std::string& text, const toml_path&);

} // namespace swarm::cli
