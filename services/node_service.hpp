// The node over gRPC: state, graph, backup, shutdown, drills.
#pragma once

#include "actors/runtime/supervisor.hpp"
#include "services/coordination_service.hpp"
#include "swarm/v1/node.grpc.pb.h"

namespace swarm {

class node_service final : public v1::Node::CallbackService {
public:
  struct hooks {
    std::function<std::int64_t()> keeper_pid;
    std::function<void(bool keep_keeper)> stop; // posts and returns
  };
  node_service(service_context context, runtime::supervisor_actor root, hooks h)
    : context_(std::move(context)), root_(std::move(root)), hooks_(std::move(h)), started_ms_(context_.node->clock->boot_ms()) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const v1::NodeStatusRequest*, v1::NodeStatus*) override;
  grpc::ServerUnaryReactor* Graph(grpc::CallbackServerContext*, const v1::GraphRequest*, v1::ActorGraph*) override;
  grpc::ServerUnaryReactor* Backup(grpc::CallbackServerContext*, const v1::BackupRequest*, v1::BackupReply*) override;
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext*, const v1::ShutdownRequest*, v1::ShutdownReply*) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext*, const v1::CheckRequest*, v1::CheckReply*) override;
  grpc::ServerUnaryReactor* KillActor(grpc::CallbackServerContext*, const v1::KillActorRequest*, v1::KillActorReply*) override;

  /// The background integrity check's result, for status.
  void set_integrity(std::string text);

private:
  std::string integrity() const;

  service_context context_;
  runtime::supervisor_actor root_;
  hooks hooks_;
  std::int64_t started_ms_;
  mutable std::mutex mutex_;
  std::string integrity_ = "unchecked";
};

} // namespace swarm
