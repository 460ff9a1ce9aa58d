// What a lock's argument means on this host: symbolic links are followed, so that one file has one name, and a pattern is no file.
#pragma once

#include <optional>
#include <string>

#include "swarm/v1/state.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// `path`, absolute and normalised, with its symbolic links followed; what does not exist stays as it is. A file below `root` keeps the name
/// that `root` has here, also if that is a symbolic link itself. The fabric's own names are left alone. Reads the file system.
std::string follow_links(const std::string& path, const std::string& root);

/// The scope of a session if its files lie below that; empty for a scope that hosts share, which has checkouts in several places.
std::string scope_of_files(const v1::Session&);

/// Why nothing is locked under that name in the scope: it is a pattern, and no file is called so; or it lies in another repository, where nobody
/// would see the lock. Nothing if it can be. Reads the file system.
std::optional<std::string> why_not_lockable(const std::string& path, const std::string& scope);

} // namespace swarm::mcp
