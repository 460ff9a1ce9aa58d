// Descriptors 0, 1 and 2 of this process.
#pragma once

namespace swarm {

/// Runs before main by itself in a program that calls it. Opens what the caller has closed of them, before a socket or a lock file gets that number
/// and is read or written as a standard stream. Input is then empty; a write to the others fails with EBADF, as it did.
void open_standard_streams();

} // namespace swarm
