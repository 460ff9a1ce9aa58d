// CRC-32C (Castagnoli): notices damage, but not intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace swarm {

/// Of these bytes behind others whose checksum is `before`: crc32c(b, crc32c(a)) is that of a and b together.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;

} // namespace swarm
