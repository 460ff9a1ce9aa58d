// Passphrases of people: kept as a slow hash (argon2id), never as they are.
#pragma once

#include <string>
#include <string_view>

#include "services/security/failure.hpp"

namespace swarm {

/// What is kept of it: text with its own salt and cost, about 100 bytes. Takes 64 MiB and some tenths of a second.
security_result<std::string> hash_passphrase(std::string_view passphrase);
/// Whether that was made of this passphrase. Takes as much.
bool is_passphrase_of(std::string_view hash, std::string_view passphrase);

/// Overwrites text that a library holds; what the library copied before is not reached.
void wipe(std::string&);

} // namespace swarm
