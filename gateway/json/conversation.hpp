// Conversations for those in front of a node: whole items from their parts, and the JSON of rows and items.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/json/shapes.hpp"
#include "swarm/v1/conversation.pb.h"

namespace swarm::mcp {

/// running, idle, blocked, …
const char* conversation_state(v1::Conversation::State) noexcept;
/// queued, submitted, consumed, …
const char* prompt_state(v1::Prompt::State) noexcept;

/// "auto-edit"; nothing for a word that is none. The words are domain::to_text's.
std::optional<v1::Conversation::Permissions> permissions_named(std::string_view);

/// A row of `chat list --json`.
json conversation(const v1::Conversation&);
/// Of a prompt.
json attachment(const v1::Attachment&);
/// What was used; cost_usd is null where the agent does not say it.
json usage(const v1::Usage&);

/// Makes whole items of parts. A reader that lost its stream and goes on at its cursor goes on here as well.
class whole_items {
public:
  /// The item when this was its last part: with all of its body, and the cursor behind it.
  std::optional<v1::ConversationItem> take(const v1::ConversationItem& part);
  /// What follows does not go on where the parts so far have ended.
  void forget() { open_.reset(); }
  /// Parts of an item are here, and its last one is not.
  bool is_open() const noexcept { return open_.has_value(); }

private:
  std::optional<v1::ConversationItem> open_;
};

/// For the node: from where the lines behind a cursor of a line come. One item can be two lines.
std::string log_cursor(const std::string& line_cursor);

/// The lines of `chat read --json`: one for a final item, two for the end of a turn that has used something, one for a gap. Deltas have none.
class conversation_lines {
public:
  /// `cursor`: from which the reader began.
  explicit conversation_lines(std::string cursor);
  std::vector<json> take(const v1::ConversationChunk&);
  /// Behind the last line.
  const std::string& cursor() const noexcept { return cursor_; }

private:
  std::vector<json> of(const v1::ConversationItem& whole);
  json head(const v1::ConversationItem&, const char* kind, const std::string& cursor) const;
  std::string tool_of(const v1::ConversationItem& result) const;

  std::string cursor_;
  bool has_usage_ = false; // the line of the usage that is next was read before
  whole_items parts_;
  /// The tools' names by generation and call.
  std::map<std::pair<std::uint32_t, std::string>, std::string> tools_;
};

} // namespace swarm::mcp
