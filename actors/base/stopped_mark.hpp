// The mark by which the operator's `swarmctl down` outlasts the node.
#pragma once

#include <optional>
#include <system_error>

#include "actors/base/paths.hpp"

namespace swarm {

struct stopped_mark {
  bool programs_go_on = false; // the keeper was left alone: what runs in terminals is there again after `swarmctl up`
};

/// Nothing while the node may be started by who needs it.
std::optional<stopped_mark> read_stopped_mark(const state_dir&);
std::error_code write_stopped_mark(const state_dir&, stopped_mark);

} // namespace swarm
