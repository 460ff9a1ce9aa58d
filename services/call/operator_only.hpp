// Calls that only the operator may make.
#pragma once

#include "services/call/service_environment.hpp"

namespace swarm {

/// Lets the operator in, outside every worker; everybody else gets the status to refuse the call with.
inline admitted admit_operator(const service_environment& service, const grpc::CallbackServerContext& ctx) {
  auto in = admit(service, ctx);
  if (in.status.ok() && (!in.who.is_final() || in.who.principal.kind() != v1::Principal::OPERATOR))
    in.status = {grpc::StatusCode::PERMISSION_DENIED,
                 "only the operator, outside every worker and agent, may do that: " + reason_of(in.who.place) + ask_why};
  return in;
}

/// `run(admitted)` starts the call of the operator; everybody else is refused.
template <class Run>
grpc::ServerUnaryReactor* when_operator(const service_environment& service, const grpc::CallbackServerContext& ctx, Run run) {
  auto in = admit_operator(service, ctx);
  return in.status.ok() ? run(std::move(in)) : finish_now(in.status);
}

/// The same for a call that an actor works on: `act(self, answer)`.
template <class Act>
grpc::ServerUnaryReactor* for_operator(const service_environment& service, grpc::CallbackServerContext* ctx, Act act) {
  return when_operator(service, *ctx, [&](const admitted& in) { return run_unary(service.system, in.slot, act); });
}

} // namespace swarm
