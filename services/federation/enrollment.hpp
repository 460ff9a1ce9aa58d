// The join listener, through which a new node comes in. It is open only while a join token is valid.
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
  /// Called from any thread when a node has come in, and with the reason when one was not let in.
  enrollment(cluster& of, const clock_port& clock, std::function<void()> joined, std::function<void(std::string)> refused);
  ~enrollment();

  /// A token for one node, as text; the listener is open from now on. What is wrong is for people.
  security_result<secret> create_token(std::int64_t ttl_ms, std::int64_t& expires_ms);
  /// Opens the listener again for tokens that were made before the node was restarted.
  void resume();
  /// This node has a new certificate: a node that joins sees it before the one that it had ends.
  void renewed();
  void stop();

private:
  class service;

  std::optional<security_failure> open();
  void close();
  void close_in_time();
  void take_certificate();

  cluster& cluster_;
  const clock_port& clock_;
  std::function<void()> joined_;
  std::function<void(std::string)> refused_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::int64_t certificate_ends_ms_ = 0; // of the one that the listener shows
  bool renewed_ = false;                 // there is a newer one
  std::unique_ptr<service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::thread closer_;
};

/// Where the join listener of a node at this address is: the port after it. Nothing when it is no address.
std::optional<std::string> join_address(const std::string& listen);

/// Asks the home that the token names for a certificate, and makes this node one of its cluster. Blocks for twice limits::cluster_call_timeout at
/// most, and between two attempts in `pause`, which returns false when there is to be no second one.
std::optional<security_failure> join_cluster(cluster& mine, const node_facts& facts, std::string_view token, const std::string& listen,
                                             std::int64_t now_ms, const std::function<bool(std::chrono::milliseconds)>& pause);

} // namespace swarm
