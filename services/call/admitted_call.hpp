// How a call begins: its caller is admitted and its request checked before anything runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "services/call/bridge.hpp"
#include "services/call/service_environment.hpp"

namespace swarm {

/// `run(admitted)` starts the call of a caller who may make it (`what`, by the table of rights). Everybody else, and a request that is wrong (`wrong`
/// says why), gets the status at once.
template <class Run>
grpc::ServerUnaryReactor* when_admitted(const service_environment& service, const grpc::CallbackServerContext& ctx, domain::operation what,
                                        const std::optional<std::string>& wrong, Run run, look_again when = look_again::if_needed) {
  auto in = admit(service, ctx, what, when);
  if (!in.status.ok())
    return finish_now(in.status);
  if (wrong)
    return finish_now({grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  return run(std::move(in));
}

/// The same for a call that an actor works on: `act(self, answer)`.
template <class Act>
grpc::ServerUnaryReactor* for_admitted(const service_environment& service, grpc::CallbackServerContext* ctx, domain::operation what, Act act) {
  return when_admitted(service, *ctx, what, std::nullopt, [&](const admitted& in) { return run_unary(service.system, in.slot, act); });
}

/// The same for a stream: `start(who, io)` gives it its actor.
template <class Reactor, class Start>
Reactor* stream_when_admitted(const service_environment& service, const grpc::CallbackServerContext& ctx, domain::operation what,
                              const std::optional<std::string>& wrong, Start start) {
  auto io = std::make_shared<Reactor>();
  auto in = admit(service, ctx, what);
  io->hold(io, in.slot);
  if (!in.status.ok())
    io->close(in.status);
  else if (wrong)
    io->close({grpc::StatusCode::INVALID_ARGUMENT, *wrong});
  else
    start(in.who, io);
  return io.get();
}

} // namespace swarm
