#include "actors/fabric/cluster/placement.hpp"

#include <algorithm>
#include <charconv>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/refusal.hpp"
#include "actors/domain/variables_text.hpp"

namespace swarm {

namespace {

const std::string* label(const v1::NodeInfo& n, std::string_view name) {
  for (const auto& l : n.labels())
    if (l.name() == name)
      return &l.value();
  return nullptr;
}

bool is_there(const v1::ClusterNode& n) { return n.link() == v1::ClusterNode::SELF || n.link() == v1::ClusterNode::UP; }

/// What is asked of a node.
struct wish {
  const std::string& on;
  const google::protobuf::RepeatedPtrField<v1::NodeLabel>& where;
  const std::string& harness;
  const std::string& scope;
  std::string directory; // empty = none given
  std::string caller;    // whose host an absolute directory is one of; empty = not known any more
  bool here = false;     // on the caller's node and no other
  bool is_worker = true; // takes a place; a person's own terminal takes none
};

bool is_meant(const v1::ClusterNode& n, const wish& w) {
  if (w.here)
    return n.info().node_id() == w.caller;
  return w.on.empty() || n.info().node_id() == w.on || n.info().node_name() == w.on;
}

bool lies_in_checkout(const wish& w) { return !w.directory.empty() && w.directory.front() != '/'; }

/// Why the node cannot take this worker; empty = it can.
std::string obstacle(const v1::ClusterNode& n, const wish& w) {
  if (n.link() == v1::ClusterNode::REVOKED)
    return n.left() ? "it has left the cluster" : "its certificate has been revoked";
  if (!is_there(n))
    return "it is not linked just now";
  if (n.info().draining())
    return "it is being drained";
  for (const auto& wanted : w.where) {
    auto* has = label(n.info(), wanted.name());
    if (!has || *has != wanted.value())
      return concat({"it has no label ", wanted.name(), "=", wanted.value()});
  }
  // The caller's own environment may know of one that the node does not see.
  if (n.info().node_id() != w.caller && domain::is_agent(w.harness) && !label(n.info(), harness_label(w.harness)))
    return concat({w.harness, " is not installed there"});
  const auto& checkouts = n.info().checkouts();
  if (lies_in_checkout(w) && std::find(checkouts.begin(), checkouts.end(), w.scope) == checkouts.end())
    return "it has no checkout of the scope; `swarmctl scope share` there names one";
  if (w.is_worker && n.info().workers_max() > 0 && n.info().workers() >= n.info().workers_max())
    return concat({"all of its ", n.info().workers_max(), " places are taken"});
  return {};
}

std::uint32_t processors(const v1::ClusterNode& n) {
  std::uint32_t out = 0;
  if (auto* cpus = label(n.info(), "cpus"))
    std::from_chars(cpus->data(), cpus->data() + cpus->size(), out);
  return std::max(out, 1u);
}

double load(const v1::ClusterNode& n) { return n.info().workers() / static_cast<double>(processors(n)); }

struct choice {
  const v1::ClusterNode* best = nullptr;
  bool named = false; // some node is called so
  std::string why;
};

choice choose(const wish& w, const v1::ClusterView& cluster) {
  choice out;
  std::string obstacles;
  std::size_t fit = 0;
  // A directory of the caller's host is there, and maybe nowhere else.
  auto at_home = !w.caller.empty() && w.directory.rfind('/', 0) == 0;
  auto better = [&](const v1::ClusterNode& a, const v1::ClusterNode& b) {
    auto own = [&](const v1::ClusterNode& n) { return n.info().node_id() == w.caller; };
    if (at_home && own(a) != own(b))
      return own(a);
    if (load(a) != load(b))
      return load(a) < load(b);
    return own(a) && !own(b);
  };
  // A node that has gone may have had the name of one that is there.
  const bool is_in_cluster = std::any_of(cluster.nodes().begin(), cluster.nodes().end(),
                                         [&](const auto& n) { return is_meant(n, w) && n.link() != v1::ClusterNode::REVOKED; });
  for (const auto& n : cluster.nodes()) {
    if (!is_meant(n, w) || (is_in_cluster && n.link() == v1::ClusterNode::REVOKED))
      continue;
    out.named = true;
    if (auto why = obstacle(n, w); !why.empty()) {
      obstacles += concat({obstacles.empty() ? "" : "; ", n.info().node_name(), ": ", why});
      continue;
    }
    ++fit;
    if (!out.best || better(n, *out.best))
      out.best = &n;
  }
  if (out.best) {
    const auto& info = out.best->info();
    auto busy = concat({info.workers(), info.workers() == 1 ? " worker on " : " workers on ", processors(*out.best), " processors"});
    out.why = w.here                                  ? "the host of the caller"
              : !w.on.empty() && w.on != w.caller     ? "it was asked for by name"
              : !w.on.empty()                         ? "the host of the caller, whose directory it is"
              : fit == 1                              ? "the only node that fits"
              : at_home && info.node_id() == w.caller ? "the host of the caller, whose directory it is"
                                                      : concat({"the least busy of ", fit, " that fit: ", busy});
    out.why = info.node_name() + ": " + out.why;
    if (!obstacles.empty())
      out.why += ". Not " + obstacles;
  } else {
    out.why = obstacles;
  }
  out.why = std::string{utf8_prefix(out.why, limits::placement_text_bytes_max)};
  return out;
}

bool is_bound_to_caller(const v1::Dispatch&) { return false; }
bool is_bound_to_caller(const v1::RequestSpawn& body) { return body.here() && body.on().empty() && body.where().empty(); }

/// The variables that a caller adds stay with the caller's node. Of a spawn, its caller says so by `here`.
bool has_variables(const v1::Dispatch& body) { return !body.variables_digest().empty(); }
bool has_variables(const v1::RequestSpawn&) { return false; }

bool is_own(const v1::ClusterView& cluster, const std::string& caller, const std::string& on) {
  const auto& all = cluster.nodes();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& n) { return n.info().node_id() == caller && (on == caller || on == n.info().node_name()); });
}

