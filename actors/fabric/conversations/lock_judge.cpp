#include "actors/fabric/conversations/lock_judge.hpp"

#include <exception>
#include <set>

#include "actors/agents/held_paths.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lock_paths.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

namespace {

/// What is locked under a name of the scope, on this host.
std::string file_of(const lock_case& c, const v1::LockView& l) { return path_from(c.checkout, l.lock().path()); }

bool is_peers(const lock_case& c, const v1::LockView& l) {
  return (l.hidden() || l.lock().session_id() != c.session_id) && !domain::is_fabric_name(l.lock().path());
}

internal::Locks locks_of(const lock_case& c) {
  std::set<std::string> paths;
  for (const auto& l : c.locks)
    if (is_peers(c, l))
      paths.insert(file_of(c, l));
  internal::Locks out;
  out.set_more(c.more || paths.size() > limits::driver_locked_paths_max);
  for (const auto& p : paths)
    if (static_cast<std::size_t>(out.paths_size()) < limits::driver_locked_paths_max)
      out.add_paths(p);
  return out;
}

std::string holder_of(const v1::LockView& l) {
  if (l.hidden())
    return "another session";
  return l.owner().label().empty() ? l.lock().session_id().substr(0, 8) : escape_control(l.owner().label(), false);
}

std::string why_not(const lock_case& c, const internal::Locks& held) {
  const auto& q = *c.question;
  const auto found = agents::held_against(held, q, c.home);
  if (found.what == agents::held_path::kind::free)
    return {};
  if (found.path.empty())
    return concat(
      {"swarm lock blocked ", q.tool(), ": others hold files, and what it writes is too long to be looked at. Write it in smaller parts."});
  for (const auto& l : c.locks)
    if (found.what == agents::held_path::kind::held && is_peers(c, l) && file_of(c, l) == found.path)
      return concat({"swarm lock blocked ", q.tool(), " for ", found.path, ": held by ", holder_of(l)});
  return concat({"swarm lock blocked ", q.tool(), " for ", found.path, ": there are too many locks to know whether it is held"});
}

lock_verdict_ptr judge(const lock_case& c) {
  auto out = std::make_shared<lock_verdict>();
  try {
    out->locks = locks_of(c);
    if (c.question)
      out->why_not = why_not(c, out->locks);
  } catch (const std::exception& e) {
    log::warn({"locks could not be looked at: ", e.what()});
    out->why_not = concat({"swarm lock blocked it: whether others hold what it writes cannot be found out: ", e.what()});
  }
  return out;
}

} // namespace

lock_judge_actor::behavior_type lock_judge(lock_judge_actor::stateful_pointer<lock_judge_state> self) {
  runtime::install_defaults(self);
  return {
    [](const lock_case_ptr& c) { return judge(*c); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
