// What the server says to agents in prose: after registering, and as prompts.
#pragma once

#include <string>
#include <string_view>

namespace swarm::mcp {

/// After a successful registration.
/// `kept`: what the session is in spite of what was asked for, kept_text(); empty = nothing.
std::string registered_text(const std::string& kept = {});
/// What the role in a label means for its work; empty for a role without guidance.
std::string role_text(std::string_view role);
/// The prompt `setup`.
std::string setup_prompt();
/// The prompt `protocol`.
std::string protocol_prompt();

} // namespace swarm::mcp
