// The variables that config.toml sets for an agent: [agents.NAME.environment].
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/base/result.hpp"
#include "actors/domain/config.hpp"

namespace swarm {

struct resolved_variables {
  std::vector<std::string> list; // NAME=VALUE
};

/// With the values of secrets and files, which are read now, so that a secret that was set anew is used by the next program. The failure names the
/// variable and never a value.
result<resolved_variables, std::string> resolve(const domain::variables&, const std::string& agent, const std::filesystem::path& secrets);

} // namespace swarm
