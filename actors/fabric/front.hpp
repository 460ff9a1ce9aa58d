// Entrance of the services: finds or wakes the scope of a call.
#pragma once

#include <map>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/directory.hpp"

namespace swarm {

struct front_state {
  static inline const char* name = "front";
  node_links links;
  runtime::directory<std::string, scope_actor> scopes;
  std::size_t next_reader = 0;
  /// Stand-ins for the stores of other nodes that are home of scopes, by node.
  struct remote {
    writer_actor writer;
    reader_actor reader;
    watch_hub_actor watch;
  };
  std::map<std::string, remote> remotes;
  /// Attached streams by scope and session; a scope that is woken again is told.
  std::map<std::string, std::map<std::uint64_t, std::string>> streams;
  runtime::single_timer reboot;
  runtime::backoff boot_waits;
  bool remote_awake = false; // what lives here of other nodes' scopes has been asked for since the start, too
  bool boot_failed = false;  // a scope died while it was being woken: wake all again
  bool all_awake = true;     // false: some scope found no room, so nobody may be mistaken for a stray
  std::vector<runtime::parked<bool>> waiting_for_boot;
  bool booted = false;
};

front_actor::behavior_type front(front_actor::stateful_pointer<front_state> self, node_links links);

} // namespace swarm
