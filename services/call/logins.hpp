// Terminals whose person has shown the passphrase (`swarmctl login`). docs/security.md says what that is for.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "services/call/kernel_session.hpp"
#include "services/security/failure.hpp"

namespace swarm {

/// Kept in memory only: a node that starts again asks again. Thread-safe; what takes a passphrase blocks for some tenths of a second.
class login_registry {
public:
  /// `hash_file`: what is kept of the passphrase. `boot_ms`: time that goes on while the machine sleeps.
  login_registry(std::filesystem::path hash_file, std::function<std::int64_t()> boot_ms)
    : hash_file_(std::move(hash_file)), boot_ms_(std::move(boot_ms)) {}

  /// The person of that terminal has shown the passphrase, and its time is not over.
  bool is_person(const kernel_session&) const;

  /// Somebody has shown it since the node began.
  bool any() const;
  bool has_passphrase() const;
  /// How long it is valid, in milliseconds.
  security_result<std::int64_t> login(const kernel_session&, std::string_view passphrase);
  bool logout(const kernel_session&);
  std::size_t logout_all();
  /// Sets it, or removes it with an empty one, and ends every login. `from` is the terminal whose wrong words are counted.
  std::optional<security_failure> set_passphrase(const kernel_session& from, std::string_view former, std::string_view fresh);

private:
  security_result<std::string> stored_hash() const;
  /// Refuses when too many were wrong, else compares.
  std::optional<security_failure> check(const kernel_session&, std::string_view passphrase);
  bool too_many_wrong(const kernel_session&);

  const std::filesystem::path hash_file_;
  const std::function<std::int64_t()> boot_ms_;
  std::mutex checking_; // one passphrase at a time: each takes much memory
  mutable std::mutex mutex_;
  std::map<kernel_session, std::int64_t> until_ms_; // guarded by mutex_, as the next
  std::deque<std::pair<std::int64_t, kernel_session>> wrong_;
};

} // namespace swarm
