// The transport of links: the streams Federation.Link and Federation.Bulk over gRPC with mutual TLS, opened by either node.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "actors/fabric/node_environment.hpp"
#include "services/security/authority_store.hpp"
#include "swarm/v1/federation.grpc.pb.h"

namespace swarm {

/// Metadata of a call outside the link: which run of the node calls, as in the hello of its link, in decimal digits.
inline constexpr const char* run_metadata = "swarm-run";

/// A connection of a member's link, as the transport sees it.
struct linked_run {
  std::atomic<std::uint64_t> run = 0;     // of the member, as its hello says; 0: it has not said yet
  std::atomic<bool> is_welcome = false;   // this node has said hello to it
  std::atomic<std::int64_t> heard_ms = 0; // boot time of its last frame
};

/// Takes the reports of all streams to the listener, and knows the streams that this node has dialled. The streams share it: it outlives them.
class link_board {
public:
  void listen(link_listener);
  /// Calls the listener on the caller's thread. The listener may call the stream, so the caller holds no lock.
  void report(link_news);
  /// When it returns, no report is running and no further one reaches the listener.
  void stop_reports();

  // Dialled streams, and their channels. Destroying the last channel shuts gRPC down, and gRPC 1.51 would then end the thread it runs on, were that
  // one of its own. So streams hand their channels over, and a thread of `links` destroys them.

  /// `abort` ends the stream at once. False after abort_all(): nobody would end the stream, so it must not start.
  bool add_dialled(const void* stream, std::string node_id, link_lane lane, std::function<void()> abort);
  /// The stream is done. destroy_released() destroys `resources`.
  void remove_dialled(const void* stream, std::shared_ptr<void> resources);
  /// Aborts the dialled streams of this lane to the node.
  void abort_dialled(const std::string& node_id, link_lane lane);
  /// Aborts all dialled streams, allows no new one, and waits until they are done or the deadline has passed.
  void abort_all(std::chrono::steady_clock::time_point deadline);
  // Which run of a member is linked. A copy of its state directory makes a node with the same id and certificate.

  /// The member is linked by this connection.
  void linked(const std::string& node_id, std::shared_ptr<linked_run>);
  void unlinked(const std::string& node_id, const std::shared_ptr<linked_run>&);
  /// Another run of the node than this one is linked, and heard.
  bool is_another_linked(const std::string& node_id, std::uint64_t run, std::int64_t now_ms);

  /// Runs on a thread of its own, until stop_reports().
  void destroy_released();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  link_listener listener_;
  std::size_t reporting_ = 0; // reports that are running
  bool stopping_ = false;     // abort_all() was called
  bool silent_ = false;       // stop_reports() was called
  struct dialled_entry {
    std::string node_id;
    link_lane lane;
    std::function<void()> abort;
  };
  std::map<const void*, dialled_entry> dialled_;
  std::vector<std::shared_ptr<void>> released_;
  std::map<std::string, std::shared_ptr<linked_run>> runs_; // by node
};

/// Answers what nodes with a valid certificate ask the home outside the link. Called on gRPC's threads; must not block. It calls `done` once, when
/// the reply is complete.
class node_requests {
public:
  using done = std::function<void(grpc::Status)>;
  virtual ~node_requests() = default;
  virtual void renew(const std::string& node_id, const v1::RenewRequest&, v1::RenewReply&, done) = 0;
  virtual void leave(const std::string& node_id, done) = 0;
  virtual void drain(const std::string& node_id, const v1::DrainNodeRequest&, v1::ClusterView&, done) = 0;
};

class links final : public link_port {
public:
  explicit links(authority_store& authority, const clock_port& clock);
  ~links() override;

  void listen(link_listener) override;
  void dial(const v1::NodeAddress&, link_lane) override;
  void cancel_dial(const std::string& node_id, link_lane) override;
  /// Reports that a caller without a valid certificate or token was refused, by this listener or by the join listener.
  void report_refused(std::string why);
  /// Sets what answers requests outside the link. It must outlive serve(); until it is set, such a request is UNAVAILABLE.
  void answer_with(node_requests*);
  /// A channel for calls outside the link. A call ends with UNAVAILABLE at its deadline when the node is not reached.
  security_result<std::shared_ptr<grpc::Channel>> channel_to(const v1::NodeAddress&) const;

  /// Listens for the nodes of the cluster at this host:port and no longer at the address before; empty = does not listen. When it cannot, it returns
  /// a text for people, and goes on to listen at the other address before, if there was one.
  std::optional<std::string> serve(const std::string& address);
  bool listens();
  /// Ends all connections and opens no new one.
  void stop();

private:
  class service;
  class member_verifier;
  struct verifier_owner;
  struct listening;
  /// Another run of the node than the one that calls is linked: one of them has a copy of the other's state directory.
  bool is_copy(const std::string& node_id, const std::optional<std::uint64_t>& run);
  security_result<std::unique_ptr<listening>> listen_at(const std::string& address);

  authority_store& authority_;
  const clock_port& clock_;
  std::shared_ptr<grpc::Channel> queue_holder_; // until stop()
  std::shared_ptr<link_board> board_ = std::make_shared<link_board>();
  std::atomic<bool> stopped_ = false;
  std::mutex serve_mutex_; // held while serve() or stop() replaces the server
  std::mutex mutex_;
  node_requests* requests_ = nullptr;
  std::unique_ptr<listening> listening_; // under serve_mutex_
  std::thread destroyer_{[board = board_] { board->destroy_released(); }};
};

/// A channel to the node for one that has these credentials.
std::shared_ptr<grpc::Channel> channel_with(const node_credentials&, const v1::NodeAddress&);
/// Sets what every channel between nodes has in common: message sizes, keepalive, timeouts.
void set_link_arguments(grpc::ChannelArguments&);

} // namespace swarm
