// The tables [labels], [accept] and [identity] of config.toml: this node's labels, what it lets other nodes do, and where identities part.
// docs/configuration.md describes the tables; limits_config.hpp reads [limits].
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "actors/domain/accept.hpp"
#include "services/security/failure.hpp"

namespace swarm {

struct node_config {
  std::map<std::string, std::string> labels;
  domain::accept_policy accept;
  bool identity_boundary = false;
};

/// The keys below [accept], in full: accept.spawn.principals and so on.
std::vector<std::string> accept_keys();

/// The defaults when there is no such file. A failure's text names the key that is wrong.
security_result<node_config> read_node_config(const std::filesystem::path& file);
/// The same with the text of such a file.
security_result<node_config> parse_node_config(std::string text);

} // namespace swarm
