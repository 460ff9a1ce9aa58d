// Whether a write reaches into a directory that no agent may write: however the path is spelled, through symbolic links, as a pattern, or with a
// directory around it.
#pragma once

#include <span>
#include <string>

#include "actors/shell/writes.hpp"

namespace swarm::shell {

/// The directory that `written` is, lies in, or takes along; null when it is none of them. `directories` are absolute and normalised. Reads the
/// file system for symbolic links.
const std::string* reached_directory(const written_path& written, std::span<const std::string> directories);

} // namespace swarm::shell
