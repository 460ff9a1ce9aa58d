#include "actors/fabric/cluster/link_frames.hpp"

namespace swarm {

namespace {

using runtime::link_reason;

static_assert(static_cast<int>(link_reason::unspecified) == v1::LinkClose::CODE_UNSPECIFIED);
static_assert(static_cast<int>(link_reason::going) == v1::LinkClose::GOING);
static_assert(static_cast<int>(link_reason::duplicate) == v1::LinkClose::DUPLICATE);
static_assert(static_cast<int>(link_reason::protocol) == v1::LinkClose::PROTOCOL);
static_assert(static_cast<int>(link_reason::wrong_cluster) == v1::LinkClose::WRONG_CLUSTER);
static_assert(static_cast<int>(link_reason::wrong_node) == v1::LinkClose::WRONG_NODE);
static_assert(static_cast<int>(link_reason::revoked) == v1::LinkClose::REVOKED);
static_assert(static_cast<int>(link_reason::silent) == v1::LinkClose::SILENT && v1::LinkClose::SILENT == v1::LinkClose::Code_MAX);

v1::LinkHello hello_to_wire(const runtime::link_hello& h) {
  v1::LinkHello out;
  out.set_protocol(h.protocol);
  out.set_protocol_min(h.protocol_min);
  out.set_cluster_id(h.cluster_id);
  out.set_node_id(h.node_id);
  out.set_node_name(h.node_name);
  out.set_version(h.version);
  out.set_incarnation(h.incarnation);
  out.set_peer_incarnation(h.other_incarnation);
  out.set_received(h.received);
  out.set_kept_from(h.kept_from);
  out.set_time_ms(h.time_ms);
  return out;
}

runtime::link_hello hello_from_wire(v1::LinkHello& h) {
  return {h.protocol(),
          h.protocol_min(),
          std::move(*h.mutable_cluster_id()),
          std::move(*h.mutable_node_id()),
          std::move(*h.mutable_node_name()),
          std::move(*h.mutable_version()),
          h.incarnation(),
          h.peer_incarnation(),
          h.received(),
          h.kept_from(),
          h.time_ms()};
}

} // namespace

v1::LinkFrame to_wire(const federation_link::frame& f) {
  v1::LinkFrame out;
  out.set_seq(f.seq);
  out.set_ack(f.ack);
  out.set_credit(f.credit);
  if (const auto* hello = std::get_if<runtime::link_hello>(&f.body))
    *out.mutable_hello() = hello_to_wire(*hello);
  else if (const auto* message = std::get_if<link_message>(&f.body))
    *out.mutable_message() = **message;
  else if (std::holds_alternative<runtime::link_heartbeat>(f.body))
    out.mutable_heartbeat();
  else if (const auto* close = std::get_if<runtime::link_close>(&f.body)) {
    out.mutable_close()->set_code(static_cast<v1::LinkClose::Code>(close->reason));
    out.mutable_close()->set_text(close->text);
  }
  return out;
}

federation_link::frame from_wire(v1::LinkFrame f) {
  federation_link::frame out{f.seq(), f.ack(), f.credit(), {}};
  switch (f.body_case()) {
    case v1::LinkFrame::kHello: out.body = hello_from_wire(*f.mutable_hello()); break;
    case v1::LinkFrame::kMessage: out.body = std::make_shared<const v1::LinkMessage>(std::move(*f.mutable_message())); break;
    case v1::LinkFrame::kHeartbeat: out.body = runtime::link_heartbeat{}; break;
    case v1::LinkFrame::kClose: {
      auto known = v1::LinkClose::Code_IsValid(f.close().code());
      out.body = runtime::link_close{known ? static_cast<link_reason>(f.close().code()) : link_reason::unspecified,
                                     std::move(*f.mutable_close()->mutable_text())};
      break;
    }
    case v1::LinkFrame::BODY_NOT_SET: break;
  }
  return out;
}

} // namespace swarm
