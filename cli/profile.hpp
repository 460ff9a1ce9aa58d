// Settings of an identity: its profile file, the programs its agents are started with, the directories it is confined to
// (as in swarm-mcp).
#pragma once

#include <string>
#include <string_view>

#include "cli/invocation.hpp"

namespace swarm::cli {

/// Lines KEY=VALUE, also with `export` before them; blank lines, comments (#) and what is no assignment are passed over. One layer
/// of matching quotes goes; ${K}, $K and ${K:-default} (unset or empty) stand for earlier lines, else for `env`. Throws `failure` for a
/// value longer than limits::profile_value_bytes_max.
variables parse_profile(std::string_view text, const environment& env);

/// Where profile files lie: $SWARM_MCP_PROFILE_DIR, $XDG_CONFIG_HOME/swarm-mcp or ~/.config/swarm-mcp.
std::string profile_directory(const environment&);

/// What holds for workers of this identity ("identity:work" or "work"): the process's variables and those of the identity's profile.
/// The process's win when it is of that identity itself, else the profile's. Without an identity: the process's.
environment settings_of(const environment&, std::string_view identity);

/// The agent that is meant: by its own name, by the name its launcher has in these settings, or in any profile. Others stay as given.
std::string agent_of(const std::string& harness, const environment& settings, const environment& process);

/// Refuses when the settings confine the label's identity ($SWARM_MCP_<NAME>_ROOTS) and no root holds both directories. It keeps one's
/// own mistakes in bounds; who can set variables can change it.
void check_identity_roots(const invocation&, const environment& settings, const std::string& label, const std::string& directory,
                          const std::string& file_root);

/// Throws `failure` when this host has no such directory. On the node of another host it is that host's matter.
void check_directory(const invocation&, const std::string& directory);

/// How a worker is asked for: the harness by its own name and the environment that its start needs.
struct worker_settings {
  std::string harness;
  environment_list environment;
};
/// For a worker of the requester's identity, else of the one its label names. Throws `failure` when it may not start in `directory`; an
/// empty one is not looked at.
worker_settings settings_of_worker(const invocation&, const std::optional<v1::Session>& requester, const std::string& label,
                                   const std::string& harness, const std::string& directory);

} // namespace swarm::cli
