#include "actors/domain/lock_names.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"

namespace swarm::domain {

namespace {

/// A name that would be a file of one host.
bool is_of_one_host(const transaction& tx, const std::string& path) {
  return is_named_scope(tx.scope()) && path.starts_with('/') && !is_fabric_name(path);
}

/// The host that the call came from.
const std::string& caller_node(const transaction& tx) {
  const auto& from = tx.command().principal().node();
  return from.empty() ? tx.in().node_id : from;
}

const std::string& host_of(const v1::Session& s) { return s.node_name().empty() ? s.node_id() : s.node_name(); }

} // namespace

std::optional<v1::Reply> means_other_host(const transaction& tx, const v1::Session& me, const std::string& path) {
  if (tx.command().principal().kind() == v1::Principal::NODE)
    return std::nullopt; // it names a lock by its row
  if (!is_of_one_host(tx, path) || me.node_id().empty() || me.node_id() == caller_node(tx))
    return std::nullopt;
  return refuse(v1::Refusal::STATE,
                path + " is in no checkout of " + tx.scope() + ", and " + display_name(me) + " is a session of host " + host_of(me) +
                  ", where that is another file. Name a file of the checkout, or run this on " + host_of(me) + ".",
                path);
}

std::optional<v1::Reply> lies_in_checkout_elsewhere(const transaction& tx, const v1::Session& me, const std::string& path) {
  if (tx.command().principal().kind() == v1::Principal::NODE || !is_of_one_host(tx, path) || is_inside(me.root(), path) ||
      is_inside(me.directory(), path))
    return std::nullopt;
  for (const auto& s : tx.find<v1::Session>({.scope = tx.scope()})) {
    if (s.checkout().empty() || s.node_id() == caller_node(tx))
      continue;
    if (is_inside(s.checkout(), path))
      return refuse(v1::Refusal::STATE,
                    path + " lies in no checkout of " + tx.scope() + " on this host. On host " + host_of(s) + " it is " +
                      path_below(s.checkout(), path) + " of the checkout " + s.checkout() +
                      ": name it so in the checkout of this host; `swarmctl scope share` makes a directory one.",
                    path);
    if (is_inside(s.checkout() + std::string{worktrees_suffix}, path))
      return refuse(v1::Refusal::STATE,
                    path + " lies in no checkout of " + tx.scope() + " on this host. On host " + host_of(s) +
                      " it lies in a worktree of the checkout " + s.checkout() +
                      ", whose files have the names of the checkout: name it so in the checkout of this host.",
                    path);
  }
  return std::nullopt;
}

std::optional<v1::Reply> has_name_in_checkout_here(const transaction& tx, const std::string& path) {
  if (!is_of_one_host(tx, path))
    return std::nullopt;
  for (const auto& s : tx.find<v1::Session>({.scope = tx.scope()})) {
    if (s.checkout().empty() || s.node_id() != caller_node(tx) || !locks_conflict(s.checkout(), path))
      continue;
    if (is_inside(s.checkout(), path))
      return refuse(v1::Refusal::STATE, path + " lies in " + s.checkout() + ", which has just become a checkout of " + tx.scope() + ". Try again.",
                    path);
    return refuse(v1::Refusal::STATE,
                  path + " contains " + s.checkout() + ", a checkout of " + tx.scope() +
                    ", whose files have names of their own. Lock that directory, and what else is meant by itself.",
                  path);
  }
  return std::nullopt;
}

std::optional<v1::Reply> would_rename_locks(const transaction& tx, const v1::Session& registers, const std::string& checkout) {
  if (checkout.empty() || !is_named_scope(tx.scope()))
    return std::nullopt;
  for (const auto& s : tx.find<v1::Session>({.scope = tx.scope()}))
    if (s.node_id() == registers.node_id() && s.checkout() == checkout)
      return std::nullopt; // it is called so already
  std::size_t found = 0;
  std::string names;
  auto look_at = [&](const auto& row, const char* does) {
    if (is_fabric_name(row.path()) || !locks_conflict(checkout, row.path()))
      return;
    const auto owner = tx.get<v1::Session>(key(row.session_id()));
    if (!owner || owner->node_id() != registers.node_id())
      return;
    if (++found <= limits::candidates_shown_max)
      names += (names.empty() ? "" : ", ") + display_name(*owner) + does + row.path();
  };
  for (const auto& lock : tx.find<v1::Lock>({.scope = tx.scope()}))
    if (!has_lapsed(lock, tx.in()))
      look_at(lock, " holds ");
  for (const auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope()}))
    look_at(w, " waits for ");
  if (found == 0)
    return std::nullopt;
  return refuse(v1::Refusal::STATE,
                checkout + " would become a checkout of " + tx.scope() + " with this session, and files there would be called otherwise: " + names +
                  (found > limits::candidates_shown_max ? ", …" : "") + ". Release that first: `swarmctl --scope " + tx.scope() +
                  " unlock FILE --as WHO`.",
                checkout);
}

} // namespace swarm::domain
