// How long the client of a call waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include <grpcpp/grpcpp.h>

namespace swarm {

/// The time to the call's deadline, less a tenth (at most half a second) for the answer to arrive: what is asked of another node until then
/// fails in time with a reason, where the client would hear of its own deadline only. nullopt: the call has no deadline.
inline std::optional<std::chrono::milliseconds> patience_of(const grpc::CallbackServerContext& call) {
  using std::chrono::milliseconds;
  const auto at = call.deadline();
  if (at == std::chrono::system_clock::time_point::max())
    return std::nullopt;
  const auto left = std::chrono::duration_cast<milliseconds>(at - std::chrono::system_clock::now());
  return std::max(left - std::min(left / 10, milliseconds{500}), milliseconds{1});
}

} // namespace swarm
