// Terminals over gRPC.
//
// A caller that passes a command its own standard input says so in the metadata of its Read: swarm-input is CLIENT/TASK, CLIENT being the client name
// of what it sends. When it goes before its input has ended, TASK is cancelled in its name: nobody else can bring the rest.
#pragma once

#include "actors/domain/typing.hpp"
#include "services/api/passed_inputs.hpp"
#include "services/call/service_environment.hpp"
#include "swarm/v1/pty.grpc.pb.h"

namespace swarm {

class pty_service final : public v1::Ptys::CallbackService {
public:
  explicit pty_service(service_environment service) : service_(std::move(service)) {}

  grpc::ServerUnaryReactor* Create(grpc::CallbackServerContext*, const v1::CreatePtyRequest*, v1::PtyInfo*) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext*, const v1::ListPtysRequest*, v1::PtyList*) override;
  grpc::ServerWriteReactor<v1::PtyChunk>* Read(grpc::CallbackServerContext*, const v1::ReadPtyRequest*) override;
  grpc::ServerUnaryReactor* Send(grpc::CallbackServerContext*, const v1::SendPtyRequest*, v1::SendPtyReply*) override;
  grpc::ServerUnaryReactor* Resize(grpc::CallbackServerContext*, const v1::ResizePtyRequest*, v1::PtyInfo*) override;
  grpc::ServerUnaryReactor* Kill(grpc::CallbackServerContext*, const v1::KillPtyRequest*, v1::PtyInfo*) override;
  grpc::ServerUnaryReactor* Forget(grpc::CallbackServerContext*, const v1::ForgetPtyRequest*, v1::PtyInfo*) override;
  grpc::ServerBidiReactor<v1::AttachFrame, v1::PtyChunk>* Attach(grpc::CallbackServerContext*) override;

private:
  service_environment service_;
  const std::shared_ptr<passed_inputs> inputs_ = std::make_shared<passed_inputs>();
};

/// Finds the terminal, here or on another node whose rules let the caller look, and runs `next` with it; `refuse` when there is none.
void with_terminal(caf::event_based_actor* self, const service_environment&, const std::string& id, const v1::Principal& who,
                   std::function<void(pty_actor)> next, std::function<void(grpc::Status)> refuse);
/// By the table of rights, and for typing by what the agent does: domain::refused_use, as a status.
grpc::Status may_use_terminal(const v1::Principal&, domain::operation, const v1::PtyInfo&);

} // namespace swarm
