// What the files about conversations share among themselves. Other families use rules.hpp.
#pragma once

#include "actors/domain/rules.hpp"

namespace swarm::domain {

using conversation_state = v1::Conversation::State;

/// "ask", "auto-edit", "auto", "plan", "deny".
const char* to_text(v1::Conversation::Permissions) noexcept;

/// Stores a changed row with fresh times; `queued` is counted.
void put_changed(transaction&, v1::Conversation&);
v1::Reply conversation_reply(v1::Conversation, std::optional<v1::Prompt> = std::nullopt);

/// IDLE, RUNNING or BLOCKED, by its turn and what its agent asks.
conversation_state state_of_agent(const transaction&, const v1::Conversation&);

/// Asks for its driver: the spawn's next attempt is the next generation. Not while the one before is there.
void start_driver(transaction&, v1::Conversation&);

/// Moves a prompt on, and stores it. Nothing when the prompt has come as far already.
bool move_prompt(transaction&, v1::Prompt&, v1::Prompt::State, const std::string& reason = {});

/// Ends the turn that is open as failed, if one is.
void fail_turn(transaction&, v1::Conversation&, const std::string& why);
/// What the driver was given and has not told about is unknown.
void lose_driver(transaction&, v1::Conversation&, const std::string& why);

} // namespace swarm::domain
