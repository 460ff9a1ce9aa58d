#include "actors/base/crypto.hpp"

#include <regex>
#include <set>

#include <doctest/doctest.h>

using namespace swarm;

namespace {

bool is_uuid4(const std::string& s) {
  static const std::regex form{"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"};
  return std::regex_match(s, form);
}

} // namespace

TEST_CASE("SHA-256 gives the published values") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abc").size() == 32);
}

TEST_CASE("hex goes both ways and refuses what is not hex") {
  CHECK(to_hex(std::string{"\x00\xff\x1a", 3}) == "00ff1a");
  CHECK(from_hex("00Ff1A") == std::string{"\x00\xff\x1a", 3});
  CHECK(from_hex("").empty());
  CHECK(from_hex("abc").empty());
  CHECK(from_hex("zz").empty());
  CHECK(from_hex("0x").empty());
  auto bytes = random_bytes(100);
  CHECK(from_hex(to_hex(bytes)) == bytes);
}

TEST_CASE("random bytes have the length asked for and do not repeat") {
  CHECK(random_bytes(0).empty());
  CHECK(random_bytes(32).size() == 32);
  CHECK(random_bytes(32) != random_bytes(32));
}

TEST_CASE("uuids have the form of version 4 and are distinct") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    auto id = random_uuid();
    CHECK(is_uuid4(id));
    seen.insert(id);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("seeded uuids repeat with their seed only") {
  auto a = seeded_uuids(1), b = seeded_uuids(1), c = seeded_uuids(2);
  for (int i = 0; i < 10; ++i) {
    auto id = a();
    CHECK(is_uuid4(id));
    CHECK(id == b());
    CHECK(id != c());
  }
}
