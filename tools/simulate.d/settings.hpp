// What is simulated: how large, on what machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace swarm::simulate {

/// Of virtual time.
using micros = std::int64_t;
inline constexpr micros one_ms = 1'000, one_second = 1'000'000;

struct settings {
  std::size_t nodes = 1'000; // members; the home is one more
  std::size_t sessions = 100'000;
  std::uint64_t seed = 1;
  std::filesystem::path dir; // an empty folder for the home's store
  /// How long a load lasts.
  micros length = 10 * one_second;
  /// A scenario that costs this machine more is broken off, and says so.
  std::int64_t effort_seconds = 240;

  // -- the machine ------------------------------------------------------------------------
  micros latency = 500; // one way
  std::int64_t node_bytes_per_second = 125'000'000;
  std::int64_t home_bytes_per_second = 1'250'000'000;
  std::size_t frame_overhead_bytes = 90; // of HTTP/2, TLS and TCP
  /// One sync of the commit log.
  micros sync = 120;
  /// What the home's writer takes for a command, and a reader for a row; unset: what this machine takes for it just now. With them set, equal
  /// seeds give equal runs.
  std::optional<micros> per_command, per_row;
  std::size_t readers = 2; // as node_options has them

  /// Sessions of a scope; at most limits::scope_sessions_max().
  std::size_t scope_sessions = 5'000;
  std::size_t workers_per_node = 10;
  /// Of the sessions so many have a claimed task besides their lock.
  std::size_t claims_percent = 0;
  /// Of those that go on while hosts are lost, all together, so many set a key.
  double commands_per_second = 100;
};

} // namespace swarm::simulate
