// What a session publishes of the place where it can be seen and typed to (as in swarm-mcp): a key per session, its value JSON.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "actors/domain/transaction.hpp"

namespace swarm::domain {

/// A program that holds terminals.
struct workspace_backend_names {
  const char* name;
  const char* handle_kind;                 // of its handles, where a row does not say
  std::array<const char*, 2> key_prefixes; // of the rows, the one to read first in front
};

inline constexpr workspace_backend_names pty_workspace{"pty", "pty", {"identity/workspace/pty/", "identity/pty/"}};
inline constexpr workspace_backend_names herdr_workspace{"herdr", "pane", {"identity/workspace/herdr/", "identity/herdr/"}};
/// In order of precedence, for a session that has published several.
inline constexpr std::array workspace_backends{pty_workspace, herdr_workspace};

std::vector<std::string> workspace_keys(const workspace_backend_names&, const std::string& session);

/// The handles in a published row, the one to use first; each once, without blanks around. None in what is no such row.
std::vector<std::string> workspace_handles(const json& row);

/// Why nobody is woken who has published none, as swarm-mcp says it.
inline constexpr const char* no_workspace = "no workspace identity is published for that instance";

/// The first readable row of a session. `viewer`, nullptr = sees everything, reads only keys of its own identity or of none.
std::optional<v1::Workspace> workspace_of(const rows_view&, const std::string& scope, const std::string& session, const v1::Session* viewer,
                                          bool allow_cross_identity, std::int64_t now_ms);

} // namespace swarm::domain
