#include "actors/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "actors/base/limits.hpp"

namespace swarm {

namespace {

/// Bytes of the UTF-8 sequence at the start of `s`; 0 if it is malformed. `s` must not be empty.
std::size_t sequence(std::string_view s) {
  auto at = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  auto tail = [&](std::size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  auto c = at(0);
  if (c < 0x80)
    return 1;
  if (c >= 0xc2 && c <= 0xdf)
    return tail(1) ? 2 : 0;
  if (c >= 0xe0 && c <= 0xef) {
    if (!tail(1) || !tail(2) || (c == 0xe0 && at(1) < 0xa0) || (c == 0xed && at(1) > 0x9f))
      return 0;
    return 3;
  }
  if (c >= 0xf0 && c <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3) || (c == 0xf0 && at(1) < 0x90) || (c == 0xf4 && at(1) > 0x8f))
      return 0;
    return 4;
  }
  return 0;
}

std::string escape(unsigned char c) { return concat({"\\x", hex(c, 2)}); }

std::uint32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  std::uint32_t out = sequence.size() == 1 ? first : first & (0x7fu >> sequence.size());
  for (auto c : sequence.substr(1))
    out = out << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return out;
}

/// It takes no room, or changes the direction of what is beside it: a command could look like another one.
bool is_unseen(std::uint32_t c) {
  constexpr std::pair<std::uint32_t, std::uint32_t> ranges[] = {
    {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
  };
  return std::any_of(std::begin(ranges), std::end(ranges), [c](const auto& r) { return r.first <= c && c <= r.second; });
}

} // namespace

piece::piece(long long n) : text_(digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), n).ptr - digits_.data()) {}
piece::piece(unsigned long long n) : text_(digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), n).ptr - digits_.data()) {}

std::string concat(std::initializer_list<piece> pieces) {
  std::size_t size = 0;
  for (const auto& p : pieces)
    size += p.text().size();
  std::string out;
  out.reserve(size);
  for (const auto& p : pieces)
    out += p.text();
  return out;
}

std::string fixed(double value, int digits) {
  constexpr int digits_max = 64;
  std::array<char, 1 + std::numeric_limits<double>::max_exponent10 + 1 + 1 + digits_max> text; // sign, whole digits, point, digits
  auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, std::clamp(digits, 0, digits_max)).ptr;
  return {text.data(), end};
}

std::string hex(std::uint64_t value, std::size_t digits) {
  std::array<char, 16> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  auto size = static_cast<std::size_t>(end - text.data());
  return std::string(digits > size ? digits - size : 0, '0').append(text.data(), size);
}

std::string escape_control(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto n = sequence(text);
    auto c = static_cast<unsigned char>(text[0]);
    bool c1 = n == 2 && c == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (n == 0)
      out += escape(c), n = 1;
    else if (c1)
      out += escape(static_cast<unsigned char>(text[1]));
    else if (n == 1 && (c < 0x20 || c == 0x7f) && c != '\t' && !(c == '\n' && keep_newlines))
      out += c == '\n' ? "\\n" : escape(c);
    else if (const auto point = code_point(text.substr(0, n)); is_unseen(point))
      out += concat({"\\u", hex(point, 4)});
    else
      out += text.substr(0, n);
    text.remove_prefix(n);
  }
  return out;
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes)
    return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0u) == 0x80u)
    --bytes;
  return text.substr(0, bytes);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    auto n = sequence(text);
    if (n == 0)
      return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    auto n = sequence(bytes);
    if (n == 0)
      out += "\xef\xbf\xbd", n = 1;
    else
      out += bytes.substr(0, n);
    bytes.remove_prefix(n);
  }
  return out;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view{} : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos)
    return std::string{word};
  std::string out = "'";
  for (auto c : word)
    out += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return out + "'";
}

bool is_plain_name(std::string_view name) noexcept {
  // Not std::isalnum: a locale may know more letters.
  auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= limits::id_bytes_max && std::all_of(name.begin(), name.end(), plain);
}

std::size_t utf16_length(std::string_view text) {
  std::size_t units = 0;
  for (auto c : text) {
    auto b = static_cast<unsigned char>(c);
    if ((b & 0xc0u) != 0x80u)
      units += b >= 0xf0 ? 2 : 1;
  }
  return units;
}

std::string duration(std::int64_t ms) {
  if (ms < 1000)
    return concat({ms, " ms"});
  if (ms < 60'000)
    return concat({ms / 1000, ".", ms % 1000 / 100, " s"});
  auto s = ms / 1000;
  if (s < 3600)
    return concat({s / 60, " min ", s % 60, " s"});
  if (s < 86'400)
    return concat({s / 3600, " h ", s % 3600 / 60, " min"});
  return concat({s / 86'400, " d ", s % 86'400 / 3600, " h"});
}

} // namespace swarm
