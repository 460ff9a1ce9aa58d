// A look at who answers at an address, before anything is said to it that a stranger must not hear.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "services/security/failure.hpp"

namespace swarm {

/// Speaks TLS with the server at host:port as gRPC would, and gives the DER of the certificate in its chain that has this SHA-256 (32
/// bytes). Nothing else is believed: the caller then talks to it trusting that certificate only. unreachable: nobody answers there, or
/// not with TLS 1.3; other_cluster: it shows another authority. Names are looked up by the system, in its own time; all else is over
/// within the timeout.
security_result<std::string> probe_authority(const std::string& address, std::string_view sha256, std::chrono::milliseconds timeout);
/// The same, but gives the certificate (DER) that the server shows as its own, whichever that is. It has proven that it holds the key.
security_result<std::string> probe_node(const std::string& address, std::chrono::milliseconds timeout);

} // namespace swarm
