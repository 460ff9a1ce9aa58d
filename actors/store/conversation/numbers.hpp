// Numbers in files and cursors: little-endian, one behind the other.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace swarm {

template <std::integral T>
void put_number(std::string& to, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    to.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i)));
}

/// Takes it from the front of bytes that are long enough.
template <std::integral T>
T take_number(std::string_view& from) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    n |= static_cast<std::uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  from.remove_prefix(sizeof(T));
  return static_cast<T>(n);
}

} // namespace swarm
