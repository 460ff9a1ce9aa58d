// What the end of a call means to its caller.
#pragma once

#include <grpcpp/grpcpp.h>

#include "gateway/client/failure.hpp"

namespace swarm::cli {

/// Another try may succeed.
bool worth_repeating(const grpc::Status&);
call_failed as_failure(const grpc::Status&);
/// A status that ends a call speaks of its last try.
call_failed as_failure(const grpc::Status&, bool may_have_arrived);
call_failed interrupted();

} // namespace swarm::cli
