// Why a node is not reached, for people.
#pragma once

#include <string>

namespace swarm {

/// Why a call reached nobody, in words of ours, of the text that gRPC has for it: "10.0.0.1:7400: connection refused". What another node says itself
/// stays as it is.
std::string failure_text(const std::string& of_grpc);

} // namespace swarm
