#include "cli/verbs/hosts_asked.hpp"

#include <algorithm>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "cli/rows.hpp"

namespace swarm::cli {

namespace {

v1::ClusterView cluster_seen(const invocation& cli) {
  try {
    return cli.node().admin.nodes();
  } catch (const call_failed&) {
    return {}; // Not everybody may ask that.
  }
}

std::vector<away_node> away_in(const v1::ClusterView& view, std::int64_t now_ms) {
  std::vector<away_node> out;
  for (const auto& n : view.nodes())
    if (!is_reachable(n, view))
      out.push_back({n.info().node_id(), n.info().node_name(), link_state(n, view, now_ms), !n.home() && n.link() == v1::ClusterNode::REVOKED,
                     n.last_heard_ms() > 0});
  return out;
}

void add_scopes(const invocation& cli, bool shared, std::set<std::string>& out) {
  auto q = cli.query();
  q.clear_scope();
  q.mutable_list_scopes()->set_shared(shared);
  for (const auto& s : all_rows<v1::ScopeState>(cli, std::move(q)))
    out.insert(s.scope());
}

} // namespace

std::vector<away_node> away_nodes(const invocation& cli) { return away_in(cluster_seen(cli), cli.now_ms()); }

bool is_member(const invocation& cli) {
  const auto view = cluster_seen(cli);
  return std::any_of(view.nodes().begin(), view.nodes().end(), [](const auto& n) { return n.home() && n.link() != v1::ClusterNode::SELF; });
}

std::optional<silent_node> silent(const invocation& cli, const std::string& node_id) {
  // A node that has nothing to say does so once per heartbeat.
  const auto patience = limits::link_heartbeat().count() * 3 / 2;
  const auto view = cluster_seen(cli);
  for (const auto& n : view.nodes())
    if (const auto for_ms = cli.now_ms() - n.last_heard_ms();
        n.info().node_id() == node_id && n.link() == v1::ClusterNode::UP && n.last_heard_ms() > 0 && for_ms > patience)
      return silent_node{n.info().node_name(), duration(for_ms)};
  return std::nullopt;
}

std::string names_not_asked(const invocation& cli) {
  std::string out;
  for (const auto& n : away_nodes(cli))
    if (!n.is_out)
      out += (out.empty() ? "" : ", ") + n.name + " (" + n.state + ")";
  return out;
}

void tell_not_asked(const invocation& cli, const std::string& verb) {
  if (auto names = names_not_asked(cli); !names.empty())
    cli.io().error("swarmctl " + verb + ": not linked, and so not asked: " + names);
}

void tell_stale(const invocation& cli, const std::string& verb, const std::set<std::string>& node_ids) {
  if (node_ids.empty() || !is_named_scope(scope_shown(cli)))
    return;
  for (const auto& n : away_nodes(cli))
    if (node_ids.contains(n.id))
      cli.io().error("swarmctl " + verb + ": " + n.name + " is not linked (" + n.state + "): what is shown of it is as it was then");
}

std::vector<std::string> all_scopes(const invocation& cli, const std::string& verb) {
  std::set<std::string> out;
  add_scopes(cli, false, out);
  const auto view = cluster_seen(cli);
  const auto home = std::find_if(view.nodes().begin(), view.nodes().end(), [](const auto& n) { return n.home(); });
  if (home != view.nodes().end() && home->link() == v1::ClusterNode::UP) {
    add_scopes(cli, true, out);
  } else if (home != view.nodes().end() && home->link() != v1::ClusterNode::SELF) {
    std::erase_if(out, [](const auto& name) { return is_named_scope(name); });
    cli.io().error("swarmctl " + verb + ": the home " + home->info().node_name() +
                   " was not asked, so the scopes that hosts share are missing: " + link_state(*home, view, cli.now_ms()));
  }
  return {out.begin(), out.end()};
}

} // namespace swarm::cli
