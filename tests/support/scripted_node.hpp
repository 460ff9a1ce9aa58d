// A node of the cluster that the test plays: it joins through the real join listener, and then says on its links whatever the test wants.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "actors/fabric/cluster/link_frames.hpp"
#include "actors/fabric/interfaces.hpp"
#include "services/security/authority.hpp"
#include "tests/support/node_process.hpp"

namespace swarm::testing {

/// Who a node is, where it calls, and what it shows there.
struct member_identity {
  std::string cluster_id;
  std::string node_id;
  std::string node_name;
  std::string home_id;
  std::string home_address;
  std::string key_pem;
  std::string chain_pem; // empty: it shows no certificate
  std::string authority_pem;
};

/// Comes in with the token, as `swarmctl join` does; a node of that id comes again. Throws with the reason when it is not let in.
member_identity join_as_member(const std::string& token, const std::string& name, const std::string& node_id = {});
/// The authority of a cluster whose key is kept without a passphrase.
authority authority_of(const test_node& home);
/// Another key and certificate for the same node, of this authority, valid from then to then.
member_identity certified_by(const authority&, member_identity, std::int64_t from_ms, std::int64_t to_ms);

/// To the home, as this node; nothing is connected before the first call.
std::shared_ptr<grpc::Channel> channel_of(const member_identity&);

/// One connection. Nothing is said on it but what the test says.
class link_stream {
public:
  /// `reads`: what the home says is taken in.
  explicit link_stream(const member_identity&, link_lane lane = link_lane::control, bool reads = true);
  ~link_stream();
  link_stream(const link_stream&) = delete;
  link_stream& operator=(const link_stream&) = delete;

  /// False: the connection is over.
  bool write(const v1::LinkFrame&);
  bool write_bytes(const std::string&);
  /// Of a connection that does not read by itself: waits for the next frame. False: the connection is over, or the frame unreadable.
  bool read(v1::LinkFrame&);
  /// The next frame; nothing at the end of the connection, or at the deadline.
  std::optional<v1::LinkFrame> next(std::chrono::milliseconds deadline = patience);
  /// The close, whatever came before it; nothing when the connection ends without one.
  std::optional<v1::LinkClose> close_of_home(std::chrono::milliseconds deadline = patience);
  /// Whether it has ended by then.
  bool over(std::chrono::milliseconds deadline = patience);
  /// Why it has ended. Ends it if it has not.
  grpc::Status end();

private:
  void read_all();
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::LinkFrame> frames_;
  bool over_ = false;
  std::optional<grpc::Status> status_;
  std::thread reader_;
};

v1::LinkFrame hello_frame(const member_identity&, std::uint32_t protocol = limits::link_protocol, std::uint32_t protocol_min = 1);
/// A connection with both hellos said and the home's credit given.
std::unique_ptr<link_stream> linked_stream(const member_identity&, link_lane lane = link_lane::control);

/// A node that keeps the link protocol as the product does, with options of its own, on one connection.
class scripted_node {
public:
  /// Answers what the home asks; what it leaves empty is answered as not found.
  using answers = std::function<void(const v1::LinkRequest&, v1::LinkResponse&)>;

  scripted_node(member_identity, std::uint32_t protocol, std::uint32_t protocol_min, std::int64_t clock_offset_ms = 0, answers = {});
  ~scripted_node();

  bool up(std::chrono::milliseconds deadline = patience);
  /// Nothing at the deadline.
  std::optional<v1::LinkResponse> ask(v1::LinkRequest, std::chrono::milliseconds deadline = patience);
  const member_identity& identity() const { return who_; }

private:
  void run();
  bool take_events();
  const member_identity who_;
  const std::int64_t clock_offset_ms_;
  const answers answers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  federation_link link_;
  federation_link::connection connection_ = 0;
  link_stream stream_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, v1::LinkResponse> answered_;
  bool up_ = false;
  bool ending_ = false;
  std::thread thread_;
};

} // namespace swarm::testing
