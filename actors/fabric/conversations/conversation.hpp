// A conversation while its driver lives, or while somebody follows it: between the driver's pipes, the log, the rows and the followers.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/conversations/dialogue.hpp"
#include "actors/fabric/entity.hpp"
#include "actors/store/conversation/open_item.hpp"

namespace swarm {

/// Its driver was asked for and has not ended.
bool has_driver(const v1::Conversation&);

struct conversation_state {
  static inline const char* name = "conversation";

  struct following {
    conversation_poll_ptr poll;
    runtime::parked<conversation_news_ptr> promise;
    caf::actor_addr who;
  };

  entity_place place;
  bool loaded = false;
  std::vector<batch_ptr> missed; // while it loads
  v1::Conversation row;
  std::optional<v1::Spawn> spawn; // of its driver, while it lives
  std::map<std::string, v1::Prompt> prompts;
  std::map<std::string, v1::Approval> approvals;
  std::unique_ptr<dialogue> talk; // of this generation
  log_cursor end;                 // of the log
  open_item open;
  std::uint64_t state_number = 0;
  std::list<following> followers;

  pty_actor pipes;
  bool connecting = false, reading = false;
  std::uint64_t connection = 0; // numbers them
  std::uint64_t read_to = 0;
  std::deque<std::pair<std::string, std::string>> input; // request and frame
  bool typing = false;
  std::string activation;
  std::uint64_t inputs = 0;

  std::uint64_t idle_stamp = 0; // 0 = it is not idle
  std::map<std::uint64_t, std::function<void()>> timers;
  std::uint64_t next_timer = 1;
};

conversation_actor::behavior_type conversation(conversation_actor::stateful_pointer<conversation_state> self, entity_place place);

} // namespace swarm
