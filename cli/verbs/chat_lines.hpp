// A conversation as people read it: lines with a colour each. Nothing here is escaped; whoever prints them does that.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"
#include "swarm/v1/conversation.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

struct chat_line {
  colour paint = colour::none;
  std::string text;     // without newlines
  bool is_said = false; // by the agent: its answer, not what it did for it

  bool operator==(const chat_line&) const = default;
};
using chat_text = std::vector<chat_line>;

/// What an agent says, among lines that begin with a mark and a blank: one of its lines that begins so has a bar before it. The text may come in
/// pieces.
class said_text {
public:
  std::string take(std::string_view more);
  /// What was held back to see what follows it.
  std::string end();

private:
  bool is_at_begin_ = true;
  std::string held_;
};
/// The line as it is shown among others.
std::string among_others(const chat_line&);

/// The lines of a text, each with `before` in front.
chat_text lines_of_text(std::string_view text, colour, std::string_view before = {}, bool is_said = false);
/// What a tool was called with, in few words: its command, file or pattern, else the begin of the JSON.
std::string short_input(std::string_view json_text);
/// What is decided on, for people: the input's members one below the other, whole. A body that is no JSON object stays as it is.
chat_text action_lines(std::string_view body);
/// "1200 in, 350 out, $0.0123"; empty when nothing is known.
std::string usage_text(const v1::Usage&);

/// Knows the names of the tools that were called and of what was asked, so that a result and a decision say whose they are.
class chat_lines {
public:
  /// Of a whole item.
  chat_text of(const v1::ConversationItem&);
  /// Something is missing here.
  static chat_text gap(const v1::ConversationResumed&);

private:
  using item_id = std::pair<std::uint32_t, std::string>; // with its generation
  struct question {
    std::string title, approval_id;
  };
  chat_text request(const v1::ConversationItem&);
  chat_text request_end(const v1::ConversationItem&);
  std::map<item_id, std::string> tools_;
  std::map<item_id, question> asked_;
};

} // namespace swarm::cli
