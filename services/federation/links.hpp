// The transport of links: Federation.Link over gRPC with mutual TLS, in both directions.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "actors/fabric/context.hpp"
#include "services/security/authority_store.hpp"
#include "swarm/v1/federation.grpc.pb.h"

namespace swarm {

/// Where the news of connections go. Outlives them.
class link_board {
public:
  void listen(link_listener);
  void tell(link_news);

  // Those we have dialled. What gRPC's own thread gives back last must not be its last channel: gRPC 1.51 would end that thread from within.

  /// `cancel` ends it.
  void opened(const void* stream, std::function<void()> cancel);
  /// What it held is destroyed by the next who calls sweep().
  void over(const void* stream, std::shared_ptr<void> held);
  void sweep();
  /// Ends all of them and waits for that, until the deadline.
  void end_all(std::chrono::steady_clock::time_point deadline);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  link_listener listener_;
  std::map<const void*, std::function<void()>> open_;
  std::vector<std::shared_ptr<void>> held_;
};

class links final : public link_port {
public:
  explicit links(authority_store& authority, const clock_port& clock);
  ~links() override;

  void listen(link_listener) override;
  void dial(const v1::NodeAddress&) override;

  /// Lets the nodes of the cluster in at this host:port, instead of where it did before; empty = nowhere. What is wrong, for people.
  std::optional<std::string> serve(const std::string& address);
  /// No new connections, and an end to those there are.
  void stop();

private:
  class service;
  void stop_serving();

  authority_store& authority_;
  const clock_port& clock_;
  std::shared_ptr<link_board> board_ = std::make_shared<link_board>();
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::unique_ptr<service> service_;
  std::unique_ptr<grpc::Server> server_;
};

/// What both directions of gRPC between nodes are set to.
void set_link_arguments(grpc::ChannelArguments&);

} // namespace swarm
