// The whole table of what config.toml may hold, and what the node takes from it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/config.hpp"
#include "actors/domain/accept.hpp"

namespace swarm::domain {

/// Names and values of variables, as the file has them: a text, path:/FILE or secret:NAME.
using variables = std::map<std::string, std::string>;

/// What the node itself takes from the file, besides the limits.
struct node_config {
  std::map<std::string, std::string> labels;
  accept_policy accept;
  bool identity_boundary = false;
  std::map<std::string, variables> agent_environment; // by agent
  bool structured_workers = false;
};

/// Every section and key. Its defaults of limits are those at the first call.
const config_registry& whole_config();
node_config node_config_of(const config_document&);

inline constexpr std::string_view path_prefix = "path:";

/// A secret that the file names: secret:NAME.
struct secret_use {
  std::string name;    // of the secret
  std::string setting; // "agents.claude.environment.ANTHROPIC_API_KEY"
  std::size_t line = 0;
};
std::vector<secret_use> secrets_used(const config_document&);
/// Adds a fault for each secret that is named and is not set.
void check_secrets(config_document&, const std::function<bool(std::string_view)>& is_set);

} // namespace swarm::domain
