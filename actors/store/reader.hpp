// A reader: answers queries from snapshots of its own connection.
#pragma once

#include <memory>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/base/clock.hpp"
#include "actors/store/interfaces.hpp"
#include "actors/store/sqlite_rows.hpp"

namespace swarm {

struct reader_options {
  std::string path;
  const clock_port* clock = &system_clock_port(); // outlives the reader
  std::string node_id;
  std::string user_identity;
  /// As in the writer: until then nothing is shown as expired.
  std::int64_t grace_until_ms = 0;
  /// Of the writer, and the writer; unset: only what is in the database already is seen.
  std::shared_ptr<const read_barrier> barrier;
  writer_actor writer;
};

struct reader_state {
  static inline const char* name = "swarm.store.reader";

  std::unique_ptr<sqlite::connection> db;
  std::unique_ptr<sqlite_rows> rows;
};

/// Spawned detached in production, after the writer has opened (and so migrated) the store. A backup or a full check keeps this
/// reader busy for its duration: give them one of their own. Ends with errc::store_failed when the file fails, or
/// errc::newer_schema.
reader_actor::behavior_type reader(reader_actor::stateful_pointer<reader_state> self, reader_options options);

} // namespace swarm
