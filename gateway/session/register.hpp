// Registration under a preassigned id. Shared by the MCP server and the command line.
#pragma once

#include <functional>
#include <string>

#include "swarm/v1/coordination.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// Sends the registration, once more if the node answers with a row of another scope: the preassigned id is that row's, and only its own scope
/// can hand it over. The command names that scope then. What `call` throws passes through.
v1::Reply register_in_its_scope(v1::Command&, const std::function<v1::Reply(const v1::Command&)>& call);

/// What a registration was asked to be; empty = not said.
struct wished_session {
  std::string directory, label, scope, file_root;
};
/// What a session that was there already has kept in spite of what was asked for, as a sentence; empty when it is as wished.
std::string kept_text(const v1::Session&, const wished_session&);

} // namespace swarm::mcp
