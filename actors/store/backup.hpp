// Copies and checks of a live store.
#pragma once

#include <cstdint>
#include <string>

#include "actors/store/sqlite.hpp"

namespace swarm {

/// Copies the store as it is now into a new file (mode 0600) and returns its size in bytes. Writers go on meanwhile; the copy is one
/// snapshot, durable when this returns. The copy is marked, so that a node started on it raises its fences and revisions.
/// Throws store_error: errc::invalid when the path exists or cannot be created, errc::store_failed otherwise; no partial file stays.
std::uint64_t backup_to(sqlite::connection& source, const std::string& path);

/// "ok", or what is wrong, at most ten lines. `full` also compares every index with its table.
std::string check_integrity(sqlite::connection&, bool full);

} // namespace swarm
