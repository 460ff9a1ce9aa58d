// Applying a Batch: the only code that writes rows.
#pragma once

#include "actors/store/sqlite.hpp"
#include "swarm/v1/command.pb.h"

namespace swarm {

namespace v1 = ::swarm::v1;

/// Writes the batch's patches and events into the open transaction; all or nothing is the caller's SAVEPOINT. The remembered
/// replies (batch.reply, batch.resolved) are the ledger's. Throws sqlite::error for a batch that breaks a constraint,
/// sqlite::io_failure when the file failed.
void apply(sqlite::connection&, const v1::Batch&);

} // namespace swarm
