// The writer: the only actor that changes the store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/runtime/parked.hpp"
#include "actors/store/ledger.hpp"

namespace swarm {

struct writer_options {
  std::string path;
  ledger_options ledger;
  /// Gets every commit before the callers get their replies; may be null.
  commit_sink_actor sink;
};

struct writer_state {
  static inline const char* name = "swarm.store.writer";

  struct waiting {
    execution_ptr command;
    runtime::parked<reply_ptr> caller;
  };
  std::unique_ptr<ledger> book;
  std::vector<waiting> batch;
  bool timer_armed = false;
};

/// Answers when the commands are durable, and catches up with the database when readers ask, after limits::writer_window, or when much
/// has come together. Blocks in SQLite and says so before (runtime::before_blocking). When the file fails, the callers of the transaction are told
/// errc::unknown_outcome and the actor ends with errc::store_failed; its supervisor opens the store again by spawning the next.
/// Quits at once with errc::store_failed or errc::newer_schema when the store cannot be opened.
writer_actor::behavior_type writer(writer_actor::stateful_pointer<writer_state> self, writer_options options);

} // namespace swarm
