#include "actors/fabric/conversations/scope_locks.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/agents/held_paths.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"

namespace swarm {

namespace {

struct reading {
  ask_rows ask;
  std::function<void(scope_locks_ptr)> then;
  std::function<void()> failed;
  std::string node_id;
  scope_locks locks;
  std::size_t pages = 0;
};
using reading_ptr = std::shared_ptr<reading>;

/// Who works in a linked worktree means its files.
void read_holders(const reading_ptr& r, const std::string& page = {}) {
  ++r->pages;
  r->ask(
    r->locks.scope, [&](v1::Query& x) { x.mutable_list_sessions()->mutable_page()->set_token(page); },
    [r](const v1::Answer& a) {
      for (const auto& s : a.sessions().sessions())
        if (s.node_id() == r->node_id && !s.directory().empty())
          r->locks.directories[s.id()] = path_from(r->locks.checkout, s.directory());
      const auto& next = a.sessions().page().token();
      if (!next.empty() && r->pages < limits::conversation_lock_pages_max)
        return read_holders(r, next);
      r->then(std::make_shared<const scope_locks>(std::move(r->locks)));
    },
    r->failed);
}

void read_locks(const reading_ptr& r, const std::string& page = {}) {
  ++r->pages;
  r->ask(
    r->locks.scope, [&](v1::Query& x) { x.mutable_list_locks()->mutable_page()->set_token(page); },
    [r](const v1::Answer& a) {
      auto& all = r->locks.all;
      all.insert(all.end(), a.locks().locks().begin(), a.locks().locks().end());
      const auto& next = a.locks().page().token();
      if (!next.empty() && r->pages < limits::conversation_lock_pages_max)
        return read_locks(r, next);
      r->locks.more = !next.empty();
      r->pages = 0;
      const bool is_of_files =
        std::any_of(all.begin(), all.end(), [](const auto& l) { return !l.hidden() && !domain::is_fabric_name(l.lock().path()); });
      is_of_files ? read_holders(r) : r->then(std::make_shared<const scope_locks>(std::move(r->locks)));
    },
    r->failed);
}

struct looking {
  ask_rows ask;
  node_environment_ptr node;
  std::string scope;
  agents::tool_writes writes;
  std::function<void(std::vector<scope_locks_ptr>)> then;
  std::function<void()> failed;
  std::vector<std::string> scopes; // left to be read
  std::vector<scope_locks_ptr> found;
  std::size_t pages = 0;
};
using looking_ptr = std::shared_ptr<looking>;

/// Where the files of a scope lie on this host; empty = not known.
std::string root_of(const node_environment& node, const std::string& scope) {
  if (!is_named_scope(scope))
    return scope;
  return node.cluster ? node.cluster->checkout_of(scope) : std::string{};
}

/// Its directory, and the one beside it in which the fabric makes worktrees of it. By their names: no file system is read here.
bool is_written(const looking& l, const std::string& scope) {
  const auto root = root_of(*l.node, scope);
  if (root.empty() || scope == l.scope || (l.node->cluster && !l.node->cluster->home_of(scope).empty()))
    return false;
  const auto trees = concat({root, worktrees_suffix});
  const std::vector<agents::held_file> places{{root, root}, {trees, trees}};
  return agents::held_against(places, false, l.writes).what == agents::held_path::kind::held;
}

void read_found(const looking_ptr& l) {
  if (l->scopes.empty())
    return l->then(std::move(l->found));
  const auto next = std::move(l->scopes.back());
  l->scopes.pop_back();
  auto read = [l](scope_locks_ptr locks) {
    if (!locks->all.empty())
      l->found.push_back(std::move(locks));
    read_found(l);
  };
  read_scope_locks(l->ask, *l->node, next, std::move(read), l->failed);
}

void look_for_scopes(const looking_ptr& l, const std::string& page = {}) {
  ++l->pages;
  l->ask(
    {}, [&](v1::Query& x) { x.mutable_list_scopes()->mutable_page()->set_token(page); },
    [l](const v1::Answer& a) {
      for (const auto& s : a.scopes().scopes())
        if (is_written(*l, s.scope()))
          l->scopes.push_back(s.scope());
      if (l->scopes.size() > limits::lock_other_scopes_max)
        return l->then({std::make_shared<const scope_locks>(scope_locks{l->scopes.front(), {}, {}, true, {}})}); // too many to be looked at
      const auto& next = a.scopes().page().token();
      !next.empty() && l->pages < limits::lock_scopes_looked_through_pages_max ? look_for_scopes(l, next) : read_found(l);
    },
    l->failed);
}

} // namespace

void read_scope_locks(const ask_rows& ask, const node_environment& node, const std::string& scope, std::function<void(scope_locks_ptr)> then,
                      std::function<void()> failed) {
  auto r = std::make_shared<reading>();
  r->ask = ask;
  r->then = std::move(then);
  r->failed = std::move(failed);
  r->node_id = node.facts.node_id;
  r->locks.scope = scope;
  if (node.cluster)
    r->locks.checkout = node.cluster->checkout_of(scope);
  read_locks(r);
}

void read_locks_around(const ask_rows& ask, const node_environment_ptr& node, const std::string& scope, const internal::HookQuestion& q,
                       std::function<void(std::vector<scope_locks_ptr>)> then, std::function<void()> failed) {
  auto l = std::make_shared<looking>();
  l->ask = ask;
  l->node = node;
  l->scope = scope;
  l->writes = agents::told_writes(q);
  l->then = std::move(then);
  l->failed = std::move(failed);
  look_for_scopes(l);
}

} // namespace swarm
