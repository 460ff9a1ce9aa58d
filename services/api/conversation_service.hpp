// Reading conversations over gRPC, and what is too large for a row.
#pragma once

#include "services/call/service_environment.hpp"
#include "swarm/v1/conversation.grpc.pb.h"

namespace swarm {

class conversation_service final
  : public v1::Conversations::WithRawCallbackMethod_Read<
      v1::Conversations::WithCallbackMethod_ReadBlob<v1::Conversations::WithCallbackMethod_WriteBlob<v1::Conversations::Service>>> {
public:
  explicit conversation_service(service_environment service) : service_(std::move(service)) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Read(grpc::CallbackServerContext*, const grpc::ByteBuffer*) override;
  grpc::ServerWriteReactor<v1::BlobPart>* ReadBlob(grpc::CallbackServerContext*, const v1::ReadBlobRequest*) override;
  grpc::ServerReadReactor<v1::WriteBlobRequest>* WriteBlob(grpc::CallbackServerContext*, v1::WriteBlobReply*) override;

private:
  service_environment service_;
};

} // namespace swarm
