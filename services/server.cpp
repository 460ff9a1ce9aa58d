#include "services/server.hpp"

#include <stdexcept>

#include "actors/base/log.hpp"

namespace swarm {

node_server::node_server(caf::actor_system& sys, node_environment_ptr node, std::shared_ptr<const entry_actors> board, const worker_registry& workers,
                         token_cache& tokens, agent_roots& roots, cluster& of, links& transport, runtime::supervisor_actor root,
                         node_service::hooks hooks)
  : logins_(node->facts.dir.login_file(), [clock = node->clock] { return clock->boot_ms(); }), places_(workers, roots, hooks.running_keeper),
    callers_(table_, workers, tokens, places_, &logins_),
    refused_({[clock = node->clock] { return clock->boot_ms(); }, [clock = node->clock] { return clock->unix_ms(); }},
             [](const std::string& line) { log::warn({line}); }),
    service_{sys, std::move(board), node, callers_, admission_, stopping_, of, refused_}, coordination_(service_), ptys_(service_),
    conversations_(service_), node_(service_, std::move(root), with_connections(hooks), logins_),
    cluster_(service_, of, transport, [stop = hooks.stop] { stop(true); }) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  // Local callers have no use for these, and each is a filter every call passes.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CENSUS, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Above what one principal may have in flight, so that the excess is refused by us instead of waiting in its client.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(limits::calls_in_flight_max()));
  builder.RegisterService(&coordination_);
  builder.RegisterService(&ptys_);
  builder.RegisterService(&conversations_);
  builder.RegisterService(&node_);
  builder.RegisterService(&cluster_);
  // No listening port: connections are accepted by ourselves, so that each is known by its process.
  server_ = builder.BuildAndStart();
  if (!server_)
    throw std::runtime_error("gRPC does not start");
  cluster_.start();
  std::lock_guard guard{listener_mutex_};
  listener_ = std::make_unique<local_listener>(node->facts.dir, *server_, table_, callers_, refused_);
}

node_service::hooks node_server::with_connections(node_service::hooks h) {
  h.connections = [this] {
    std::lock_guard guard{listener_mutex_};
    return listener_ ? listener_->open_connections() : 0;
  };
  return h;
}

bool node_server::can_be_found() {
  std::lock_guard guard{listener_mutex_};
  return listener_ && listener_->can_be_found();
}

node_server::~node_server() { stop(std::chrono::milliseconds{0}); }

bool node_server::stop(std::chrono::milliseconds grace) {
  std::unique_ptr<local_listener> accepting;
  {
    std::lock_guard guard{listener_mutex_};
    accepting = std::move(listener_);
  }
  accepting = nullptr;
  *stopping_ = true;
  cluster_.stop();
  if (!server_)
    return true;
  server_->Shutdown(std::chrono::system_clock::now() + grace);
  server_->Wait();
  server_ = nullptr;
  return true;
}

} // namespace swarm
