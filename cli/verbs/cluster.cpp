// join-token, join, nodes, ca, node: which hosts belong together.
#include "actors/base/text.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/passphrase.hpp"

#include <iostream>
#include <map>

#include "actors/base/limits.hpp"

namespace swarm::cli {

namespace {

json node_row(const v1::ClusterNode& n, const v1::ClusterView& view) {
  auto labels = json::object();
  for (const auto& l : n.info().labels())
    labels[l.name()] = l.value();
  auto checkouts = json::array();
  for (const auto& scope : n.info().checkouts())
    checkouts.push_back(scope);
  return {{"node_id", n.info().node_id()},
          {"name", n.info().node_name()},
          {"address", n.info().address()},
          {"version", n.info().version()},
          {"home", n.home()},
          {"link", link_text(n.link())},
          {"reachable", is_reachable(n, view)},
          {"down_reason", n.down_reason()},
          {"left", n.left()},
          {"labels", labels},
          {"workers", n.info().workers()},
          {"workers_max", n.info().workers_max()},
          {"draining", n.info().draining()},
          {"last_heard_ms", n.last_heard_ms()},
          {"round_trip_us", n.round_trip_us()},
          {"clock_offset_ms", n.clock_offset_ms()},
          {"unacknowledged", n.unacknowledged()},
          {"joined_at_ms", n.joined_at_ms()},
          {"certificate_ends_ms", n.certificate_ends_ms()},
          {"checkouts", checkouts}};
}

void print_nodes(const invocation& cli, const v1::ClusterView& view) {
  auto& io = cli.io();
  if (cli.json_wanted()) {
    auto rows = json::array();
    for (const auto& n : view.nodes())
      rows.push_back(node_row(n, view));
    return io.print({{"cluster_id", view.cluster_id()}, {"authority_unlocked", view.authority_unlocked()}, {"nodes", rows}});
  }
  if (view.cluster_id().empty())
    return io.line("this node is in no cluster; found one with: swarmctl up --listen HOST:PORT, or join one with: swarmctl join TOKEN");
  std::vector<std::vector<std::string>> rows;
  for (const auto& n : view.nodes()) {
    std::string labels;
    for (const auto& l : n.info().labels())
      labels += (labels.empty() ? "" : " ") + l.name() + "=" + l.value();
    rows.push_back({n.info().node_name() + (n.home() ? " (home)" : ""), link_state(n, view, cli.now_ms()),
                    n.info().address().empty() ? "-" : n.info().address(), n.info().version(),
                    n.info().workers_max() > 0 && is_reachable(n, view) ? concat({n.info().workers(), "/", n.info().workers_max()}) : "-", labels});
  }
  io.text(table({"NODE", "LINK", "ADDRESS", "VERSION", "WORKERS", "LABELS"}, rows));
}

// -- join-token ------------------------------------------------------------------------------------

int run_create_token(const invocation& cli, double ttl_s) {
  v1::CreateJoinTokenRequest request;
  request.set_ttl_ms(milliseconds_of(ttl_s, "--ttl", limits::join_token_lifetime_max));
  auto made = cli.node().admin.create_join_token(request);
  auto left = std::max<std::int64_t>(made.expires_at_ms() - cli.now_ms(), 0);
  if (cli.json_wanted()) {
    cli.io().print({{"token", made.token()}, {"expires_at_ms", made.expires_at_ms()}});
    return code::ok;
  }
  cli.io().error(
    concat({"One host can join with this within ", duration((left + 999) / 1'000 * 1'000), ". There: swarmctl join TOKEN --node-name NAME"}));
  cli.io().line(made.token());
  return code::ok;
}

void build_join_token(CLI::App& app, invocation& cli) {
  app.require_subcommand(1);
  auto* create = app.add_subcommand("create", "print a token with which one further host can join");
  auto ttl = std::make_shared<double>(0);
  option(*create, "--ttl", *ttl, "seconds it is valid (600)");
  on_run(*create, cli, [ttl, &cli] { return run_create_token(cli, *ttl); });
}

// -- join ------------------------------------------------------------------------------------------

struct join_options {
  std::string token;
  std::string name;
  std::string listen;
};

int run_join(invocation& cli, const join_options& o) {
  cli.node().finder.start(o.name);
  auto status = cli.node().admin.status();
  if (!o.name.empty() && o.name != status.node_name())
    throw failure(code::refused, concat({"a node named ", status.node_name(), " is running already, and keeps its name. To join as ", o.name,
                                         ", run first: swarmctl down. To join as ", status.node_name(),
                                         ", which the cluster refuses if it has a node of that name, leave --node-name out"}));
  v1::JoinClusterRequest request;
  request.set_token(o.token == "-" ? read_line_of(std::cin, limits::join_token_bytes_max) : o.token);
  request.set_listen(o.listen);
  auto view = cli.node().admin.join_cluster(request);
  if (!cli.json_wanted())
    cli.io().line(concat({status.node_name(), " has joined the cluster ", view.cluster_id()}));
  print_nodes(cli, view);
  return code::ok;
}

void build_join(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<join_options>();
  option(app, "token", o->token, "what `swarmctl join-token create` printed at the home; - reads it from standard input")->required();
  option(app, "--node-name", o->name, "name of this node (the host's)");
  option(app, "--listen", o->listen, "HOST:PORT of a port that is opened here; nobody calls it yet (none)");
  on_run(app, cli, [o, &cli] { return run_join(cli, *o); });
}

// -- nodes, node, ca -------------------------------------------------------------------------------

void build_nodes(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] {
    print_nodes(cli, cli.node().admin.nodes());
    return code::ok;
  });
}

