// Errors of the fabric as gRPC statuses: one table, tested once.
#pragma once

#include <caf/error.hpp>
#include <grpcpp/support/status.h>

#include "actors/runtime/error.hpp"

namespace swarm {

grpc::Status to_status(const caf::error&);
grpc::Status to_status(errc, const std::string& text = {});

} // namespace swarm
