// Joining a cluster, both sides: the home's join listener, which is open only while a join token is valid, and the call of the node that joins.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "services/federation/cluster.hpp"

namespace swarm {

class enrollment {
public:
  /// `joined` is called when a node has joined, `refused` with the reason when one was refused; both from any thread.
  enrollment(cluster& of, const clock_port& clock, std::function<void()> joined, std::function<void(std::string)> refused);
  ~enrollment();

  /// Makes a token for one node and opens the listener. The failure's text is for people.
  security_result<secret> create_token(std::int64_t ttl_ms, std::int64_t& expires_ms);
  /// Opens the listener again for tokens that were made before the node was restarted.
  void resume();
  /// This node has a new certificate. The listener takes it shortly before its present one ends.
  void renewed();
  void stop();

private:
  class service;

  // Under the mutex:
  std::optional<security_failure> open();
  void close();
  void take_certificate();
  // The closer's thread:
  void close_in_time();

  cluster& cluster_;
  const clock_port& clock_;
  std::function<void()> joined_;
  std::function<void(std::string)> refused_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::int64_t certificate_ends_ms_ = 0; // end of the certificate that the listener uses
  bool renewed_ = false;                 // this node has a newer certificate
  std::string address_;                  // where the listener is
  std::unique_ptr<service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::thread closer_;
};

/// The address of the join listener of a node that listens at `listen`: the next TCP port. Empty when `listen` is not host:port or has no next port.
std::optional<std::string> join_address(const std::string& listen);

/// Asks the home that the token names for a certificate, and makes this node a member of its cluster. A call that the home cuts off is made a second
/// time, after `pause`, which returns false when there is to be no second one. Blocks for at most four times limits::cluster_call_timeout and a
/// pause.
std::optional<security_failure> join_cluster(cluster& mine, const node_facts& facts, std::string_view token, const std::string& listen,
                                             std::int64_t now_ms, const std::function<bool(std::chrono::milliseconds)>& pause);

} // namespace swarm
