// What a node lets the others do on it: `[accept]` of its config.toml. Looked at by the node that runs the program or holds the terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/domain/harness.hpp"
#include "swarm/v1/state.pb.h"

namespace swarm::domain {

/// Which principals of another node may start programs here, which programs, and where. "*" stands for all.
struct accept_spawn {
  std::vector<std::string> principals{"operator"};
  std::vector<std::string> harnesses{"*"};
  /// Of what agents ask for, when `principals` lets them: a command of theirs would be as good as a login.
  std::vector<std::string> session_harnesses{agents.begin(), agents.end()};
  /// Directories with what lies in them, absolute.
  std::vector<std::string> directories{"*"};
};

/// Which principals of another node may look at the terminals of this one, and type into them.
struct accept_terminals {
  std::vector<std::string> read{"operator"};
  std::vector<std::string> write{"operator"};
};

struct accept_policy {
  accept_spawn spawn;
  accept_terminals terminals;
};

/// The names `principals`, `read` and `write` may hold: operator, gateway, session, device, or "*".
bool is_accept_principal(std::string_view name) noexcept;

// Why not, naming the rule; nothing = it may.

/// `directory`: absolute, where the program would run.
std::optional<std::string> refused_spawn(const accept_policy&, const v1::Spawn& asked, const std::string& directory);
std::optional<std::string> refused_terminal(const accept_policy&, const v1::Principal& who, bool writes);

} // namespace swarm::domain
