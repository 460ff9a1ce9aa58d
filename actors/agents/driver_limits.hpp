// The limits that the node's configuration sets and a driver keeps: it reads no configuration, for it outlives the node that has started it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swarm::agents {

/// As they are in this process: name=value,name=value. An argument of swarm-driver.
std::string driver_limits();
/// Sets them in this process, which has one thread. A text for the user, and nothing set, for another name or a value out of its range.
std::optional<std::string> set_driver_limits(std::string_view text);

} // namespace swarm::agents
