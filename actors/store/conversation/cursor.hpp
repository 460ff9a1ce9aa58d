// A place in a conversation, as a reader keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/store/conversation/frame.hpp"

namespace swarm {

/// Everything before `at` has been read, and so much of the item that was open there. For readers it is one opaque text.
struct log_cursor {
  std::uint64_t epoch = 0; // of the log when the cursor was given out
  log_position at;
  std::uint32_t open_bytes = 0; // of the open item
  log_mark open_mark = 0;       // of those bytes

  bool operator==(const log_cursor&) const = default;
};

/// Letters, digits, - and _ (base64url); always the same text for the same cursor.
std::string to_text(const log_cursor&);
/// Nothing for a text that to_text did not make.
std::optional<log_cursor> parse_cursor(std::string_view text);

} // namespace swarm
