// Errors of the fabric as gRPC statuses: one table, tested once.
#pragma once

#include <optional>

#include <caf/error.hpp>
#include <grpcpp/support/status.h>

#include "actors/runtime/error.hpp"
#include "services/security/failure.hpp"

namespace swarm {

/// A request of CAF that timed out is DEADLINE_EXCEEDED, any other error of CAF UNAVAILABLE: the outcome is unknown then, and the
/// request id makes a repetition safe.
grpc::Status to_status(const caf::error&);
/// Without a text, the code's own.
grpc::Status to_status(errc, const std::string& text = {});
/// What a person asked of security; trying again by itself does not help.
grpc::Status status_of(const std::optional<security_failure>&);

} // namespace swarm
