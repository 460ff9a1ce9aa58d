// The cluster over gRPC, for the people at this node.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "services/coordination_service.hpp"
#include "services/federation/enrollment.hpp"
#include "services/federation/links.hpp"
#include "swarm/v1/cluster.grpc.pb.h"

namespace swarm {

/// One thread for what blocks: files, passphrases, a call to another host.
class blocking_worker {
public:
  blocking_worker() : thread_([this] { run(); }) {}
  ~blocking_worker();
  /// False: too much waits already, or it ends.
  bool post(std::function<void()> work);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

class cluster_service final : public v1::Cluster::CallbackService {
public:
  cluster_service(service_context context, cluster& of, links& transport);
  ~cluster_service() override;

  /// Listens where the files say, and lets the links begin.
  void start();
  void stop();

  grpc::ServerUnaryReactor* Found(grpc::CallbackServerContext*, const v1::FoundRequest*, v1::FoundReply*) override;
  grpc::ServerUnaryReactor* CreateJoinToken(grpc::CallbackServerContext*, const v1::CreateJoinTokenRequest*, v1::JoinToken*) override;
  grpc::ServerUnaryReactor* JoinCluster(grpc::CallbackServerContext*, const v1::JoinClusterRequest*, v1::ClusterView*) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext*, const v1::ListNodesRequest*, v1::ClusterView*) override;
  grpc::ServerUnaryReactor* UnlockAuthority(grpc::CallbackServerContext*, const v1::UnlockAuthorityRequest*, v1::UnlockAuthorityReply*) override;
  grpc::ServerUnaryReactor* RevokeNode(grpc::CallbackServerContext*, const v1::RevokeNodeRequest*, v1::ClusterView*) override;

private:
  template <class Act>
  grpc::ServerUnaryReactor* in_background(grpc::CallbackServerContext*, Act act);
  std::optional<security_failure> found(const v1::FoundRequest&, v1::FoundReply&);
  void tell_federation();

  service_context context_;
  cluster& cluster_;
  links& links_;
  enrollment enrollment_;
  blocking_worker worker_;
};

} // namespace swarm