int run_revoke(const invocation& cli, const std::string& node) {
  v1::RevokeNodeRequest request;
  request.set_node(node);
  const auto before = cli.node().admin.nodes();
  print_nodes(cli, cli.node().admin.revoke_node(request));
  for (const auto& n : before.nodes()) {
    if (n.link() == v1::ClusterNode::REVOKED || (n.info().node_id() != node && n.info().node_name() != node))
      continue;
    const auto& name = n.info().node_name();
    if (n.link() == v1::ClusterNode::DOWN)
      cli.io().error(concat({name, " is not linked (", link_state(n, cli.now_ms()),
                             ") and cannot be told: it sees this home as down, and what runs there goes on. There, run: swarmctl leave --force"}));
    else
      cli.io().error(concat({name, " is out. Programs that run there go on until they end; to end them, run there: swarmctl leave --force"}));
  }
  return code::ok;
}

void build_node(CLI::App& app, invocation& cli) {
  app.require_subcommand(1);
  auto* revoke = app.add_subcommand("revoke", "end a node's membership for good: its certificate is revoked");
  auto node = std::make_shared<std::string>();
  option(*revoke, "node", *node, "name or id of the node", argument::node)->required();
  on_run(*revoke, cli, [node, &cli] { return run_revoke(cli, *node); });
}

void build_drain(CLI::App& app, invocation& cli) {
  struct drain_options {
    std::string node;
    bool off = false;
  };
  auto o = std::make_shared<drain_options>();
  option(app, "node", o->node, "name or id of the node", argument::node)->required();
  flag(app, "--off", o->off, "it takes new workers again");
  on_run(app, cli, [o, &cli] {
    v1::DrainNodeRequest request;
    request.set_node(o->node);
    request.set_off(o->off);
    print_nodes(cli, cli.node().admin.drain_node(request));
    return code::ok;
  });
}

int run_leave(const invocation& cli, bool force) {
  v1::LeaveClusterRequest request;
  request.set_force(force);
  auto reply = cli.node().admin.leave_cluster(request);
  if (cli.json_wanted()) {
    cli.io().print({{"ok", true}, {"warning", reply.warning().empty() ? json(nullptr) : json(reply.warning())}});
    return code::ok;
  }
  if (!reply.warning().empty())
    cli.io().error(reply.warning());
  cli.io().line("this node has left its cluster; named scopes are its own again");
  return code::ok;
}

void build_leave(CLI::App& app, invocation& cli) {
  auto force = std::make_shared<bool>(false);
  flag(app, "--force", *force, "end workers that run here, and do not insist on an answer of the home");
  on_run(app, cli, [force, &cli] { return run_leave(cli, *force); });
}

