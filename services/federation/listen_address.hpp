// The address at which a node listens for the others of its cluster, and who else may be there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "services/security/authority_store.hpp"

namespace swarm {

/// 0.0.0.0 and its like: every address of the machine to who listens, and none to who calls.
bool names_no_host(const std::string& address);
bool has_port_of(const std::string& address, const std::string& other);
enum class port_is : std::uint8_t { anybodys, ours };
/// Why nobody can listen there just now, for people; nothing when somebody could. `ours`: we listen at the port, and would give it up.
std::optional<std::string> listen_obstacle(const std::string& address, port_is = port_is::anybodys);
/// A text for people when the node that listens at this home's address shows a certificate of this home: it has a copy of the state directory, or
/// this node has one. Nothing at a member, which its home tells. Blocks for limits::link_connect_timeout at most.
std::optional<std::string> twin_of_home(const authority_store&, std::int64_t now_ms);

} // namespace swarm
