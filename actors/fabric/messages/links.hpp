// The links to other nodes: the port of the transport, and what passes over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <caf/allowed_unsafe_message_type.hpp>

#include "swarm/v1/cluster.pb.h"
#include "swarm/v1/federation.pb.h"

namespace swarm {

/// The two lanes of a link. `bulk` carries what may be large, such as a followed terminal; `control` carries everything else. Each lane has its
/// own connection, sequence numbers and flow-control window.
enum class link_lane : std::uint8_t { control, bulk };
inline constexpr std::size_t link_lanes = 2;

/// One connection to another node. Thread-safe; no function blocks, and results come as link_news.
class link_connection {
public:
  virtual ~link_connection() = default;
  /// Id of the other node, from its certificate.
  virtual const std::string& node_id() const noexcept = 0;
  /// True when this node opened the connection.
  virtual bool dialled() const noexcept = 0;
  virtual link_lane lane() const noexcept = 0;
  /// Queues one frame. The caller waits for `written` before it writes the next one. A frame is dropped without a report when
  /// limits::link_frames_queued_max frames are queued, and after close(), abort() or the end of the connection.
  virtual void write(v1::LinkFrame) = 0;
  /// Asks for the next frame. The transport reads the first one without being asked.
  virtual void read() = 0;
  /// Sends the frames already written, then ends the connection.
  virtual void close() = 0;
  /// Ends the connection at once and drops unsent frames: for a node that no longer answers.
  virtual void abort() = 0;
};
using link_connection_ptr = std::shared_ptr<link_connection>;

/// What the transport reports about one connection, in order.
struct link_news {
  /// connected: the connection stands. frame: `body` has arrived. written: no frame is queued any more. disconnected: it has ended.
  /// not_reached: a dialled node could not be reached, or a caller without a valid certificate was refused; for such a caller `node_id` is
  /// empty and `lane` is control.
  enum kind_t { connected, frame, written, disconnected, not_reached } kind = disconnected;
  link_connection_ptr connection; // null with not_reached
  std::string node_id;
  link_lane lane = link_lane::control;
  v1::LinkFrame body;
  std::string text; // with disconnected and not_reached: the reason, for people; may be empty
};
using link_news_ptr = std::shared_ptr<const link_news>;
using link_request_ptr = std::shared_ptr<const v1::LinkRequest>;
using link_response_ptr = std::shared_ptr<const v1::LinkResponse>;
using cluster_view_ptr = std::shared_ptr<const v1::ClusterView>;
using cluster_node_ptr = std::shared_ptr<const v1::ClusterNode>;
using principal_ptr = std::shared_ptr<const v1::Principal>;

} // namespace swarm

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::link_news_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::link_request_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::link_response_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::cluster_view_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::cluster_node_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::principal_ptr)
