// The programs, one file each, and what their files share.
#pragma once

#include "actors/agents/agent.hpp"

namespace swarm::agents {

extern const agent claude;
extern const agent codex;
extern const agent opencode;
extern const agent gemini;
extern const agent hermes;

/// A file of ours for the program to read; empty when it is not there.
std::string shared_file(const start&, const char* path);

} // namespace swarm::agents
