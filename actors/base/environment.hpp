// Which variables of a caller's environment a worker inherits, and the few that swarmd and the keeper run with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// By every worker: what a shell and its programs need (PATH, HOME, LANG, TERM …), proxies and certificates, and SWARM_*. False for SWARM_TOKEN,
/// which belongs to one session, and SWARM_WORKTREE. docs/security.md has the lists.
bool inheritable(std::string_view name) noexcept;
/// By a worker of this harness: an agent's program also gets what it is set up with (ANTHROPIC_*, CODEX_* …), and no other program does.
bool inheritable(std::string_view name, std::string_view harness) noexcept;

/// NAME=value entries with which swarmd and swarm-keeper run: HOME, USER, LOGNAME and SHELL of the user, a standard PATH and LANG.
std::vector<std::string> clean_environment();

} // namespace swarm
