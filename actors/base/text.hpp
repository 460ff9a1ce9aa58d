// Text helpers shared by programs.
#pragma once

#include <string>
#include <string_view>

namespace swarm {

/// Control characters (C0, DEL, C1) and malformed UTF-8 become visible escapes such as \x1b; tab and, if `keep_newlines`,
/// newline stay. For anything an agent or peer wrote that is shown on a terminal.
std::string escape_control(std::string_view text, bool keep_newlines = true);
/// At most `bytes` bytes, cut at a character boundary.
std::string_view utf8_prefix(std::string_view text, std::size_t bytes);
/// Valid UTF-8 without surrogates or overlong forms.
bool is_utf8(std::string_view text);
/// The text with every malformed byte replaced by U+FFFD.
std::string to_utf8(std::string_view bytes);
/// Length in UTF-16 code units, as swarm-mcp counts.
std::size_t utf16_length(std::string_view text);
/// Without the blanks (space, \t, \r, \n, \v, \f) at both ends.
std::string_view trimmed(std::string_view text) noexcept;
/// Letters, digits, - and _ only, and not longer than an id: as a file's name it cannot leave its directory.
bool is_plain_name(std::string_view name) noexcept;

} // namespace swarm
