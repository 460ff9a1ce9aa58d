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
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "actors/fabric/node_environment.hpp"
#include "services/security/authority_store.hpp"
#include "swarm/v1/federation.grpc.pb.h"

namespace swarm {

/// Where the news of connections go. Outlives them.
class link_board {
public:
  void listen(link_listener);
  /// Of frames read and written: on the caller's thread, which does what comes of it, so that no lock may be held.
  void tell(link_news);

  // Those we have dialled. What gRPC's own thread gives back last must not be its last channel: gRPC 1.51 would end that thread from within.

  /// `abort` ends it at once. False when all are ending: whoever would come now, nobody would end.
  bool opened(const void* stream, std::string node_id, link_lane lane, std::function<void()> abort);
  /// Ends those to the node.
  void hang_up(const std::string& node_id, link_lane lane);
  /// What it held is destroyed by sweep().
  void over(const void* stream, std::shared_ptr<void> held);
  /// For a thread of its own: returns after close().
  void sweep();
  /// Ends all of them, lets no other one open, and waits for that, until the deadline.
  void end_all(std::chrono::steady_clock::time_point deadline);
  /// Nobody is told any more, once this has returned.
  void close();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  link_listener listener_;
  std::size_t telling_ = 0;
  bool ending_ = false;
  bool closed_ = false;
  struct open_stream {
    std::string node_id;
    link_lane lane;
    std::function<void()> abort;
  };
  std::map<const void*, open_stream> open_;
  std::vector<std::shared_ptr<void>> held_;
};

/// What nodes ask of the home beside the link, each from one whose certificate counts. Called on gRPC's threads, must not block: `done` is
/// called later, once, when the reply is filled in.
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
  void hang_up(const std::string& node_id, link_lane) override;
  /// An unidentified caller was refused, here or at another listener of the cluster.
  void tell_refused(std::string why);
  /// Who answers what nodes ask beside the link; outlives the serving.
  void answer_by(node_requests*);
  /// To ask the node there beside the link; UNAVAILABLE by the call's deadline when it is not reached.
  security_result<std::shared_ptr<grpc::Channel>> channel_to(const v1::NodeAddress&) const;

  /// Lets the nodes of the cluster in at this host:port, instead of where it did before; empty = nowhere. What is wrong, for people.
  std::optional<std::string> serve(const std::string& address);
  /// No new connections, and an end to those there are.
  void stop();

private:
  class service;
  class member_verifier;
  struct verifier_book;
  void stop_serving(); // by whoever holds `serving_`

  authority_store& authority_;
  const clock_port& clock_;
  std::shared_ptr<link_board> board_ = std::make_shared<link_board>();
  std::atomic<bool> stopped_ = false;
  std::mutex serving_; // the listener is changed by one at a time
  std::mutex mutex_;
  node_requests* requests_ = nullptr;
  std::unique_ptr<service> service_;
  std::shared_ptr<verifier_book> book_;
  std::unique_ptr<grpc::Server> server_;
  std::thread sweeping_{[board = board_] { board->sweep(); }};
};

/// What both directions of gRPC between nodes are set to.
void set_link_arguments(grpc::ChannelArguments&);

} // namespace swarm
