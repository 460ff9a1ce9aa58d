// Whether a write reaches into a directory that no agent may write: however the path is spelled, through symbolic links, as a pattern, or with a
// directory around it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/shell/writes.hpp"

namespace swarm::shell {

/// Where nodes keep their state and where swarm's settings are, by variables of the environment (empty = not set), and the `further` ones. Absolute
/// and normalised.
std::vector<std::string> fabric_directories(const std::function<std::string(const std::string&)>& variable, const std::vector<std::string>& further);

/// The variables of an agent's environment by which its scripts name files: those of them that are set.
std::map<std::string, std::string> file_variables(const std::function<std::string(const std::string&)>& variable);

/// The directory that `written` is, lies in, or takes along; null when it is none of them. `directories` are absolute and normalised. Reads the
/// file system for symbolic links.
const std::string* reached_directory(const written_path& written, std::span<const std::string> directories);

} // namespace swarm::shell
