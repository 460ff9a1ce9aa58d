// A conversation while its driver lives, or while somebody follows it: between the driver's pipes, the log, the rows and the followers.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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

  /// For the driver's input. What stands behind it waits.
  struct frame {
    std::string bytes;
    std::uint32_t interrupt = 0; // see dialogue::to_driver
  };
  struct sent_file {
    dialogue::file_to_driver what;
    std::uint64_t sent = 0;
  };
  struct typed {
    std::string request;
    std::variant<frame, sent_file> what;
  };

  entity_place place;
  bool loaded = false;
  std::vector<batch_ptr> missed; // while it loads
  v1::Conversation row;
  std::optional<v1::Spawn> spawn; // of its driver, while it lives
  std::map<std::string, v1::Prompt> prompts;
  std::vector<v1::Prompt> unknown; // while it loads: those of which nobody knows whether an agent has them
  std::map<std::string, v1::Approval> approvals;
  std::unique_ptr<dialogue> talk;  // of this generation
  std::uint64_t heard_out = 0;     // the last one that is over
  std::uint64_t talk_number = 0;   // numbers them: what one has asked for is not answered to another
  bool given_up = false;           // its scope makes it again
  std::vector<std::string> nonces; // that its driver may have answered with, the newest first
  log_cursor end;                  // of the log
  open_item open;
  std::uint64_t state_number = 0;
  std::list<following> followers;

  pty_actor pipes;
  bool connecting = false, reading = false;
  std::uint64_t connection = 0;              // numbers them
  std::uint64_t read_to = 0, greeted_at = 0; // of the driver's output
  std::optional<std::string> last_words;     // of one that has died, so far
  std::deque<typed> input;
  bool typing = false;
  std::string activation;
  std::uint64_t inputs = 0;

  std::uint64_t idle_stamp = 0;  // 0 = its agent is not idle
  std::uint64_t stop_stamp = 0;  // 0 = its driver was not told to end
  std::uint64_t hello_stamp = 0; // 0 = its driver has answered, or was not greeted
  bool is_listed_as_resting = false;
  std::uint64_t resting_stamp = 0; // 0 = its driver has an agent, or has ended
  struct lock_question {
    std::optional<internal::HookQuestion> question;     // else the list
    std::function<void(const lock_verdict*)> told = {}; // null = nobody knows
    scope_locks_ptr locks = nullptr;                    // that it is about; null = those of the moment
  };
  std::deque<lock_question> lock_questions; // that wait for the one before
  bool judging = false;
  bool asking_locks = false, locks_changed = false;
  scope_locks_ptr locks_now; // since then; null = they are to be read
  std::map<std::uint64_t, std::function<void()>> timers;
  std::uint64_t next_timer = 1;
};

conversation_actor::behavior_type conversation(conversation_actor::stateful_pointer<conversation_state> self, entity_place place);

} // namespace swarm
