// The tokens that the home has given out: which count still, and which node came in with which. Kept across restarts as hashes.
// Any thread may call.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/security/failure.hpp"
#include "services/security/secret.hpp"

namespace swarm {

class join_tokens {
public:
  struct made {
    std::string id; // 16 bytes
    secret key;     // 32 bytes
    std::int64_t expires_ms = 0;
  };

  /// Of this directory, which must be there.
  static security_result<std::unique_ptr<join_tokens>> open(const std::filesystem::path& directory);

  /// For so many milliseconds; 0 = limits::join_token_lifetime.
  security_result<made> create(std::int64_t ttl_ms, std::int64_t now_ms);
  /// Nothing: this node may have a certificate for the key of its request, and from now on nobody else gets one with this token. The
  /// same node with the same key may come again, for as long as the token would count: the answer may have been lost. Who has neither
  /// a token nor its secret gets limits::join_attempts_per_minute_max tries a minute, all of them together.
  std::optional<security_failure> redeem(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der,
                                         std::int64_t now_ms);

  /// What redeem() would say, and the token is not used up; true: this node and key came in with it before. Wrong ones are tries, too.
  security_result<bool> check(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der, std::int64_t now_ms);

  /// Until when a token may still be answered, a used one too, whose node may ask again; 0 = there is none.
  std::int64_t open_until(std::int64_t now_ms) const;
  bool any_open(std::int64_t now_ms) const { return open_until(now_ms) > now_ms; }

private:
  struct entry {
    std::string id;
    std::string key_hash;
    std::int64_t expires_ms = 0;
    std::string claimant; // hash of the node and key that came in with it; empty = nobody yet
  };

  /// A token that is valid for the caller.
  struct claim {
    std::size_t at; // in entries_
    std::string claimant;
  };

  explicit join_tokens(std::filesystem::path file) : file_(std::move(file)) {}
  security_result<claim> look(std::string_view id, std::string_view key, std::string_view node_id, std::string_view csr_der, std::int64_t now_ms);
  std::optional<security_failure> store(const std::vector<entry>&) const;

  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::vector<entry> entries_; // in order of making
  std::deque<std::int64_t> refused_ms_;
};

} // namespace swarm
