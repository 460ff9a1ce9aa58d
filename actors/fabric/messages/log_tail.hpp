// What is known of a driver from the log of its conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "swarm/v1/conversation.pb.h"

namespace swarm {

/// What the log says of one generation of the driver.
struct log_tail {
  std::uint64_t seq = 0;                    // the highest of the driver
  std::string open_turn;                    // begun and not ended
  std::optional<v1::ConversationItem> part; // of an item whose end is missing
  std::set<std::string> own;                // of what the node has written behind the driver's last: key_of
};

} // namespace swarm
