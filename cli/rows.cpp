#include "cli/rows.hpp"

#include <algorithm>
#include <cstdlib>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

std::string holder_of(const v1::LockView& view) {
  if (view.hidden())
    return hidden_holder;
  return view.owner().label().empty() ? short_id(view.lock().session_id()) : view.owner().label();
}

const char* link_text(v1::ClusterNode::Link link) {
  switch (link) {
    case v1::ClusterNode::SELF: return "self";
    case v1::ClusterNode::UP: return "up";
    case v1::ClusterNode::DOWN: return "down";
    case v1::ClusterNode::REVOKED: return "revoked";
    default: return "none";
  }
}

bool has_revoked_us(const v1::ClusterNode& n) { return n.home() && n.link() == v1::ClusterNode::REVOKED; }

std::string unreached_home(const v1::ClusterView& view) {
  for (const auto& n : view.nodes())
    if (n.link() == v1::ClusterNode::SELF && !n.down_reason().empty())
      return concat({"other hosts do not reach this home: ", escape_control(n.down_reason(), false),
                     ". It tries again until it can; `swarmctl up --listen HOST:PORT` names another address"});
  return {};
}

std::string name_in_cluster(const v1::ClusterView& view, const std::string& node_name) {
  for (const auto& n : view.nodes())
    if (n.link() == v1::ClusterNode::SELF && n.info().node_name() != node_name)
      return n.info().node_name();
  return {};
}

std::string name_is_taken(const std::string& name, const std::string& name_there) {
  return concat({"the cluster has a node named ", name, " already and knows this one as ", name_there,
                 "; choose another name: swarmctl down, then swarmctl up --node-name NAME"});
}

namespace {

/// Since when and why.
std::string down_state(const v1::ClusterNode& n, std::int64_t now_ms) {
  if (n.last_heard_ms() == 0 && n.down_ms() == 0)
    return n.home() ? "linking…" : "not linked yet";
  const auto for_ms = n.down_ms() > 0 ? n.down_ms() : std::max<std::int64_t>(now_ms - n.last_heard_ms(), 0);
  return concat({"down for ", duration(for_ms), n.down_reason().empty() ? "" : ": ", escape_control(n.down_reason(), false)});
}

} // namespace

bool is_reachable(const v1::ClusterNode& n, const v1::ClusterView& view) {
  const auto is_way = [](const v1::ClusterNode& x) { return x.link() == v1::ClusterNode::SELF || x.link() == v1::ClusterNode::UP; };
  if (n.link() != v1::ClusterNode::NONE)
    return is_way(n);
  return std::any_of(view.nodes().begin(), view.nodes().end(), [&](const auto& x) { return x.home() && is_way(x); });
}

std::string link_state(const v1::ClusterNode& n, const v1::ClusterView& view, std::int64_t now_ms) {
  // What the home said last of another member is not known to be so any more once the home is away.
  if (!n.left() && (n.link() == v1::ClusterNode::NONE || (n.link() == v1::ClusterNode::DOWN && !n.home())))
    for (const auto& home : view.nodes()) {
      if (has_revoked_us(home))
        return "out of reach: this node is revoked";
      if (home.home() && home.link() == v1::ClusterNode::DOWN && (home.last_heard_ms() != 0 || home.down_ms() != 0))
        return "out of reach: the home is down";
    }
  return link_state(n, now_ms);
}

std::string link_state(const v1::ClusterNode& n, std::int64_t now_ms) {
  if (has_revoked_us(n))
    return "has revoked this node";
  std::string out = n.left() ? "left" : n.link() == v1::ClusterNode::NONE ? "through home" : link_text(n.link());
  if (n.link() == v1::ClusterNode::DOWN)
    out = down_state(n, now_ms);
  if (n.link() == v1::ClusterNode::SELF && !n.down_reason().empty())
    out += ", not reached by others: " + escape_control(n.down_reason(), false);
  if (n.link() == v1::ClusterNode::UP && n.round_trip_us() > 0)
    out += concat({" ", fixed(static_cast<double>(n.round_trip_us()) / 1000, 1), " ms"});
  if (n.info().draining())
    out += ", draining";
  if (n.certificate_ends_ms() != 0 && n.certificate_ends_ms() < now_ms)
    out += ", certificate ended";
  if (std::abs(n.clock_offset_ms()) > limits::clock_offset_warned.count())
    out += concat({", clock ", duration(std::abs(n.clock_offset_ms())), " ", n.clock_offset_ms() > 0 ? "ahead" : "behind"});
  return out;
}

json message_row(const v1::Message& m) {
  json out = {{"id", m.id()},
              {"sender", m.sender()},
              {"recipient", m.recipient()},
              {"content", m.content()},
              {"created_at", mcp::seconds(m.created_at_ms())},
              {"read", m.read() ? 1 : 0}};
  if (m.delivered_at_ms() != 0)
    out["delivered_at"] = mcp::seconds(m.delivered_at_ms());
  return out;
}

json lock_row(const v1::LockView& view) {
  const auto& l = view.lock();
  if (view.hidden())
    return {{"id", nullptr},
            {"instance_id", "hidden"},
            {"file", l.path()},
            {"type", "lock"},
            {"content", ""},
            {"created_at", nullptr},
            {"owner_label", hidden_holder},
            {"hidden", true},
            {"reason", "cross_identity"}};
  json out = {{"id", l.id()},
              {"instance_id", l.session_id()},
              {"file", l.path()},
              {"type", "lock"},
              {"content", l.note()},
              {"created_at", mcp::seconds(l.created_at_ms())},
              {"owner_label", mcp::text_or_null(view.owner().label())}};
  if (view.owner().has_workspace()) {
    out["workspace"] = mcp::workspace(view.owner().workspace());
    mcp::add_place(out, view.owner().workspace());
  }
  // Last, and only with a line, which swarm-mcp does not have: without one the row is the hooks' to the byte.
  if (view.waiters() > 0)
    out["waiters"] = view.waiters();
  return out;
}

} // namespace swarm::cli
