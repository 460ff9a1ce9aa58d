// Why a node is not reached, for people.
#pragma once

#include <string>

namespace swarm {

/// gRPC's text for a call that reached nobody, without the words that gRPC puts around it: "10.0.0.1:7400: connection refused". A text about
/// certificates or TLS stays whole, as does any other.
std::string failure_text(const std::string& of_grpc);

} // namespace swarm
