// The actor that writes and reads the logs of conversations (blocking I/O, hence detached).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/conversations/forgotten.hpp"
#include "actors/fabric/node_environment.hpp"

namespace swarm {

struct conversation_logs_state {
  static inline const char* name = "conversation-logs";
  struct open_log {
    std::unique_ptr<conversation_log> log;
    std::uint64_t damaged_to = 0; // a new file begins there
    std::list<std::string>::iterator used;
  };
  node_environment_ptr node;
  std::map<std::string, open_log> open; // bounded
  std::list<std::string> order;         // the longest unused first
  forgotten_conversations forgotten;
};

conversation_logs_actor::behavior_type conversation_logs(conversation_logs_actor::stateful_pointer<conversation_logs_state> self,
                                                         node_environment_ptr node);

} // namespace swarm
