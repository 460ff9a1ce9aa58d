// Thin names over libsodium and OpenSSL; no cryptography of our own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace swarm {

/// 32 raw bytes.
std::string sha256(std::string_view data);
std::string to_hex(std::string_view bytes);
/// Empty when the text is not an even number of hex digits.
std::string from_hex(std::string_view text);
/// From the operating system.
std::string random_bytes(std::size_t n);
/// A random UUIDv4, lower case.
std::string random_uuid();
/// UUIDv4-shaped ids from a seed, for tests and replays.
std::function<std::string()> seeded_uuids(std::uint64_t seed);
/// 32 bytes that only the holder of the 32-byte key can make (BLAKE2b).
std::string keyed_hash(std::string_view key, std::string_view data);
/// In a time that does not depend on where they differ.
bool equal_secrets(std::string_view, std::string_view) noexcept;
/// UUIDv4-shaped, of at least 16 bytes.
std::string uuid_of(std::string_view bytes);
/// 36 characters, lower case, as all of ours are.
bool is_uuid(std::string_view) noexcept;

} // namespace swarm
