// Why something of security could not be done, in words a person can act on. The words never hold a secret.
#pragma once

#include <cstdint>
#include <string>

#include "actors/base/result.hpp"

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
  /// The requester of a certificate does not have the key.
  bad_signature,
  /// It is no longer valid.
  expired,
  /// It is not valid yet: one of the clocks is wrong.
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
  /// The cryptographic library refused, mostly because memory is short.
  failed,
};

struct security_failure {
  security_error code;
  std::string text;
};

template <class T>
using security_result = result<T, security_failure>;

} // namespace swarm
