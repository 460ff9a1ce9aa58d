// Attaches this terminal to a conversation: it follows what is said, and a person types prompts and decides at it.
#pragma once

#include "cli/invocation.hpp"

namespace swarm::cli {

/// This is a terminal that can show it.
bool can_attach(const invocation&);
/// Returns when the person leaves: code::refused when not all that was typed is known to have reached the node. A restart of the node is a pause.
/// Throws `failure`.
int attach_conversation(invocation&, const v1::Conversation&);

} // namespace swarm::cli
