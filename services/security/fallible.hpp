// What can fail here gives one of these: the value, or why there is none in words a person can act on. Never a secret in the words.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace swarm {

enum class security_error : std::uint8_t {
  /// Damaged, of another form, or longer than anything of its kind.
  malformed = 1,
  /// A token or a copy of which the end is missing.
  truncated,
  /// A token or a copy with a wrong character in it.
  mistyped,
  /// Made by a newer version of this program.
  newer_version,
  /// Not an EC P-256 key, or not the key that belongs to the certificate.
  wrong_key,
  /// Whoever asks for a certificate does not have the key.
  bad_signature,
  /// It does not count any more.
  expired,
  /// It does not count yet: one of the clocks is wrong.
  not_yet_valid,
  /// Of another cluster.
  other_cluster,
  /// The node was taken out of the cluster.
  revoked,
  wrong_passphrase,
  /// The authority's key is not in memory.
  locked,
  /// Opening it would take more memory or time than anything this program makes.
  too_costly,
  /// No such token, or not its secret.
  unknown_token,
  /// Another node came in with it.
  used_token,
  too_many_attempts,
  too_many,
  /// Nobody answers there.
  unreachable,
  /// The node is in no cluster, or in one already, or is not its home.
  wrong_state,
  /// A file cannot be read or written.
  storage,
  /// The cryptographic library refused, mostly for want of memory.
  failed,
};

struct security_failure {
  security_error code;
  std::string text;
};

template <class T>
class [[nodiscard]] fallible {
public:
  fallible(T value) : state_(std::move(value)) {}
  fallible(security_failure why) : state_(std::move(why)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const security_failure& failure() const { return std::get<1>(state_); }

private:
  std::variant<T, security_failure> state_;
};

} // namespace swarm
