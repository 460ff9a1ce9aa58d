// Coordination over gRPC: establishes the caller, checks sizes, asks the front, translates back.
#pragma once

#include <atomic>

#include "services/call/service_environment.hpp"
#include "swarm/v1/coordination.grpc.pb.h"

namespace swarm {

class coordination_service final : public v1::Coordination::CallbackService {
public:
  explicit coordination_service(service_environment service) : service_(std::move(service)) {}

  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext*, const v1::ExecuteRequest*, v1::Reply*) override;
  grpc::ServerBidiReactor<v1::ExecuteRequest, v1::PipelineReply>* Pipeline(grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext*, const v1::Query*, v1::Answer*) override;
  grpc::ServerWriteReactor<v1::WatchReply>* Watch(grpc::CallbackServerContext*, const v1::WatchRequest*) override;
  grpc::ServerUnaryReactor* WaitForActivity(grpc::CallbackServerContext*, const v1::WaitRequest*, v1::Activity*) override;
  grpc::ServerWriteReactor<v1::AttachReply>* Attach(grpc::CallbackServerContext*, const v1::AttachRequest*) override;

private:
  service_environment service_;
  std::atomic<std::uint64_t> next_stream_{1};
};

} // namespace swarm
