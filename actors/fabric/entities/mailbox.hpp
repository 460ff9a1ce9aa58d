// A session's mail with somebody waiting: wait_for_activity by event instead of by polling.
#pragma once

#include <map>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"

namespace swarm {

struct mailbox_state {
  static inline const char* name = "mailbox";

  struct wait {
    wait_request_ptr request;
    runtime::parked<activity_ptr> promise;
    std::shared_ptr<v1::Activity> found;
    caf::actor_addr who; // the caller: when it has gone, nothing may be consumed for it any more
    std::uint64_t after = 0;
    bool consuming = true;    // its first look at the mail is under way: what that takes away must be handed over
    bool due = false;         // the timeout came meanwhile
    bool collecting = false;  // something was found; data is being fetched
    watch_poll_ptr poll = {}; // parked at the hub for it
  };

  entity_place place;
  std::map<std::uint64_t, wait> waits;
  std::uint64_t next_wait = 1;
};

mailbox_actor::behavior_type mailbox(mailbox_actor::stateful_pointer<mailbox_state> self, entity_place place);

/// Which entries of Activity.changes these events amount to for that session, in swarm-mcp's order.
std::vector<std::string> classify(const std::vector<v1::Event>& events, const std::string& session_id, bool include_locks);

} // namespace swarm
