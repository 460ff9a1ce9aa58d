// What becomes, in a scope at its home, of what lived on a host that has gone.
#pragma once

#include "actors/fabric/scope_internal.hpp"

namespace swarm::lost_host {

using scope_internal::self_ptr;

/// The sessions of that node end, their locks are released and their tasks open again; its workers are given to a further attempt, or end.
/// Answers when all of it is committed, with errc::unavailable when a part of it is not: then it is to be asked again.
caf::result<bool> end_what_lived_on(self_ptr self, const std::string& node_id);
/// A worker that waited for its task's dependencies is given to the node that was chosen when it was asked for. If that has gone since, it
/// is placed again, or fails; where the host may come back and no other fits, it waits.
void begin_elsewhere_if_gone(self_ptr self, const v1::Spawn& row);

} // namespace swarm::lost_host
