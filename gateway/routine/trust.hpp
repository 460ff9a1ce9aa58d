// Which of the repositories' routines the user has looked at and trusts: by the digest of the file's bytes, so that a changed file is
// another one. Kept in the user's state directory, never in a repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "gateway/routine/places.hpp"

namespace swarm::routines {

enum class trust { given, changed, missing };
/// "trusted", "changed", "untrusted"
const char* to_text(trust) noexcept;

/// The user's own and the shipped ones need none. `changed`: an earlier content of the file was trusted. What cannot be read is no
/// trust.
trust trust_of(const places&, const routine_file&);

/// From now on it is trusted as it is. Makes the state directory when there is none; the file is readable by its user only and is replaced
/// at once. Throws std::runtime_error.
void trust_it(const places&, const routine_file&, std::int64_t now_ms);

/// Why it may not run, for people; empty when it may.
std::string objection(const places&, const routine_file&);

} // namespace swarm::routines
