// A person who shows the passphrase of the node.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

inline void set_passphrase(const test_node& node) {
  terminal_process mine{{program("swarmctl").string(), "login", "--set"}, node.env(), node.work()};
  for (const auto* question : {"swarmctl login: ", "Once more: "}) {
    REQUIRE(mine.read_until(question));
    mine.type("correct horse\n");
  }
  REQUIRE(mine.finish() == 0);
}

/// At the shell of the terminal.
inline void log_in(terminal_process& terminal) {
  terminal.type(program("swarmctl").string() + " login\n");
  REQUIRE(terminal.read_until("Passphrase: "));
  terminal.type("correct horse\n");
  REQUIRE_MESSAGE(terminal.read_until("for 12 h"), terminal.screen());
}

/// The command line of a terminal with a shell, for whoever is to stand above it.
inline constexpr const char* terminal_with_shell = "script -qc '/bin/bash --norc -i' /dev/null";

} // namespace swarm::testing
