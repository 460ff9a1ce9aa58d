// One scope: routes its commands, wakes and rests its entities, owns its deadlines.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"
#include "actors/runtime/directory.hpp"

namespace swarm {

struct scope_state {
  static inline const char* name = "scope";

  node_links links;
  std::string id;
  std::size_t next_reader = 0;

  runtime::directory<std::string, task_actor> tasks;
  runtime::directory<std::string, lock_actor> locks;
  runtime::directory<std::string, mailbox_actor> mailboxes;
  runtime::directory<std::string, session_actor> sessions;
  runtime::directory<std::string, conversation_actor> conversations;
  /// Rows for sessions about to be activated.
  std::unordered_map<std::string, v1::Session> session_rows;

  struct live_spawn {
    spawn_actor who; // null while it is down
    std::string task_id;
    std::uint32_t attempt = 0;
    std::int64_t since_ms = 0;
    runtime::restart_record failures;
    bool waits = false; // down, and its back-off is not over
  };
  std::map<std::string, live_spawn> spawns; // by id and attempt
  std::set<std::string> followed;           // ids of those awake whose next attempt waits for their end
  runtime::deadline_heap<std::string> spawns_due;
  runtime::single_timer spawn_timer;
  std::map<std::string, std::set<std::uint64_t>> streams; // attached, by session: what a new session actor is told
  /// Callers' environments: by request until the spawn is known, by spawn id until its process has started. Bounded.
  std::map<std::string, std::vector<std::string>> environment_of_request;
  std::deque<std::string> environment_order;
  std::size_t environments_bytes = 0; // of those by request
  std::map<std::string, std::vector<std::string>> environment_of_spawn;

  /// Of a scope whose home is another node: commands under way there, by the call that waits for them.
  std::unordered_map<const call*, link_request_ptr> forwarded;
  /// Likewise waits for activity, by who waits.
  std::map<caf::actor_addr, link_request_ptr> forwarded_for;

  std::uint64_t sweep_timer = 0; // generation; 0 = none armed
  std::int64_t sweep_at_ms = 0;
  bool sweeping = false;
  bool sweep_missed = false;
  std::int64_t last_sweep_ms = 0;
  std::uint64_t reload_timer = 0; // generation; 0 = none armed
  std::uint64_t locks_timer = 0;  // likewise
  std::uint64_t next_generation = 1;

  std::vector<runtime::parked<bool>> waiting_for_boot;
  std::size_t boot_steps = 0;
  bool booted = false;
  std::int64_t born_ms = 0;
  ~scope_state();

  /// The scope's home is another node: only what lives here is looked after here.
  bool is_away() const { return !links.home.empty(); }
  std::int64_t now_ms() const { return links.node->clock->unix_ms(); }
  const reader_actor& reader() { return links.readers[next_reader++ % links.readers.size()]; }
};

scope_actor::behavior_type scope(scope_actor::stateful_pointer<scope_state> self, node_links links, std::string id);

} // namespace swarm
