#include "services/security/passphrase.hpp"

#include <algorithm>
#include <array>

#include <sodium.h>

namespace swarm {

namespace {

bool is_ready() {
  static const bool ready = sodium_init() >= 0;
  return ready;
}

} // namespace

security_result<std::string> hash_passphrase(std::string_view passphrase) {
  std::array<char, crypto_pwhash_STRBYTES> out{};
  if (!is_ready() || crypto_pwhash_str_alg(out.data(), passphrase.data(), passphrase.size(), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                                           crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13) != 0)
    return security_failure{security_error::failed,
                            "the passphrase could not be hashed: that takes 64 MiB of memory, which the machine does not have free"};
  return std::string{out.data()};
}

bool is_passphrase_of(std::string_view hash, std::string_view passphrase) {
  std::array<char, crypto_pwhash_STRBYTES> text{};
  if (!is_ready() || hash.size() >= text.size())
    return false;
  std::copy(hash.begin(), hash.end(), text.begin());
  return crypto_pwhash_str_verify(text.data(), passphrase.data(), passphrase.size()) == 0;
}

void wipe(std::string& text) {
  sodium_memzero(text.data(), text.size());
  text.clear();
}

} // namespace swarm
