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

std::optional<link_close> refusal_of(const link_hello& other, const link_options& ours) {
  // Who it is comes first: that does not depend on the version.
  if (other.cluster_id != ours.cluster_id)
    return link_close{link_reason::wrong_cluster, "this node belongs to another cluster; a node is in one cluster only"};
  if (other.node_id == ours.node_id)
    return link_close{link_reason::wrong_node, "this is the node itself; look at the address it was given for the other one"};
  if (other.node_id != ours.other_id)
    return link_close{link_reason::wrong_node, "the certificate is that of another node"};
  if (other.protocol_min == 0 || other.protocol_min > other.protocol || other.incarnation == 0 || other.kept_from == 0 ||
      !printable(other.node_name, limits::node_name_bytes_max) || !printable(other.version, limits::id_bytes_max))
    return link_close{link_reason::protocol, "a hello that makes no sense"};
  if (std::min(other.protocol, ours.protocol) < std::max(other.protocol_min, ours.protocol_min))
    return link_close{link_reason::protocol, "this node speaks version " + range(ours.protocol_min, ours.protocol) +
                                               " of the protocol between nodes, the other one " + range(other.protocol_min, other.protocol) +
                                               "; update the older one"};
  return std::nullopt;
}

bool goes_on(const link_hello& one, const link_hello& other) {
  return one.other_incarnation == other.incarnation && other.other_incarnation == one.incarnation && one.kept_from - 1 <= other.received &&
         other.kept_from - 1 <= one.received;
}

bool which_connection_stays(std::string_view own_id, std::string_view other_id, bool dialled_by_me) { return dialled_by_me == (own_id < other_id); }

} // namespace swarm::runtime
