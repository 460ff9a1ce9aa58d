// Text helpers shared by programs.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace swarm {

/// A part of a text: text, or a number as its digits. Refers to what it was made of, so it is for arguments only.
class piece {
public:
  piece(const char* text) : text_(text) {}
  piece(std::string_view text) : text_(text) {}
  piece(const std::string& text) : text_(text) {}
  piece(int n) : piece(static_cast<long long>(n)) {}
  piece(unsigned n) : piece(static_cast<unsigned long long>(n)) {}
  piece(long n) : piece(static_cast<long long>(n)) {}
  piece(unsigned long n) : piece(static_cast<unsigned long long>(n)) {}
  piece(long long n);
  piece(unsigned long long n);
  piece(bool) = delete;
  piece(char) = delete;
  piece(double) = delete; // how many digits? See fixed().
  piece(const piece&) = delete;
  piece& operator=(const piece&) = delete;

  std::string_view text() const { return text_; }

private:
  std::array<char, 20> digits_; // of any 64-bit number, with its sign
  std::string_view text_;
};

/// One after the other: concat({"the node ", name, " has ", n, " programs"}). Not a template: each use costs the compiler next to nothing.
std::string concat(std::initializer_list<piece>);
/// The number with this many digits after the point, from 0 to 64.
std::string fixed(double value, int digits);
/// 950 ms, 12.3 s, 4 min 10 s, 2 h 5 min, 3 d 4 h.
std::string duration(std::int64_t ms);
/// In hexadecimal, with zeros before it if it has fewer digits.
std::string hex(std::uint64_t value, std::size_t digits);

/// Control characters (C0, DEL, C1), characters that take no room or turn the direction of a text, and malformed UTF-8 become visible escapes such as
/// \x1b; tab and, if `keep_newlines`, newline stay. For anything an agent or peer wrote that is shown on a terminal.
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
/// One word for a POSIX shell, in single quotes unless it needs none.
std::string shell_quoted(std::string_view word);
/// Letters, digits, - and _ only, and not longer than an id: as a file's name it cannot leave its directory.
bool is_plain_name(std::string_view name) noexcept;

} // namespace swarm
