#include "actors/fabric/conversations/lock_judge.hpp"

#include <exception>
#include <map>
#include <set>
#include <utility>
#include <vector>

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

constexpr std::size_t path_overhead = 4; // bytes of one in a frame

/// What is locked under a name of the scope, on this host.
std::string file_of(const lock_case& c, const v1::LockView& l) { return path_from(c.checkout, l.lock().path()); }

bool is_peers(const lock_case& c, const v1::LockView& l) {
  return (l.hidden() || l.lock().session_id() != c.session_id) && !domain::is_fabric_name(l.lock().path());
}

/// Of the peers. Each lock's path is looked at once.
std::vector<agents::held_file> held_files(const lock_case& c) {
  std::vector<agents::held_file> out;
  std::map<std::string, std::string> real;
  for (const auto& l : c.locks)
    if (is_peers(c, l)) {
      auto name = file_of(c, l);
      auto [known, is_new] = real.try_emplace(name);
      if (is_new) {
        known->second = real_path(name);
        out.push_back({std::move(name), known->second});
      }
    }
  return out;
}

/// Under both names of each, as many as one frame tells.
internal::Locks list_of(const std::vector<agents::held_file>& held, bool more) {
  std::set<std::string> paths;
  for (const auto& h : held)
    paths.insert({h.name, h.real});
  internal::Locks out;
  std::size_t bytes = 0;
  for (const auto& p : paths) {
    bytes += p.size() + path_overhead;
    if (static_cast<std::size_t>(out.paths_size()) == limits::driver_locked_paths_max || bytes > limits::driver_part_bytes_max) {
      more = true;
      break;
    }
    out.add_paths(p);
  }
  out.set_more(more);
  return out;
}

std::string holder_of(const v1::LockView& l) {
  if (l.hidden())
    return "another session";
  return l.owner().label().empty() ? l.lock().session_id().substr(0, 8) : escape_control(l.owner().label(), false);
}

std::string why_not(const lock_case& c) {
  const auto& q = *c.question;
  const auto writes = agents::told_writes(q);
  if (writes.paths.empty() && !writes.more)
    return {};
  const auto found = agents::held_against(held_files(c), c.more, writes);
  if (found.what == agents::held_path::kind::free)
    return {};
  if (found.path.empty())
    return concat(
      {"swarm lock blocked ", q.tool(), ": others hold files, and what it writes is too much to be looked at. Write it in smaller parts."});
  for (const auto& l : c.locks)
    if (found.what == agents::held_path::kind::held && is_peers(c, l) && file_of(c, l) == found.path)
      return concat({"swarm lock blocked ", q.tool(), " for ", found.path, ": held by ", holder_of(l)});
  return concat({"swarm lock blocked ", q.tool(), " for ", found.path, ": there are too many locks to know whether it is held"});
}

} // namespace

lock_verdict_ptr judge_locks(const lock_case& c) {
  auto out = std::make_shared<lock_verdict>();
  try {
    if (c.question)
      out->why_not = why_not(c);
    else
      out->locks = list_of(held_files(c), c.more);
  } catch (const std::exception& e) {
    log::warn({"locks could not be looked at: ", e.what()});
    out->why_not = concat({"swarm lock blocked it: whether others hold what it writes cannot be found out: ", e.what()});
    out->locks.set_more(true);
  }
  return out;
}

lock_judge_actor::behavior_type lock_judge(lock_judge_actor::stateful_pointer<lock_judge_state> self) {
  runtime::install_defaults(self);
  return {
    [](const lock_case_ptr& c) { return judge_locks(*c); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

} // namespace swarm
