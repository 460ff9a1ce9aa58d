// What a worker can run, by name: a command, a shell, or an agent.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace swarm::domain {

/// A program and its arguments, given by the caller.
inline constexpr std::string_view exec_harness = "exec";
/// The user's shell, or what is given.
inline constexpr std::string_view shell_harness = "shell";
/// Each is also the name of its program.
inline constexpr std::array<std::string_view, 5> agents{"claude", "codex", "opencode", "gemini", "hermes"};

bool is_agent(std::string_view name) noexcept;
/// An agent that swarm-driver can drive, so that it can work in a conversation.
bool is_driven(std::string_view name) noexcept;
/// exec, shell or an agent.
bool is_harness(std::string_view name) noexcept;
/// All of them as a text shows them: "exec, shell, claude, …".
std::string harness_names();
/// SWARM_HARNESS_<AGENT>: what starts the agent in place of its own program, and an alias for it (as in swarm-mcp).
std::string launcher_variable(std::string_view agent);

} // namespace swarm::domain
