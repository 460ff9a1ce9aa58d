// A developer's agent that runs the tests must not be found above what they start: a test is a person at a terminal.
#pragma once

#include <optional>

namespace swarm::testing {

/// Runs this program again, where no agent is above it and without the variables that agents set, and gives its exit status. Nothing where that is
/// so already.
std::optional<int> run_apart(char** argv);

} // namespace swarm::testing
