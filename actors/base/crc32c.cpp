#include "actors/base/crc32c.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace swarm {

namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes at a time are read as one number");

using table = std::array<std::uint32_t, 256>;

/// tables[k][b]: what byte b does to the checksum when k bytes follow it.
constexpr std::array<table, 8> make_tables() {
  constexpr std::uint32_t polynomial = 0x82f63b78; // Castagnoli's, bits reversed
  std::array<table, 8> out{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    auto sum = b;
    for (int bit = 0; bit < 8; ++bit)
      sum = (sum >> 1) ^ ((sum & 1) != 0 ? polynomial : 0);
    out[0][b] = sum;
  }
  for (std::size_t k = 1; k < out.size(); ++k)
    for (std::size_t b = 0; b < 256; ++b)
      out[k][b] = (out[k - 1][b] >> 8) ^ out[0][out[k - 1][b] & 0xff];
  return out;
}

constexpr auto tables = make_tables();

} // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) noexcept {
  auto sum = ~before;
  const auto* at = bytes.data();
  auto left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    eight ^= sum;
    sum = 0;
    for (std::size_t i = 0; i < 8; ++i)
      sum ^= tables[7 - i][(eight >> (8 * i)) & 0xff];
  }
  for (; left > 0; ++at, --left)
    sum = (sum >> 8) ^ tables[0][(sum ^ static_cast<unsigned char>(*at)) & 0xff];
  return ~sum;
}

} // namespace swarm
