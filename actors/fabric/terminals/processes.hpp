// The keeper's side of the node: knows every child, routes its news, and is the parent of the terminals.
#pragma once

#include <deque>
#include <map>
#include <set>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/parked.hpp"

namespace swarm {

struct processes_state {
  static inline const char* name = "processes";

  struct child {
    child_info info;
    pty_info_ptr record;       // of one that had ended before this node started
    pty_info_ptr started;      // of one whose end was not known then; until its spawn claims it
    spawn_ptr row;             // of the spawn that claimed it; null for a stray
    std::string name;          // of its terminal, once it is claimed
    start_request_ptr request; // sent again after the keeper came back
    spawn_actor listener;
    pty_actor terminal;
    std::vector<runtime::parked<child_info_ptr>> starting;
    std::int64_t terminal_since_ms = 0;
    std::int64_t ended_at_ms = 0;
    runtime::restart_record terminal_failures;
    bool terminal_waits = false;                    // it is down, and its back-off is not over
    bool terminal_rests = false;                    // the same, after too many failures
    std::vector<runtime::parked<pty_actor>> asking; // for the terminal, while it waits
  };
  struct listing {
    std::string scope;
    runtime::parked<std::vector<pty_info_ptr>> promise;
  };
  struct question {
    spawn_ptr row;
    spawn_actor listener;
    runtime::parked<child_info_ptr> promise;
  };

  node_environment_ptr node;
  pty_log_actor log;
  std::map<std::string, child> children;
  std::set<std::string> listed;    // by the keeper, since it was attached
  std::deque<std::string> ended;   // oldest first, bounded
  std::vector<question> questions; // until the list is complete
  bool loaded = false;             // what earlier nodes have kept
  std::vector<listing> listings;   // until then
  bool attached = false;
  bool list_complete = false;
  bool booted = false;
  std::vector<runtime::parked<bool>> stopping; // until all ends are kept
  runtime::backoff connect_waits;
  runtime::single_timer reconnect;
  runtime::deadline_heap<std::string> terminals_due; // those that wait
  runtime::single_timer terminal_timer;
  ~processes_state();
};

processes_actor::behavior_type processes(processes_actor::stateful_pointer<processes_state> self, node_environment_ptr node, pty_log_actor log);

} // namespace swarm
