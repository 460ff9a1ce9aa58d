// Calls that only the operator may make.
#pragma once

#include "services/call/service_environment.hpp"

namespace swarm {

/// Lets the operator in, outside every worker; everybody else gets the status to refuse the call with.
inline admitted admit_operator(const service_environment& service, const grpc::CallbackServerContext& ctx) {
  auto in = admit(service, ctx);
  if (in.status.ok() && (!in.who.token_hash.empty() || in.who.principal.kind() != v1::Principal::OPERATOR))
    in.status = {grpc::StatusCode::PERMISSION_DENIED, "only the operator, outside every worker, may do that"};
  return in;
}

/// Runs `act` for the operator; everybody else is refused.
template <class Act>
grpc::ServerUnaryReactor* for_operator(const service_environment& service, grpc::CallbackServerContext* ctx, Act act) {
  auto in = admit_operator(service, *ctx);
  return in.status.ok() ? run_unary(service.system, in.slot, act) : finish_now(in.status);
}

} // namespace swarm
