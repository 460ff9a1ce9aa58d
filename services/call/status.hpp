// Errors of the fabric as gRPC statuses: one table, tested once.
#pragma once

#include <caf/error.hpp>
#include <grpcpp/support/status.h>

#include "actors/runtime/error.hpp"

namespace swarm {

/// A request of CAF that timed out is DEADLINE_EXCEEDED, any other error of CAF UNAVAILABLE: the outcome is unknown then, and the
/// request id makes a repetition safe.
grpc::Status to_status(const caf::error&);
/// Without a text, the code's own.
grpc::Status to_status(errc, const std::string& text = {});

} // namespace swarm
