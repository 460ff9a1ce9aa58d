#include "actors/store/conversation/cursor.hpp"

#include <sodium.h>

#include "actors/base/crc32c.hpp"
#include "actors/store/conversation/numbers.hpp"

namespace swarm {

namespace {

constexpr char version = 1;
/// Version, epoch, offset, mark, open bytes and their mark, check. A multiple of three, so that each text has one value and each value one text.
constexpr std::size_t raw_bytes = 1 + 8 + 8 + 4 + 4 + 4 + 4;
constexpr std::size_t text_bytes = raw_bytes / 3 * 4;
static_assert(raw_bytes % 3 == 0);
constexpr auto variant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

} // namespace

std::string to_text(const log_cursor& c) {
  std::string raw(1, version);
  put_number(raw, c.epoch);
  put_number(raw, c.at.offset);
  put_number(raw, c.at.mark);
  put_number(raw, c.open_bytes);
  put_number(raw, c.open_mark);
  put_number(raw, crc32c(raw));
  std::string out(text_bytes + 1, '\0'); // sodium ends it with a zero
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(raw.data()), raw.size(), variant);
  out.resize(text_bytes);
  return out;
}

std::optional<log_cursor> parse_cursor(std::string_view text) {
  if (text.size() != text_bytes)
    return std::nullopt;
  std::string raw(raw_bytes, '\0');
  std::size_t n = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(raw.data()), raw.size(), text.data(), text.size(), nullptr, &n, nullptr, variant) != 0 ||
      n != raw_bytes || raw.front() != version)
    return std::nullopt;
  std::string_view rest{raw};
  rest.remove_prefix(1);
  log_cursor out;
  out.epoch = take_number<std::uint64_t>(rest);
  out.at.offset = take_number<std::uint64_t>(rest);
  out.at.mark = take_number<log_mark>(rest);
  out.open_bytes = take_number<std::uint32_t>(rest);
  out.open_mark = take_number<log_mark>(rest);
  // libsodium takes bytes above 127 for letters.
  if (to_text(out) != text)
    return std::nullopt;
  return out;
}

} // namespace swarm
