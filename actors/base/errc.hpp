// Why the fabric itself could not do something. Decisions against a caller are v1::Refusal, not these.
#pragma once

#include <cstdint>
#include <string>

namespace swarm {

/// Zero is reserved by CAF for "no error". to_string gives a text a user can act on.
enum class errc : std::uint8_t {
  /// The outcome is unknown: repeat with the same request id.
  unknown_outcome = 1,
  /// The node or the part asked is shutting down or restarting: repeat.
  unavailable,
  /// A queue is full: repeat later.
  overloaded,
  /// The deadline passed.
  deadline,
  /// Not enough disk for this kind of command.
  low_disk,
  /// The store could not be opened or written.
  store_failed,
  /// The store was made by a newer version of this program.
  newer_schema,
  /// A message could not be decoded or broke a limit.
  invalid,
  /// The caller may not do that.
  forbidden,
  /// No such thing.
  not_found,
  /// The position asked for is no longer kept.
  out_of_range,
  /// The keeper could not be reached or refused.
  keeper_failed,
  /// The state directory cannot be used.
  state_dir,
  /// Another swarmd owns the state directory.
  already_running,
  /// The fence given is no longer valid.
  stale,
  /// The home of the scope has been away for longer than a restart takes. The request was not put to it, so it did not happen.
  away,
};

std::string to_string(errc);

} // namespace swarm
