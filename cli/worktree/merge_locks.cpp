#include "cli/worktree/merge_locks.hpp"

#include <map>
#include <set>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"

namespace swarm::cli {

namespace {

/// The scopes in which somebody may have locked files of the home tree: that of the task, that of the tree, those of repositories around it and of
/// directories in it, and the named ones.
std::set<std::string> scopes_with_locks(const invocation& cli, const worker_trees& trees, const worker_tree& t) {
  std::set<std::string> out{t.scope, resolve_scope({}, trees.root())};
  const auto add = [&](const std::string& scope) {
    if (is_named_scope(scope) || is_inside(scope, trees.root()) || is_inside(trees.root(), scope))
      out.insert(scope);
  };
  try {
    auto query = cli.query();
    query.clear_scope();
    query.mutable_list_scopes();
    for (const auto& s : all_rows<v1::ScopeState>(cli, std::move(query)))
      add(s.scope());
    const auto checkouts = cli.node().admin.checkouts();
    for (const auto& c : checkouts.checkouts())
      if (c.root() == trees.root())
        add(c.scope());
  } catch (const failure& f) {
    if (f.exit_status != code::refused)
      throw;
    // Not everybody may ask that.
  }
  return out;
}

std::vector<v1::LockView> locks_of(const invocation& cli, const worker_trees& trees, const std::string& scope) {
  auto query = cli.query();
  query.set_scope(scope);
  query.mutable_caller()->set_directory(trees.root());
  query.mutable_list_locks();
  return all_rows<v1::LockView>(cli, std::move(query));
}

/// Locks of the repository's files and directories, by their names in it; "." is its root, or a directory above that.
std::multimap<std::string, v1::LockView> locks_of_files(const invocation& cli, const worker_trees& trees, const worker_tree& t, bool force) {
  std::multimap<std::string, v1::LockView> out;
  std::set<std::string> seen; // a scope may have two names
  for (const auto& scope : scopes_with_locks(cli, trees, t)) {
    const auto root = repository_path(trees.root(), scope);
    std::vector<v1::LockView> views;
    try {
      views = locks_of(cli, trees, scope);
    } catch (const failure& f) {
      const auto text = "the locks of " + escape_control(scope, false) + " are not known: " + f.what();
      if (!force)
        throw failure(f.exit_status, t.branch + " is not merged: " + text);
      cli.io().error(text);
    }
    for (const auto& view : views)
      if (const auto& path = view.lock().path();
          domain::locks_conflict(root, path) && (view.lock().id().empty() || seen.insert(view.lock().id()).second))
        out.emplace(is_inside(root, path) ? path_below(root, path) : ".", view);
  }
  return out;
}

} // namespace

std::vector<v1::LockView> locks_in_the_way(const invocation& cli, const worker_trees& trees, const worker_tree& t, const merge_plan& plan,
                                           bool force) {
  std::vector<v1::LockView> out;
  auto locks = locks_of_files(cli, trees, t, force);
  const auto me = cli.named_actor_id();
  std::erase_if(locks, [&](const auto& held) { return !me.empty() && held.second.lock().session_id() == me; });
  if (locks.empty())
    return out;
  auto files = plan.files;
  // Under the names that the worker has for them, too: whoever has locked one of these means the same file.
  for (auto& name :
       nul_separated(trees.home().output({"diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "HEAD...refs/heads/" + t.branch, "--"})))
    files.insert(std::move(name));
  std::set<std::string> found;
  for (const auto& file : files)
    for (const auto& name : domain::covering_paths(file))
      if (locks.contains(name) && found.insert(name).second)
        for (auto [held, end] = locks.equal_range(name); held != end; ++held)
          out.push_back(held->second);
  return out;
}

} // namespace swarm::cli
