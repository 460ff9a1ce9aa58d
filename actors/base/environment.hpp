// Which variables of a caller's environment a worker inherits, and the few that swarmd and the keeper run with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace swarm {

/// True for PATH HOME USER LOGNAME SHELL LANG LC_* TERM COLORTERM TZ TMPDIR EDITOR SSH_AUTH_SOCK AGENT_IDENTITY and SWARM_*;
/// false for SWARM_TOKEN, which belongs to one session and is never passed on.
bool inheritable(std::string_view name) noexcept;

/// NAME=value entries of the fixed environment of swarmd and swarm-keeper: who the user is and a standard PATH, nothing the
/// caller has set.
std::vector<std::string> clean_environment();

} // namespace swarm
