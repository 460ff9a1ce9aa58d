// A private key as text, encrypted with a passphrase: libsodium's argon2id makes the passphrase into a key, its secretbox encrypts with
// it. The text is a header line, lines of letters each with a check of its own, and an end line, so that it can be printed and typed in
// again, and what was mistyped is found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "services/security/certificate.hpp"

namespace swarm {

/// What guessing one passphrase costs.
struct seal_cost {
  std::uint32_t passes = 3;
  std::uint32_t memory_kib = 256 * 1024;
};

/// What the text says, read but not opened.
struct sealed_key {
  bool encrypted = true;
  seal_cost cost;
  std::string salt;  // 16 bytes
  std::string nonce; // 24 bytes
  secret box;        // the key in DER, encrypted or not
};

secret write_sealed_key(const sealed_key&);
/// Blanks, empty lines and blanks around lines do not matter. too_costly: no cost of ours is near that.
security_result<sealed_key> parse_sealed_key(std::string_view text);

/// Takes as long and as much memory as `cost` says: most of a second.
security_result<secret> seal_key(const key_pair&, std::string_view passphrase, seal_cost cost = {});
/// A reader of the text has the key, and its first line says so.
security_result<secret> write_key_unsealed(const key_pair&);
/// The passphrase does not matter for a text that is not encrypted.
security_result<key_pair> open_key(std::string_view text, std::string_view passphrase);

} // namespace swarm
