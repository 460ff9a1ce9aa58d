// Reading conversations over gRPC.
#pragma once

#include "services/call/service_environment.hpp"
#include "swarm/v1/conversation.grpc.pb.h"

namespace swarm {

class conversation_service final : public v1::Conversations::CallbackService {
public:
  explicit conversation_service(service_environment service) : service_(std::move(service)) {}

  grpc::ServerWriteReactor<v1::ConversationChunk>* Read(grpc::CallbackServerContext*, const v1::ReadConversationRequest*) override;

private:
  service_environment service_;
};

} // namespace swarm