template <class Body>
std::optional<v1::Refusal> place_body(Body& body, const v1::Command& cmd, const v1::ClusterView& cluster, const std::string& caller) {
  body.set_node_id(caller);
  body.clear_placement();
  if (cluster.nodes().empty()) {
    if (body.on().empty() && body.where().empty())
      return std::nullopt;
    return domain::refusal(v1::Refusal::NOT_FOUND,
                           "This node is in no cluster, so there is no choice of nodes. Leave --on and --where out, or join one.", body.on());
  }
  const bool is_narrowed = has_variables(body);
  if (is_narrowed && (!body.where().empty() || (!body.on().empty() && !is_own(cluster, caller, body.on()))))
    return domain::refusal(v1::Refusal::STATE, domain::variables_stay, body.on());
  const auto& directory = body.directory().empty() ? cmd.caller().directory() : body.directory();
  const bool here = is_bound_to_caller(body);
  const bool is_worker = !here || body.harness() != domain::shell_harness;
  auto chosen = choose({body.on(), body.where(), body.harness(), cmd.scope(), directory, caller, here || is_narrowed, is_worker}, cluster);
  if (!chosen.named)
    return domain::refusal(v1::Refusal::NOT_FOUND, concat({"No node of the cluster is called \"", body.on(), "\"; `swarmctl nodes` lists them"}),
                           body.on());
  body.set_node_id(chosen.best ? chosen.best->info().node_id() : "");
  body.set_placement(chosen.best || !is_narrowed ? chosen.why : concat({chosen.why, "; --env does not reach a worker on another host"}));
  if (here)
    body.set_on(caller); // nor does it go elsewhere when that node is lost before it begins
  return std::nullopt;
}

} // namespace

std::string harness_label(std::string_view harness) { return concat({"harness.", harness}); }

std::optional<v1::Refusal> place(v1::Command& cmd, const v1::ClusterView& cluster, const std::string& caller) {
  if (cmd.has_dispatch())
    return place_body(*cmd.mutable_dispatch(), cmd, cluster, caller);
  if (cmd.has_request_spawn())
    return place_body(*cmd.mutable_request_spawn(), cmd, cluster, caller);
  return std::nullopt;
}

placement place_again(const v1::Spawn& worker, const v1::ClusterView& cluster) {
  const wish w{worker.on(), worker.where(), worker.harness(), worker.scope(), worker.directory(), {}};
  if (!lies_in_checkout(w))
    return {{}, "its directory is one of the host that was lost"};
  if (worker.has_variables())
    return {{}, "its variables of --env are not kept for another host"};
  auto chosen = choose(w, cluster);
  return {chosen.best ? chosen.best->info().node_id() : "", chosen.why};
}

std::string gone_since(const std::string& node_id, const v1::ClusterView& cluster, std::int64_t now_ms) {
  auto n = std::find_if(cluster.nodes().begin(), cluster.nodes().end(), [&](const auto& x) { return x.info().node_id() == node_id; });
  if (n == cluster.nodes().end() || n->left())
    return "its host has left the cluster";
  if (n->link() == v1::ClusterNode::REVOKED)
    return n->info().node_name() + " was revoked";
  if (n->info().draining())
    return n->info().node_name() + " is being drained";
  if (n->link() == v1::ClusterNode::DOWN && now_ms - n->last_heard_ms() > limits::host_lease().count())
    return n->info().node_name() + " has not been heard of for long";
  return {};
}

} // namespace swarm
