#include "actors/fabric/placement.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/domain/harness.hpp"

namespace swarm {

namespace {

v1::Refusal refusal(v1::Refusal::Code code, std::string text, std::string subject) {
  v1::Refusal r;
  r.set_code(code);
  r.set_text(std::move(text));
  r.set_subject(std::move(subject));
  return r;
}

const std::string* label(const v1::NodeInfo& n, std::string_view name) {
  for (const auto& l : n.labels())
    if (l.name() == name)
      return &l.value();
  return nullptr;
}

bool is_there(const v1::ClusterNode& n) { return n.link() == v1::ClusterNode::SELF || n.link() == v1::ClusterNode::UP; }

/// Why the node cannot take this worker; empty = it can.
template <class Body>
std::string obstacle(const v1::ClusterNode& n, const Body& body, const std::string& caller) {
  if (n.link() == v1::ClusterNode::REVOKED)
    return "its certificate has been revoked";
  if (!is_there(n))
    return "it is not linked just now";
  if (n.info().draining())
    return "it is being drained";
  for (const auto& wanted : body.where()) {
    auto* has = label(n.info(), wanted.name());
    if (!has || *has != wanted.value())
      return fmt::format("it has no label {}={}", wanted.name(), wanted.value());
  }
  // The caller's own environment may know of one that the node does not see.
  if (n.info().node_id() != caller && domain::is_agent(body.harness()) && !label(n.info(), harness_label(body.harness())))
    return fmt::format("{} is not installed there", body.harness());
  if (n.info().workers_max() > 0 && n.info().workers() >= n.info().workers_max())
    return fmt::format("all of its {} places are taken", n.info().workers_max());
  return {};
}

double load(const v1::ClusterNode& n) { return n.info().workers() / static_cast<double>(std::max(n.info().workers_max(), 1u)); }

template <class Body>
std::optional<v1::Refusal> place_body(Body& body, const v1::ClusterView& cluster, const std::string& caller) {
  body.set_node_id(caller);
  if (cluster.nodes().empty()) {
    if (body.on().empty() && body.where().empty())
      return std::nullopt;
    return refusal(v1::Refusal::NOT_FOUND, "This node is in no cluster, so there is no choice of nodes. Leave --on and --where out, or join one.",
                   body.on());
  }
  const v1::ClusterNode* best = nullptr;
  std::string obstacles;
  for (const auto& n : cluster.nodes()) {
    if (!body.on().empty() && n.info().node_id() != body.on() && n.info().node_name() != body.on())
      continue;
    if (auto why = obstacle(n, body, caller); !why.empty()) {
      obstacles += fmt::format("{}{}: {}", obstacles.empty() ? "" : "; ", n.info().node_name(), why);
      continue;
    }
    auto here = n.info().node_id() == caller;
    if (!best || here || (best->info().node_id() != caller && load(n) < load(*best)))
      best = &n;
  }
  // It is made by whoever prepares the worker's start, and only this node's own door does that.
  if (best && body.worktree() && (best->link() != v1::ClusterNode::SELF || best->info().node_id() != caller))
    return refusal(v1::Refusal::INVALID,
                   "A worktree of its own is made for workers that the home of the scope starts for itself. Leave --worktree out.", "");
  if (best) {
    body.set_node_id(best->info().node_id());
    return std::nullopt;
  }
  if (obstacles.empty())
    return refusal(v1::Refusal::NOT_FOUND, fmt::format("No node of the cluster is called \"{}\"; `swarmctl nodes` lists them", body.on()), body.on());
  return refusal(v1::Refusal::UNAVAILABLE, fmt::format("No node can take this worker: {}", obstacles), body.on());
}

} // namespace

std::string harness_label(std::string_view harness) { return fmt::format("harness.{}", harness); }

std::optional<v1::Refusal> place(v1::Command& cmd, const v1::ClusterView& cluster, const std::string& caller) {
  if (cmd.has_dispatch())
    return place_body(*cmd.mutable_dispatch(), cluster, caller);
  if (cmd.has_request_spawn())
    return place_body(*cmd.mutable_request_spawn(), cluster, caller);
  return std::nullopt;
}

} // namespace swarm
