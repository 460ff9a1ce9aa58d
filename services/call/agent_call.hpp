// What the node says of a call that comes from below an agent's program: who it speaks for, and what the agent's start gives its sessions.
#pragma once

#include <optional>
#include <string>

#include "services/call/principals.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// For RegisterSession.agent: the program that the caller runs below, and what the environment says with which a person started it. Of an agent
/// that an agent has started, the outermost one's counts: the environment of the inner one is that agent's word. Empty for a person who has logged
/// in.
std::optional<v1::AgentStart> agent_start_of(const caller_places&, const claim&);

/// The caller, as the session that the call names (`named`: its actor or viewer). One program may run several sessions, and what runs below it
/// speaks for each of them; it is known by its place, not by a token.
v1::Principal speaker(const caller_places&, const claim&, const v1::Principal&, const std::string& named);

} // namespace swarm
