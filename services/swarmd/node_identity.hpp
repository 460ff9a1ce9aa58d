// What makes a node the same node after a restart: its id, name and secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "actors/base/paths.hpp"

namespace swarm {

struct node_identity {
  std::string id;   // UUID
  std::string name; // at most 64 of [A-Za-z0-9._-]
  std::string key;  // 32 bytes, only in node.key (0600)
};

/// Id and name from the text of node.json; nothing when it is damaged.
std::optional<node_identity> parse_identity(std::string_view text);
/// Reads node.json and node.key, or makes them. A non-empty `name` replaces the stored one. Throws std::runtime_error.
node_identity load_identity(const state_dir&, const std::string& name);

} // namespace swarm
