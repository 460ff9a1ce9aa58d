// Digests in commands and queries are SHA-256 sums.
#pragma once

#include <cstddef>

namespace swarm::domain {

inline constexpr std::size_t digest_bytes = 32;

} // namespace swarm::domain
