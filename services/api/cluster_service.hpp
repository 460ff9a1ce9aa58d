// The cluster over gRPC, for the people at this node.
#pragma once

#include <functional>

#include "services/api/scope_use.hpp"
#include "services/call/blocking_worker.hpp"
#include "services/call/service_environment.hpp"
#include "services/federation/enrollment.hpp"
#include "services/federation/links.hpp"
#include "services/federation/node_listener.hpp"
#include "services/federation/renewal.hpp"
#include "swarm/v1/cluster.grpc.pb.h"

namespace swarm {

class cluster_service final : public v1::Cluster::CallbackService, private node_requests {
public:
  /// `end_node` stops the node, whose programs go on: another one is this home.
  cluster_service(service_environment service, cluster& of, links& transport, std::function<void()> end_node);
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
  grpc::ServerUnaryReactor* DrainNode(grpc::CallbackServerContext*, const v1::DrainNodeRequest*, v1::ClusterView*) override;
  grpc::ServerUnaryReactor* LeaveCluster(grpc::CallbackServerContext*, const v1::LeaveClusterRequest*, v1::LeaveClusterReply*) override;
  grpc::ServerUnaryReactor* ShareScope(grpc::CallbackServerContext*, const v1::ShareScopeRequest*, v1::CheckoutList*) override;
  grpc::ServerUnaryReactor* UnshareScope(grpc::CallbackServerContext*, const v1::UnshareScopeRequest*, v1::CheckoutList*) override;
  grpc::ServerUnaryReactor* ListCheckouts(grpc::CallbackServerContext*, const v1::ListCheckoutsRequest*, v1::CheckoutList*) override;

private:
  // Asked by other nodes.
  void renew(const std::string& node_id, const v1::RenewRequest&, v1::RenewReply&, done) override;
  void leave(const std::string& node_id, done) override;
  void drain(const std::string& node_id, const v1::DrainNodeRequest&, v1::ClusterView&, done) override;

  template <class Act>
  grpc::ServerUnaryReactor* in_background(grpc::CallbackServerContext*, domain::operation, Act act);
  template <class Act>
  grpc::ServerUnaryReactor* if_scopes_are_free(grpc::CallbackServerContext*, domain::operation, use_of_scope, const char* consequence, Act act);
  std::optional<security_failure> move_listener(const cluster_facts& before, const std::string& address);
  std::optional<security_failure> found(const v1::FoundRequest&, v1::FoundReply&);
  std::optional<security_failure> drain_here_or_at_home(const v1::DrainNodeRequest&, v1::ClusterView&);
  std::optional<security_failure> leave_cluster(bool force, v1::LeaveClusterReply&);
  std::optional<security_failure> tell_home_of_leave(const std::string& home_name, bool force, v1::LeaveClusterReply&, bool& is_told);
  std::optional<security_failure> ask_home(const std::function<grpc::Status(v1::Federation::Stub&, grpc::ClientContext&)>& call) const;
  void tell_federation();
  void begin_scopes_anew();
  /// There is a new certificate: connections from now on show it.
  void take_certificate();

  service_environment service_;
  cluster& cluster_;
  links& links_;
  node_listener listener_;
  enrollment enrollment_;
  renewal renewal_;
  blocking_worker worker_;
  blocking_worker for_nodes_; // what the worker above does may wait for the end of those
};

} // namespace swarm
