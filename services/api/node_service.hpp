// The node over gRPC: state, graph, backup, shutdown, drills.
#pragma once

#include "actors/runtime/supervisor.hpp"
#include "services/call/blocking_worker.hpp"
#include "services/call/logins.hpp"
#include "services/call/service_environment.hpp"
#include "swarm/v1/node.grpc.pb.h"

namespace swarm {

/// What is known of the store's integrity; outlives the services, as a reader may take half an hour.
class integrity_report {
public:
  void set(std::string text) {
    std::lock_guard guard{mutex_};
    text_ = std::move(text);
  }
  std::string text() const {
    std::lock_guard guard{mutex_};
    return text_;
  }

private:
  mutable std::mutex mutex_;
  std::string text_ = "unchecked";
};

class node_service final : public v1::Node::CallbackService {
public:
  struct hooks {
    std::function<std::int64_t()> keeper_pid;
    std::function<void(bool keep_keeper)> stop;                                 // posts and returns
    std::function<std::int64_t()> running_keeper = [] { return 0; };            // attached or not; 0 = none
    std::function<std::string()> refused_keeper = [] { return std::string{}; }; // why it is not taken over
    std::vector<std::string> agents = {};                                       // whose programs the node itself finds
    std::function<std::size_t()> connections = [] { return 0; };                // open on the socket
    // The logs of conversations beside a backup of the store: why they cannot be copied, empty = they can, and were. The second one takes long.
    std::function<std::string(const std::string& backup)> objection_to_logs = [](const std::string&) { return "this node copies no logs"; };
    std::function<std::string(const std::string& backup, v1::BackupReply&)> copy_logs = [](const std::string& b, v1::BackupReply&) { return b; };
  };
  node_service(service_environment service, runtime::supervisor_actor root, hooks h, login_registry& logins)
    : service_(std::move(service)), root_(std::move(root)), hooks_(std::move(h)), logins_(logins), started_ms_(service_.node->clock->boot_ms()) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const v1::NodeStatusRequest*, v1::NodeStatus*) override;
  grpc::ServerUnaryReactor* Graph(grpc::CallbackServerContext*, const v1::GraphRequest*, v1::ActorGraph*) override;
  grpc::ServerUnaryReactor* Backup(grpc::CallbackServerContext*, const v1::BackupRequest*, v1::BackupReply*) override;
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext*, const v1::ShutdownRequest*, v1::ShutdownReply*) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext*, const v1::CheckRequest*, v1::CheckReply*) override;
  grpc::ServerUnaryReactor* KillActor(grpc::CallbackServerContext*, const v1::KillActorRequest*, v1::KillActorReply*) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext*, const v1::ExplainRequest*, v1::Explanation*) override;

  grpc::ServerUnaryReactor* Login(grpc::CallbackServerContext*, const v1::LoginRequest*, v1::LoginReply*) override;
  grpc::ServerUnaryReactor* Logout(grpc::CallbackServerContext*, const v1::LogoutRequest*, v1::LogoutReply*) override;
  grpc::ServerUnaryReactor* SetPassphrase(grpc::CallbackServerContext*, const v1::SetPassphraseRequest*, v1::SetPassphraseReply*) override;

  /// The background integrity check's result, for status.
  const std::shared_ptr<integrity_report>& integrity() const noexcept { return integrity_; }

private:
  service_environment service_;
  runtime::supervisor_actor root_;
  hooks hooks_;
  login_registry& logins_;
  std::int64_t started_ms_;
  std::shared_ptr<integrity_report> integrity_ = std::make_shared<integrity_report>();
  blocking_worker worker_; // last: it uses the rest
};

} // namespace swarm
