// Who may use a terminal, and who may type into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/domain/rights.hpp"
#include "swarm/v1/pty.pb.h"

namespace swarm::domain {

/// Whose typing comes before that of agents and answers what they ask.
bool is_person(const v1::Principal&) noexcept;

/// Whether an agent's program runs in it: as a worker, or as what a person started in a terminal of ours.
bool is_agents_terminal(const v1::PtyInfo&);

/// Whose it is, as this principal sees it.
terminal terminal_of(const v1::Principal&, const v1::PtyInfo&);

/// Why the principal may not do that with the terminal, and what to do instead; nothing when it may. By the table of rights; what types
/// (pty_write) looks at what the agent does as well.
std::optional<std::string> refused_use(const v1::Principal&, const v1::PtyInfo&, operation);

/// Whether the input holds a key or a click. What a terminal says by itself (that it has the focus, where its cursor is, its colours) answers
/// nothing.
bool holds_keys(std::string_view input) noexcept;

} // namespace swarm::domain
