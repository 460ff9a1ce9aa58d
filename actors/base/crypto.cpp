#include "actors/base/crypto.hpp"

#include <memory>
#include <random>
#include <stdexcept>

#include <sodium.h>

namespace swarm {

namespace {

void need_sodium() {
  static const bool ready = sodium_init() >= 0;
  if (!ready)
    throw std::runtime_error("libsodium cannot be initialised");
}

std::string format_uuid(std::string bytes) {
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  auto h = to_hex(bytes);
  return h.substr(0, 8) + '-' + h.substr(8, 4) + '-' + h.substr(12, 4) + '-' + h.substr(16, 4) + '-' + h.substr(20);
}

} // namespace

std::string sha256(std::string_view data) {
  std::string out(crypto_hash_sha256_BYTES, '\0');
  // OpenSSL would read its configuration first: a millisecond of a hook, which is a whole process.
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(data.data()), data.size());
  return out;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (auto c : bytes) {
    auto b = static_cast<unsigned char>(c);
    out.push_back(digits[b >> 4]);
    out.push_back(digits[b & 15]);
  }
  return out;
}

std::string from_hex(std::string_view text) {
  auto value = [](char c) -> int {
    if (c >= '0' && c <= '9')
      return c - '0';
    if (c >= 'a' && c <= 'f')
      return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
      return c - 'A' + 10;
    return -1;
  };
  if (text.size() % 2 != 0)
    return {};
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    auto hi = value(text[i]), lo = value(text[i + 1]);
    if (hi < 0 || lo < 0)
      return {};
    out.push_back(static_cast<char>(hi * 16 + lo));
  }
  return out;
}

std::string random_bytes(std::size_t n) {
  need_sodium();
  std::string out(n, '\0');
  randombytes_buf(out.data(), out.size());
  return out;
}

std::string random_uuid() { return format_uuid(random_bytes(16)); }

std::function<std::string()> seeded_uuids(std::uint64_t seed) {
  return [rng = std::make_shared<std::mt19937_64>(seed)] {
    std::string bytes;
    for (int i = 0; i < 16; ++i)
      bytes.push_back(static_cast<char>((*rng)() & 0xff));
    return format_uuid(std::move(bytes));
  };
}

std::string keyed_hash(std::string_view key, std::string_view data) {
  need_sodium();
  std::string out(32, '\0');
  auto bytes = [](std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); };
  if (crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(), bytes(data), data.size(), bytes(key), key.size()) != 0)
    throw std::runtime_error("the key must have 16 to 64 bytes");
  return out;
}

bool equal_secrets(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string uuid_of(std::string_view bytes) { return format_uuid(std::string{bytes.substr(0, 16)}); }

bool is_uuid(std::string_view text) noexcept {
  constexpr std::string_view shape = "00000000-0000-0000-0000-000000000000";
  if (text.size() != shape.size())
    return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if (shape[i] == '-' ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
      return false;
  }
  return true;
}

} // namespace swarm
