// The gRPC server of a node and everything that feeds it.
#pragma once

#include <memory>

#include "services/api/cluster_service.hpp"
#include "services/api/conversation_service.hpp"
#include "services/api/coordination_service.hpp"
#include "services/api/node_service.hpp"
#include "services/api/pty_service.hpp"
#include "services/call/local_listener.hpp"

namespace swarm {

class node_server {
public:
  /// Starts serving on the state directory's socket. Throws std::runtime_error.
  node_server(caf::actor_system& sys, node_environment_ptr node, std::shared_ptr<const entry_actors> board, const worker_registry& workers,
              token_cache& tokens, agent_roots& roots, cluster& of, links& transport, runtime::supervisor_actor root, node_service::hooks hooks);
  ~node_server();

  /// No new connections and calls; those under way have until the grace is over. True when none was left.
  bool stop(std::chrono::milliseconds grace);
  /// Whether callers still find it at its socket.
  bool can_be_found();
  const std::shared_ptr<integrity_report>& integrity() const noexcept { return node_.integrity(); }

private:
  node_service::hooks with_connections(node_service::hooks);

  caller_table table_;
  login_registry logins_;
  caller_places places_;
  principals callers_;
  runtime::admission admission_;
  std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  refusals refused_;
  service_environment service_;
  coordination_service coordination_;
  pty_service ptys_;
  conversation_service conversations_;
  node_service node_;
  cluster_service cluster_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex listener_mutex_;
  std::unique_ptr<local_listener> listener_; // guarded by it: calls ask for it while it goes
};

} // namespace swarm
