// What the node takes from config.toml, as one of the files of its cluster; actors/domain/config.hpp has the sections and keys.
#pragma once

#include <filesystem>

#include "actors/domain/config.hpp"
#include "services/security/failure.hpp"

namespace swarm {

using domain::node_config;

/// The defaults when there is no such file. A failure's text names file, line and key.
security_result<node_config> read_node_config(const std::filesystem::path& file);

} // namespace swarm
