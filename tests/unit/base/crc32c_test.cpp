#include <doctest/doctest.h>

#include <string>

#include "actors/base/crc32c.hpp"

using namespace swarm;

TEST_CASE("the checksum is CRC-32C of RFC 3720") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (int i = 0; i < 32; ++i)
    rising.push_back(static_cast<char>(i));
  CHECK(crc32c(rising) == 0x46dd794e);
}

TEST_CASE("the checksum of two pieces is that of the whole wherever it is cut") {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text.push_back(static_cast<char>(i * 37));
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    CHECK(crc32c(text.substr(cut), crc32c(text.substr(0, cut))) == crc32c(text));
}
