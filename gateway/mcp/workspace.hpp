// Workspace backends: programs that hold agents' terminals. Which session sits behind a handle, and what its terminal shows (as in swarm-mcp).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/domain/workspace.hpp"
#include "gateway/json/shapes.hpp"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// What a backend needs of the node. `query` makes one with the scope and the asker's eyes.
struct workspace_access {
  std::function<v1::Query()> query;
  std::function<v1::Answer(const v1::Query&)> ask;
  /// The end of a terminal's output; throws call_failed.
  std::function<std::string(const std::string& pty)> read;
};

/// A session's published terminal.
struct workspace_place {
  std::string backend;
  std::string handle_kind;
  std::string handle;
};

struct workspace_backend {
  domain::workspace_backend_names names;
  /// What the terminal shows; null = this backend cannot say.
  std::string (*read)(const workspace_access&, const v1::Session&, const std::string& handle, std::size_t lines, bool visible);
};

/// All of them, the one that serves when none is named first.
const std::vector<workspace_backend>& workspace_backends();
const workspace_backend* find_workspace_backend(const std::string& name);
/// "pty, herdr"
std::string workspace_backend_names();

/// Where the session's terminal is, or why nobody knows (as in swarm-mcp).
struct workspace_lookup {
  std::optional<workspace_place> place;
  std::string reason;
};
workspace_lookup find_workspace(const workspace_access&, const std::string& session);

/// swarm-mcp's result of resolve_workspace_handle. Without a backend the one that knows the handle is meant, else herdr, as before.
json resolve_handle(const workspace_access&, const std::string& handle, const std::optional<std::string>& backend, const std::string& handle_kind);

} // namespace swarm::mcp
