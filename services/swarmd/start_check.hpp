// What would keep a node from starting, found without starting it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/paths.hpp"
#include "actors/store/sqlite.hpp"

namespace swarm {

/// One text for people for each obstacle; none when the node can start. Changes nothing. The store is looked at only while no node runs, whose own
/// check is better.
std::vector<std::string> obstacles_to_start(const state_dir&);

// Steps of a start that are checked so, too.
/// Sets the limits; a text for people when config.toml is wrong. The tables about the cluster are read with the cluster's files.
std::optional<std::string> configure(const state_dir&);
/// What lies where the sockets go and gives no way.
std::optional<std::string> obstacle_at_sockets(const state_dir&);
/// Why the store cannot be opened, and what to do.
std::string store_failure(const std::filesystem::path& database, const sqlite::error&);

} // namespace swarm
