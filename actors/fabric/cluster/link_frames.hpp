// The frames of the link protocol as they go over the wire.
#pragma once

#include <memory>

#include "actors/runtime/link_protocol.hpp"
#include "swarm/v1/federation.pb.h"

namespace swarm {

/// Shared by the frames that carry it and by its handler.
using link_message = std::shared_ptr<const v1::LinkMessage>;

struct link_message_size {
  std::size_t operator()(const link_message& message) const { return message->ByteSizeLong(); }
};

/// Since this version of the protocol there is a second link between two nodes, for the output of terminals.
inline constexpr std::uint32_t link_protocol_with_bulk = 2;

using federation_link = runtime::link_end<link_message, link_message_size>;

v1::LinkFrame to_wire(const federation_link::frame&);
/// Anything can be decoded; the protocol judges it. The message is moved.
federation_link::frame from_wire(v1::LinkFrame);

} // namespace swarm
