// What changes between two texts, as diff -u shows it.
#pragma once

#include <string>

namespace swarm::cli {

/// Hunks with three lines of context, without a heading; empty for equal texts. Values of keys that sound like secrets are not
/// shown: the files are somebody's settings and the diff may end in a log.
std::string unified_diff(const std::string& before, const std::string& after);

} // namespace swarm::cli