int run_unlock_authority(const invocation& cli, const std::string& file) {
  v1::UnlockAuthorityRequest request;
  auto passphrase = read_passphrase(file, "Passphrase of the cluster's authority: ");
  request.set_passphrase(passphrase);
  auto left = std::max<std::int64_t>(cli.node().admin.unlock_authority(request).until_ms() - cli.now_ms(), 0);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"unlocked_ms", left}});
  else
    cli.io().line("the cluster's authority is unlocked for " + duration(left));
  return code::ok;
}

void build_ca(CLI::App& app, invocation& cli) {
  app.require_subcommand(1);
  auto* unlock = app.add_subcommand("unlock", "hold the key of the cluster's authority in memory for ten minutes, to let nodes in");
  auto file = std::make_shared<std::string>();
  option(*unlock, "--passphrase-file", *file, "file whose first line is the passphrase; - = standard input (asked for on the terminal)",
         argument::file);
  on_run(*unlock, cli, [file, &cli] { return run_unlock_authority(cli, *file); });
}

constexpr verb verbs[] = {
  {"nodes", subject::hosts, "list the hosts of the cluster and their links", "  swarmctl nodes --json", build_nodes},
  {"join-token", subject::hosts, "make a token with which a host joins this cluster: create", "  swarmctl join-token create --ttl 3600",
   build_join_token},
  {"join", subject::hosts, "add this host to a cluster", "  swarmctl join swarm-join-1.… --node-name gpu-box", build_join},
  {"drain", subject::hosts, "give a node no new workers; running workers continue", "  swarmctl drain gpu-box\n  swarmctl drain gpu-box --off",
   build_drain},
  {"leave", subject::hosts, "remove this host from its cluster", "  swarmctl leave", build_leave},
  {"node", subject::hosts, "end a node's membership: revoke", "  swarmctl node revoke old-laptop", build_node},
  {"ca", subject::hosts, "manage the cluster's certificate authority: unlock", "  swarmctl ca unlock", build_ca},
};

/// Members keep the address with which they joined, whatever the address of the home was since.
void warn_of_move(const invocation& cli, const v1::ClusterView& before, const std::string& listen) {
  std::string home_was_at;
  for (const auto& n : before.nodes())
    if (n.link() == v1::ClusterNode::SELF && n.home())
      home_was_at = n.info().address();
  if (home_was_at.empty())
    return;
  std::map<std::string, std::string> members; // by where they look
  for (const auto& n : before.nodes()) {
    if (n.link() == v1::ClusterNode::SELF || n.link() == v1::ClusterNode::REVOKED)
      continue;
    auto& names = members[n.info().home_address().empty() ? home_was_at : n.info().home_address()];
    names += (names.empty() ? "" : ", ") + n.info().node_name();
  }
  members.erase(listen);
  for (const auto& [address, names] : members)
    cli.io().error(concat({"Members look for this home at ", address, ": ", names, ". On each of them: swarmctl down, then write ", listen,
                           " for home_address into cluster/cluster.json of its state directory, then swarmctl up"}));
}

} // namespace

std::span<const verb> cluster_verbs() { return verbs; }

std::string found_cluster(const invocation& cli, const cluster_options& o) {
  v1::FoundRequest request;
  request.set_listen(o.listen);
  request.set_insecure(o.insecure);
  const auto before = cli.node().admin.nodes();
  // Only a new cluster has a new authority.
  if (before.cluster_id().empty() && !o.insecure)
    request.set_passphrase(new_passphrase(o.passphrase_file));
  auto reply = cli.node().admin.found_cluster(request);
  warn_of_move(cli, before, o.listen);
  if (!reply.recovery_copy().empty() && !cli.json_wanted()) {
    cli.io().error(
      "The key of the cluster's authority, encrypted with its passphrase. It is shown once: keep it somewhere else, in case this host is lost.");
    cli.io().error(reply.recovery_copy());
  }
  if (o.insecure && !cli.json_wanted())
    cli.io().error("The authority's key is kept without a passphrase: anybody who can read this state directory can make nodes of this cluster.");
  return reply.recovery_copy();
}

} // namespace swarm::cli
