// chat read, chat export, and following one turn to its end.
#pragma once

#include <string>

#include "cli/invocation.hpp"

namespace swarm::cli {

struct chat_read_options {
  std::string who;
  std::string from;
  bool follow = false;
};
int run_chat_read(invocation&, const chat_read_options&);
int run_chat_export(invocation&, const std::string& who);

/// How the turn of a prompt has ended.
struct turn_end {
  bool has_ended = false; // false: nobody followed it to its end
  bool failed = false;
  std::string why; // it never began, or failed
  v1::Conversation conversation;
};
/// Follows until the turn that the prompt has become is over, or the prompt cannot become one. What the agent says goes to stdout, what it does to
/// stderr; with --json nothing. Throws `failure` when the time of --timeout is over, or the user has interrupted the following.
turn_end follow_turn(invocation&, const v1::Conversation&, const v1::Prompt&);

} // namespace swarm::cli
