#include "actors/fabric/conversations/lock_judge.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include <caf/sec.hpp>

#include "actors/base/limits.hpp"
#include "actors/base/log.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

namespace {

constexpr std::size_t path_overhead = 4; // bytes of one in a frame

bool is_peers(const lock_case& c, const v1::LockView& l) { return l.hidden() || l.lock().session_id() != c.session_id; }

std::vector<agents::held_file> of_peers(const lock_case& c, const std::vector<lock_files::locked>& all) {
  std::vector<agents::held_file> out;
  for (const auto& l : all)
    if (is_peers(c, *l.lock))
      out.push_back(l.file);
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

/// Who reads it may have no right to know the sessions of another scope.
std::string holder_in(const lock_case& c, const scope_locks& in, const std::vector<lock_files::locked>& all, const std::string& path) {
  if (&in != c.locks.get())
    return concat({"a session of ", escape_control(in.scope, false)});
  for (const auto& l : all)
    if (is_peers(c, *l.lock) && l.file.name == path)
      return holder_of(*l.lock);
  return "another session";
}

std::string why_not_in(const lock_case& c, const scope_locks_ptr& in, const agents::tool_writes& writes, lock_files& known) {
  const auto& all = known.of(in);
  const auto found = agents::held_against(of_peers(c, all), in->more, writes);
  if (found.what == agents::held_path::kind::free)
    return {};
  const auto blocked = concat({"swarm lock blocked ", c.question->tool()});
  // Whether the rest lies in another scope nobody knows.
  if (found.path.empty())
    return in != c.locks ? std::string{}
                         : concat({blocked, ": others hold files, and what it writes is too much to be looked at. Write it in smaller parts."});
  if (found.what == agents::held_path::kind::held)
    return concat({blocked, " for ", found.path, ": held by ", holder_in(c, *in, all, found.path)});
  return concat({blocked, " for ", found.path, ": there are too many locks to know whether it is held"});
}

std::string why_not(const lock_case& c, lock_files& known) {
  const auto writes = agents::told_writes(*c.question);
  if (writes.paths.empty() && !writes.more)
    return {};
  auto out = why_not_in(c, c.locks, writes, known);
  for (auto i = c.others.begin(); out.empty() && i != c.others.end(); ++i)
    out = why_not_in(c, *i, writes, known);
  return out;
}

} // namespace

const std::vector<lock_files::locked>& lock_files::of(const scope_locks_ptr& in) {
  if (of_ == in)
    return files_;
  of_ = nullptr; // if this fails
  files_.clear();
  std::map<std::string, std::optional<git_tree>> trees;
  for (const auto& l : in->all) {
    if (domain::is_fabric_name(l.lock().path()))
      continue;
    auto name = path_from(in->checkout, l.lock().path());
    if (auto at = in->directories.find(l.lock().session_id()); !l.hidden() && at != in->directories.end()) {
      auto [tree, is_new] = trees.try_emplace(at->second);
      if (is_new)
        tree->second = find_git_tree(at->second);
      if (tree->second)
        name = path_in_tree(*tree->second, name, in->scope);
    }
    auto real = real_path(name);
    files_.push_back({&l, {std::move(name), std::move(real)}});
  }
  of_ = in;
  return files_;
}

lock_verdict_ptr judge_locks(const lock_case& c, lock_files& known) {
  auto out = std::make_shared<lock_verdict>();
  try {
    if (c.question)
      out->why_not = why_not(c, known);
    else
      out->locks = list_of(of_peers(c, known.of(c.locks)), c.locks->more);
  } catch (const std::exception& e) {
    log::warn({"locks could not be looked at: ", e.what()});
    out->why_not = concat({"swarm lock blocked it: whether others hold what it writes cannot be found out: ", e.what()});
    out->locks.set_more(true);
  }
  return out;
}

lock_looker_actor::behavior_type lock_looker(lock_looker_actor::stateful_pointer<lock_looker_state> self) {
  runtime::install_defaults(self);
  return {
    [self](const lock_case_ptr& c) { return judge_locks(*c, self->state.known); },
    [self](tree_atom) { return std::vector{runtime::self_row(self, "up")}; },
  };
}

namespace {

using judge_ptr = lock_judge_actor::stateful_pointer<lock_judge_state>;

void hand_out(judge_ptr self);

void is_free(judge_ptr self, const lock_looker_actor& looker, const std::string& scope) {
  auto& st = self->state;
  if (auto at_work = st.at_work.find(scope); --at_work->second == 0)
    st.at_work.erase(at_work);
  st.idle.push_back(looker);
  hand_out(self);
}

/// It hangs. What it has said too late nobody hears, so it is asked until it answers.
void ask_after(judge_ptr self, const lock_looker_actor& looker, const std::string& scope) {
  self->request(looker, limits::lock_judge_patience, tree_atom_v)
    .then([self, looker, scope](const std::vector<runtime::tree_entry>&) { is_free(self, looker, scope); },
          [self, looker, scope](caf::error& e) {
            if (e == caf::sec::request_timeout)
              ask_after(self, looker, scope);
          });
}

void hand_out(judge_ptr self) {
  auto& st = self->state;
  for (auto i = st.waiting.begin(); i != st.waiting.end();) {
    const auto& scope = i->what->locks->scope;
    if (auto at_work = st.at_work.find(scope); at_work != st.at_work.end() && at_work->second == limits::lock_lookers_of_scope_max) {
      ++i;
      continue;
    }
    if (st.idle.empty() && st.lookers == limits::lock_lookers_max)
      return;
    if (st.idle.empty()) {
      st.idle.push_back(st.make());
      self->link_to(st.idle.back());
      ++st.lookers;
    }
    ++st.at_work[scope];
    auto looker = std::move(st.idle.back());
    st.idle.pop_back();
    auto job = std::move(*i);
    i = st.waiting.erase(i);
    self->request(looker, limits::lock_judge_patience, job.what)
      .then(
        [self, looker, job](const lock_verdict_ptr& v) mutable {
          job.promise.deliver(v);
          is_free(self, looker, job.what->locks->scope);
        },
        [self, looker, job](caf::error& e) mutable {
          job.promise.deliver(std::move(e));
          ask_after(self, looker, job.what->locks->scope);
        });
  }
}

} // namespace

lock_judge_actor::behavior_type lock_judge(judge_ptr self, std::function<lock_looker_actor()> make) {
  runtime::install_defaults(self);
  self->state.make = std::move(make);
  return {
    [self](const lock_case_ptr& c) -> caf::result<lock_verdict_ptr> {
      auto& st = self->state;
      auto asker = caf::actor_cast<caf::actor_addr>(self->current_sender());
      // One whose answer nobody waits for any more would keep those behind it.
      for (auto i = st.waiting.begin(); i != st.waiting.end();) {
        if (!asker || i->asker != asker) {
          ++i;
          continue;
        }
        i->promise.deliver(fail(errc::unavailable, "asked again"));
        i = st.waiting.erase(i);
      }
      auto promise = self->make_response_promise<lock_verdict_ptr>();
      st.waiting.push_back({asker, c, promise});
      hand_out(self);
      return promise;
    },
    [self](tree_atom) {
      const auto& st = self->state;
      const auto at_work = st.lookers - st.idle.size();
      return std::vector{runtime::self_row(self, "up", concat({at_work, " of ", st.lookers, " look, ", st.waiting.size(), " wait"}))};
    },
  };
}

} // namespace swarm
