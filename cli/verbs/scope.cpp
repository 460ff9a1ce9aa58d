// scope: which scopes there are, and which directories are checkouts of those that hosts share.
#include "cli/verb.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "actors/base/paths.hpp"

namespace swarm::cli {

namespace {

json checkout_row(const v1::Checkout& c) {
  return {{"root", c.root()}, {"scope", c.scope()}, {"remote", c.remote().empty() ? json(nullptr) : json(c.remote())}, {"declared", c.declared()}};
}

/// The directory itself when there is no repository around it.
std::string root_of(const invocation& cli, const std::string& directory) {
  return git_root(directory.empty() ? cli.directory() : normalize_path(directory, cli.directory()));
}

/// Name of the node that is home of what is shared; empty without a cluster.
std::string home_of(const v1::ClusterView& view) {
  for (const auto& n : view.nodes())
    if (n.home())
      return n.info().node_name();
  return {};
}

/// `shared`: those that hosts share, as their home knows them.
std::vector<std::string> scopes_of(const invocation& cli, bool shared) {
  std::vector<std::string> out;
  auto q = cli.query();
  q.clear_scope();
  q.mutable_list_scopes()->set_shared(shared);
  for (const auto& s : all_rows<v1::ScopeState>(cli, std::move(q)))
    out.push_back(s.scope());
  return out;
}

/// What this node knows, and its home as long as there is a link to it; why the home was not asked otherwise.
struct scope_names {
  std::set<std::string> all;
  std::string missing;
};
scope_names known_scopes(const invocation& cli, const v1::ClusterView& view, const v1::CheckoutList& checkouts) {
  scope_names out;
  auto add = [&](bool shared) {
    for (auto& name : scopes_of(cli, shared))
      out.all.insert(std::move(name));
  };
  add(false);
  for (const auto& c : checkouts.checkouts())
    out.all.insert(c.scope());
  for (const auto& n : view.nodes()) {
    if (n.home() || n.link() != v1::ClusterNode::REVOKED)
      out.all.insert(n.info().checkouts().begin(), n.info().checkouts().end());
    if (!n.home() || n.link() == v1::ClusterNode::SELF)
      continue;
    try {
      if (n.link() != v1::ClusterNode::UP)
        throw failure(code::no_node, "no link to it");
      add(true);
    } catch (const failure& e) {
      out.missing = "the home " + n.info().node_name() + " was not asked: " + e.what();
    }
  }
  return out;
}

int run_list(const invocation& cli) {
  const auto checkouts = cli.node().admin.checkouts();
  const auto view = cli.node().admin.nodes();
  const auto home = home_of(view);
  const auto names = known_scopes(cli, view, checkouts);
  auto rows = json::array();
  std::vector<std::vector<std::string>> cells;
  for (const auto& name : names.all) {
    auto shared = is_named_scope(name);
    auto hosts = json::array();
    std::string hosts_shown;
    for (const auto& n : view.nodes())
      if ((n.home() || n.link() != v1::ClusterNode::REVOKED) &&
          std::find(n.info().checkouts().begin(), n.info().checkouts().end(), name) != n.info().checkouts().end()) {
        hosts.push_back(n.info().node_name());
        hosts_shown += (hosts_shown.empty() ? "" : " ") + n.info().node_name();
      }
    auto roots = json::array();
    std::string shown;
    for (const auto& c : checkouts.checkouts())
      if (c.scope() == name) {
        roots.push_back(c.root());
        shown += (shown.empty() ? "" : " ") + c.root();
      }
    rows.push_back(
      {{"scope", name}, {"shared", shared}, {"home", shared && !home.empty() ? json(home) : json(nullptr)}, {"checkouts", roots}, {"hosts", hosts}});
    cells.push_back({name,
                     !shared        ? "this host's own"
                     : home.empty() ? "this host's own: in no cluster"
                                    : "shared, home " + home,
                     shown.empty() ? "-" : shown, hosts_shown.empty() ? "-" : hosts_shown});
  }
  if (!names.missing.empty())
    cli.io().error("swarmctl scope list: " + names.missing);
  if (cli.json_wanted())
    cli.io().print({{"scopes", rows}, {"complete", names.missing.empty()}});
  else if (cells.empty())
    cli.io().line("no scopes yet: one begins with its first session");
  else
    cli.io().text(table({"SCOPE", "", "CHECKOUTS HERE", "CHECKOUTS ON"}, cells));
  return code::ok;
}

void print_checkouts(const invocation& cli, const v1::CheckoutList& list) {
  if (cli.json_wanted()) {
    auto rows = json::array();
    for (const auto& c : list.checkouts())
      rows.push_back(checkout_row(c));
    return cli.io().print({{"checkouts", rows}});
  }
  if (list.checkouts().empty())
    return cli.io().line("no directory of this host is a checkout of a shared scope");
  std::vector<std::vector<std::string>> cells;
  for (const auto& c : list.checkouts())
    cells.push_back({c.root(), c.scope(), c.remote().empty() ? "-" : c.remote(), c.declared() ? "shared" : "learned from a session"});
  cli.io().text(table({"CHECKOUT", "SCOPE", "REMOTE", ""}, cells));
}

int run_share(const invocation& cli, const std::string& directory, const std::string& name) {
  std::error_code ec;
  if (const auto named = normalize_path(directory, cli.directory()); !cli.elsewhere() && !std::filesystem::is_directory(named, ec))
    throw failure(code::refused, named + " is no directory");
  v1::ShareScopeRequest request;
  request.set_root(root_of(cli, directory));
  request.set_scope(name);
  if (!name.empty() && !is_named_scope(name))
    throw usage("--as takes a name without a slash; without --as the git remote names the scope");
  print_checkouts(cli, cli.node().admin.share_scope(request));
  return code::ok;
}

int run_unshare(const invocation& cli, const std::string& directory) {
  v1::UnshareScopeRequest request;
  request.set_root(root_of(cli, directory));
  print_checkouts(cli, cli.node().admin.unshare_scope(request));
  return code::ok;
}

/// What a command in the directory would speak about.
int run_show(const invocation& cli, const std::string& directory) {
  const auto where = directory.empty() ? cli.directory() : normalize_path(directory, cli.directory());
  const auto named = cli.scope_of(where);
  const auto checkouts = cli.node().admin.checkouts();
  const auto scope = shared_name(checkouts, named);
  const v1::Checkout* inside = nullptr;
  for (const auto& c : checkouts.checkouts())
    if (is_inside(c.root(), where) && (!inside || c.root().size() > inside->root().size()))
      inside = &c;
  if (inside && inside->scope() != scope)
    inside = nullptr;
  const auto shared = is_named_scope(scope);
  const auto home = shared ? home_of(cli.node().admin.nodes()) : std::string{};
  if (cli.json_wanted()) {
    cli.io().print({{"directory", where},
                    {"scope", scope},
                    {"shared", shared},
                    {"home", home.empty() ? json(nullptr) : json(home)},
                    {"checkout", inside ? checkout_row(*inside) : json(nullptr)}});
    return code::ok;
  }
  cli.io().line(scope + (!shared        ? ": of this host alone; share it with: swarmctl scope share"
                         : home.empty() ? ": of this host alone: it is in no cluster"
                                        : ": shared, its home is " + home));
  if (inside)
    cli.io().line("paths are relative to " + inside->root());
  else if (shared)
    cli.io().line(where + " lies in no checkout of it: paths stay as they are");
  return code::ok;
}

void build_scope(CLI::App& app, invocation& cli) {
  app.require_subcommand(1);
  auto directory = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  auto* list = app.add_subcommand("list", "the scopes of this node and the shared ones, and where checkouts of them are");
  on_run(*list, cli, [&cli] { return run_list(cli); });
  auto* share = app.add_subcommand("share", "make a repository's directory part of the scope that all hosts share; once in each checkout");
  option(*share, "directory", *directory, "in the repository (the working directory)", argument::directory);
  option(*share, "--as", *name, "name of the scope (git: and the remote \"origin\", without credentials)");
  on_run(*share, cli, [directory, name, &cli] { return run_share(cli, *directory, *name); });
  auto* unshare = app.add_subcommand("unshare", "make the directory a scope of its own again");
  option(*unshare, "directory", *directory, "in the repository (the working directory)", argument::directory);
  on_run(*unshare, cli, [directory, &cli] { return run_unshare(cli, *directory); });
  auto* show = app.add_subcommand("show", "which scope a command in the directory speaks about");
  option(*show, "directory", *directory, "any (the working directory)", argument::directory);
  on_run(*show, cli, [directory, &cli] { return run_show(cli, *directory); });
}

constexpr verb verbs[] = {
  {"scope", subject::hosts, "manage scopes and the checkouts that hosts share: list, share, unshare, show",
   "  swarmctl scope share\n  swarmctl scope share ~/game --as game\n  swarmctl scope list --json", build_scope},
};

} // namespace

std::span<const verb> scope_verbs() { return verbs; }

} // namespace swarm::cli
