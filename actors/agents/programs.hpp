// The known agents, each defined in a file of its own, and the helper that those files share.
#pragma once

#include "actors/agents/agent.hpp"

namespace swarm::agents {

extern const agent claude;
extern const agent codex;
extern const agent opencode;
extern const agent gemini;
extern const agent hermes;

/// Path of a file that we ship for agents, where `path` is relative to the share directory. Empty when it does not exist.
std::string shared_file(const start&, const char* path);

} // namespace swarm::agents
