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

/// Whether a commit log lies beside the store `path`, open in the connection, that may have what the store has not: it was not closed.
bool has_commit_log(sqlite::connection&, const std::string& path);
/// As backup_to(), of a store that nobody has open, with what was answered and is only in the commit log beside it. The store is left as it is.
std::uint64_t backup_with_log(const std::string& store, const std::string& path);

/// "ok", or what is wrong, at most ten lines. `full` also compares every index with its table.
std::string check_integrity(sqlite::connection&, bool full);

} // namespace swarm
