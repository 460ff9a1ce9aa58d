// Applying a Batch: the only code that writes rows.
#pragma once

#include <optional>
#include <string>

#include "actors/store/sqlite.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm {

/// Writes the batch's patches and events into the open transaction; all or nothing is the caller's SAVEPOINT. The remembered
/// replies (batch.reply, batch.resolved) are the ledger's. Throws sqlite::error for a batch that breaks a constraint,
/// sqlite::io_failure when the file failed.
void apply(sqlite::connection&, const v1::Batch&);

/// Writes one row under its key; of a row that was `before` only the columns that differ, which spares their indexes. Throws as
/// apply().
template <class Row>
void write_row(sqlite::connection&, const std::string& key, const Row&, const std::optional<Row>& before);
template <class Row>
void erase_row(sqlite::connection&, const std::string& key);

/// The batch's events, and the end of old ones. Throws as apply().
void apply_events(sqlite::connection&, const v1::Batch&);

} // namespace swarm
