#include "actors/runtime/link_protocol.hpp"

namespace swarm::runtime {

namespace {

std::string range(std::uint32_t from, std::uint32_t to) {
  return from == to ? std::to_string(to) : std::to_string(from) + " to " + std::to_string(to);
}

/// Something that can be shown as it is.
bool printable(std::string_view text, std::size_t bytes_max) {
  return !text.empty() && text.size() <= bytes_max && std::ranges::all_of(text, [](char c) { return c >= ' ' && c < '\x7f'; });
}

} // namespace

std::optional<link_close> refusal_of(const link_hello& peer, const link_options& ours) {
  // Who it is comes first: that does not depend on the version.
  if (peer.cluster_id != ours.cluster_id)
    return link_close{link_reason::wrong_cluster, "this node belongs to another cluster; a node is in one cluster only"};
  if (peer.node_id == ours.node_id)
    return link_close{link_reason::wrong_node, "this is the node itself; look at the address it was given for the other one"};
  if (peer.node_id != ours.peer_id)
    return link_close{link_reason::wrong_node, "the certificate is that of another node"};
  if (peer.protocol_min == 0 || peer.protocol_min > peer.protocol || peer.incarnation == 0 || peer.kept_from == 0 ||
      !printable(peer.node_name, limits::node_name_bytes_max) || !printable(peer.version, limits::id_bytes_max))
    return link_close{link_reason::protocol, "a hello that makes no sense"};
  if (std::min(peer.protocol, ours.protocol) < std::max(peer.protocol_min, ours.protocol_min))
    return link_close{link_reason::protocol, "this node speaks version " + range(ours.protocol_min, ours.protocol) +
                                               " of the protocol between nodes, the other one " + range(peer.protocol_min, peer.protocol) +
                                               "; update the older one"};
  return std::nullopt;
}

bool goes_on(const link_hello& one, const link_hello& other) {
  return one.peer_incarnation == other.incarnation && other.peer_incarnation == one.incarnation && one.kept_from - 1 <= other.received &&
         other.kept_from - 1 <= one.received;
}

bool which_connection_stays(std::string_view own_id, std::string_view peer_id, bool dialled_by_me) { return dialled_by_me == (own_id < peer_id); }

} // namespace swarm::runtime
