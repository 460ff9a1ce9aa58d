// What is known of a driver from the log of its conversation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "swarm/v1/conversation.pb.h"

namespace swarm {

/// What the log says of one generation of the driver.
struct log_tail {
  std::uint64_t seq = 0;                             // the highest of the driver
  std::string open_turn;                             // begun and not ended
  std::uint64_t open_turn_seq = 0;                   // of its begin
  std::optional<v1::ConversationItem> ended_turn;    // that has ended last, when no other has begun
  std::uint64_t ended_turn_seq = 0;                  // of its end
  std::string last_text;                             // the end of what the agent has said last in its turn, maybe from the middle of a character on
  std::optional<v1::ConversationItem> part;          // of an item whose end is missing, without its body
  std::uint64_t part_bytes = 0;                      // of its body
  std::set<std::string> said;                        // prompts
  std::set<std::string> lost;                        // prompts of which it says that they are, or may be
  std::int64_t since_ms = 0;                         // what came before it was not looked at
  std::map<std::string, v1::ConversationItem> asked; // without an end and without bodies, by the approval
  std::map<std::string, std::string> denied;         // requests that the node has denied in the open turn, and what was asked: its digest
  std::set<std::string> requests;                    // approvals of which it says something
  std::string last_request;                          // the approval that the last frame is about
  std::set<std::string> own;                         // of what the node has written behind the driver's last: key_of
};

} // namespace swarm
