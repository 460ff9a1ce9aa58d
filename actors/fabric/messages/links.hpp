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

/// Of two nodes' links: the one for everything, and the one beside it for what may be much. Each has its connections, numbers and window.
enum class link_lane : std::uint8_t { control, bulk };
inline constexpr std::size_t link_lanes = 2;

/// One connection to another node, as the transport made it. Thread-safe; every function posts and returns.
class link_connection {
public:
  virtual ~link_connection() = default;
  /// Of the other node, from its certificate.
  virtual const std::string& node_id() const noexcept = 0;
  /// We called it, not it us.
  virtual bool dialled() const noexcept = 0;
  virtual link_lane lane() const noexcept = 0;
  /// One at a time: `written` tells when there is room for another.
  virtual void write(v1::LinkFrame) = 0;
  /// The next frame is wanted; the first one is read without asking.
  virtual void read() = 0;
  /// Ends it; what was written before is sent first.
  virtual void close() = 0;
  /// Ends it at once: nothing is heard from the other side, so what was written is not waited for.
  virtual void abort() = 0;
};
using link_connection_ptr = std::shared_ptr<link_connection>;

/// The transport's news of a connection, in the order they happened.
struct link_news {
  enum kind_t { connected, frame, written, disconnected, not_reached } kind = disconnected;
  link_connection_ptr connection; // null when it was not reached
  std::string node_id;
  link_lane lane = link_lane::control;
  v1::LinkFrame body;
  std::string text; // why it ended, for people
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
