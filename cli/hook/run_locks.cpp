// The locks on what a tool call writes: how a hook judges those of others, and takes and releases its own.
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "cli/hook/run_internal.hpp"
#include "cli/rows.hpp"

#include <algorithm>

namespace swarm::cli {

std::vector<v1::LockView> hook_run::locks(const place_of_locks& where) const {
  auto q = query_in(where);
  q.mutable_list_locks();
  return mcp::rows_of_pages<v1::LockView>(std::move(q), [this](const v1::Query& x) { return ask_or_throw(x); });
}

/// Where else somebody may have locked what is written: in the scopes of the repositories that it lies in, and, if hosts or clones share the
/// session's scope, there under the names of another clone.
std::vector<hook_run::place_of_locks> hook_run::further_places() const {
  std::vector<place_of_locks> out;
  const auto own = me_.directory.empty() ? std::string{} : canonical_path(git_root(me_.directory));
  for (const auto& root : repositories_around(use_.paths)) {
    if (is_named_scope(me_.scope) && root != own)
      out.push_back({me_.scope, root});
    if (auto scope = resolve_scope({}, root); scope != me_.scope)
      out.push_back({std::move(scope), root});
  }
  return out;
}

/// "swarm lock blocked Edit for /r/a: held by somebody (why)", as swarm-mcp writes it.
std::string hook_run::holder_text(const v1::LockView& view, const char* what) const {
  auto shown = [](const std::string& text) { return escape_control(utf8_prefix(text, limits::hook_note_bytes_max), false); };
  auto label = agent_.what == agents::program::hermes ? std::string{} : view.owner().label();
  auto holder = view.hidden() ? std::string{hidden_holder} : label.empty() ? view.lock().session_id().substr(0, 8) : label;
  auto out = std::string{"swarm lock "} + what + " " + shown(use_.tool) + " for " + shown(view.lock().path()) + ": held by " + shown(holder);
  if (const auto& pane = view.owner().workspace().pane_id(); !pane.empty() && agent_.what != agents::program::hermes)
    out += " (pane " + shown(pane) + ")";
  return view.lock().note().empty() ? out : out + " (" + shown(view.lock().note()) + ")";
}

/// The locked file, in the worktree of the lock's holder. Empty when the holder is not known.
std::string hook_run::file_of(const v1::LockView& view, const place_of_locks& where) {
  const auto& path = view.lock().path();
  if (view.hidden() || !has_several_trees(path))
    return path;
  auto [known, fresh] = holders_.try_emplace(view.lock().session_id());
  if (fresh) {
    try {
      auto q = query_in(where);
      q.mutable_find_session()->set_who(known->first);
      auto answer = ask(q);
      if (answer.has_session() && answer.session().id() == known->first)
        known->second = answer.session();
    } catch (const failure&) {
      // The entry stays empty: the holder is not known.
    }
  }
  return known->second.id().empty() ? std::string{} : file_of_holder(path, known->second);
}

/// Decides about a write to what somebody else has locked. A holder in another worktree of the repository has a different file: a warning is
/// enough then.
hook_run::verdict hook_run::judge(const v1::LockView& view, const path_matcher& written, const shell::written_path& w, const place_of_locks& where) {
  if (auto file = file_of(view, where); !file.empty() && has_several_trees(view.lock().path()) && !written.is_written(w, file)) {
    warnings_.push_back(holder_text(view, "in another worktree:") + ". Both changes will have to be merged.");
    return verdict::warned;
  }
  deny(holder_text(view, "blocked"));
  return verdict::denied;
}

bool hook_run::denied_by(const std::vector<v1::LockView>& held, const path_matcher& written, const place_of_locks& where) {
  for (const auto& l : held) {
    const auto* w = written.find(l.lock().path());
    if (!w)
      w = written.find_below(l.lock().path()); // the lock is on a directory above the written path
    if (w && (l.hidden() || !is_me(l.lock().session_id())) && judge(l, written, *w, where) == verdict::denied)
      return true;
  }
  return false;
}

/// A lock binds whoever writes the file, from whichever repository.
bool hook_run::denied_in_other_repositories() {
  for (const auto& where : further_places()) {
    hook_memory there;
    there.scope = where.scope;
    there.root = where.directory;
    try {
      if (denied_by(locks(where), path_matcher{use_.paths, there}, where))
        return true;
    } catch (const failure& f) {
      if (options_.fail_closed)
        throw;
      note("the locks of " + where.scope + " were not checked: " + f.what());
    }
  }
  return false;
}

std::string hook_run::current_task() const {
  auto q = query();
  q.set_viewer(me_.id);
  auto* body = q.mutable_list_tasks();
  body->add_statuses(v1::IN_PROGRESS);
  body->set_assignee(me_.id);
  body->mutable_page()->set_size(1);
  auto answer = ask(q);
  return answer.tasks().tasks().empty() ? std::string{} : answer.tasks().tasks(0).id();
}

bool hook_run::release(const std::string& path, std::uint64_t fence) {
  auto c = command();
  c.mutable_release_lock()->set_path(path);
  c.mutable_release_lock()->set_fence(fence);
  return decide(c).lock().released();
}

/// Takes and releases of one session come one after the other. Otherwise a call could find the lock of another call that is about to release it,
/// and write without one.
unique_fd hook_run::turn_at_locks() {
  // The rest is for the node.
  const auto left = std::max<std::int64_t>(deadline_ms_ - cli_.boot_ms(), 1);
  auto turn = store_.turn(std::chrono::milliseconds{left * 3 / 4});
  if (!turn && !agent_session_.empty())
    throw std::runtime_error("another hook of this session takes or releases locks for too long, or their file " +
                             (state_directory_ / "hooks").string() + "/turns cannot be locked");
  return turn;
}

/// Ends the use of each lock by one tool call; the last user releases it. The fence makes sure that only the lock we took is released.
void hook_run::end_use(const std::vector<std::string>& paths) {
  std::map<std::string, std::uint64_t> over;
  remember([&](hook_memory& m) {
    for (const auto& path : paths)
      if (auto lock = m.taken.find(path); lock != m.taken.end() && --lock->second.users <= 0) {
        over[path] = lock->second.fence;
        m.taken.erase(lock);
      }
    return true;
  });
  for (const auto& [path, fence] : over)
    if (fence != 0)
      release(path, fence);
}

void hook_run::give_back(const std::vector<std::string>& paths) {
  if (paths.empty())
    return;
  auto turn = turn_at_locks();
  end_use(paths);
}

void hook_run::give_back_all() {
  auto turn = turn_at_locks();
  std::map<std::string, taken_lock> over;
  remember([&](hook_memory& m) {
    over = std::exchange(m.taken, {});
    return !over.empty();
  });
  for (const auto& [path, lock] : over)
    if (lock.fence != 0)
      release(path, lock.fence);
}

v1::Command hook_run::acquisition(const std::string& path, const std::string& task) const {
  auto c = command();
  auto* body = c.mutable_acquire_lock();
  body->set_path(path);
  body->set_note(hook_note);
  body->set_task_id(task);
  body->set_ttl_ms(limits::hook_lock_ttl().count());
  body->set_exclusive(true);
  return c;
}

void hook_run::note_fence(const std::string& path, std::uint64_t fence) {
  remember([&](hook_memory& m) {
    m.taken[path].fence = fence;
    return true;
  });
}

/// The session had ended, with the locks of its running tool calls, and is there again: they are taken once more.
void hook_run::retake_locks(const std::string& task) {
  for (const auto& [path, lock] : store_.load().value_or(hook_memory{}).taken)
    if (lock.users > 0 && lock.fence == 0 && std::find(taken_.begin(), taken_.end(), path) == taken_.end())
      if (auto reply = decide(acquisition(path, task)); !reply.has_refusal())
        note_fence(path, reply.lock().lock().fence());
}

/// False when another lock, or the node, forbids the write; deny() has been called then.
bool hook_run::take_lock(const std::string& path, const std::string& task, const path_matcher& written) {
  // The use is recorded before the lock is asked for: this hook may be killed.
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    ++m.taken[path].users;
    return true;
  });
  taken_.push_back(path);
  auto c = acquisition(path, task);
  auto reply = decide(c);
  if (reply.refusal().code() == v1::Refusal::NOT_REGISTERED && enter_again()) {
    c.set_actor(me_.id);
    reply = decide(c);
    retake_locks(task);
  }
  const auto mine = [&](const v1::LockView& held) { return !held.hidden() && is_me(held.lock().session_id()); };
  // Hooks of this session took it if they recorded its fence. A hook that was killed may have been granted it and not have recorded the fence.
  const auto of_hook = [&](const v1::Lock& held) {
    auto known = store_.load().value_or(hook_memory{}).taken[path];
    return known.fence == held.fence() || (known.fence == 0 && known.users > 1 && held.deadline_ms() != 0 && held.note() == hook_note);
  };
  if (reply.has_refusal() && mine(reply.lock().active()) && of_hook(reply.lock().active().lock())) {
    // Another tool call of this session uses the lock: both write under it, and the last one releases it.
    c.mutable_acquire_lock()->set_exclusive(false);
    c.set_actor(me_.id);
    reply = decide(c);
  }
  if (!reply.has_refusal()) {
    note_fence(path, reply.lock().lock().fence());
    return true;
  }
  taken_.pop_back();
  end_use({path});
  const auto& active = reply.lock().active();
  if (reply.lock().has_active() && mine(active))
    return true; // the agent took this lock itself, so it stays
  if (reply.refusal().code() == v1::Refusal::CONFLICT && reply.lock().has_active()) {
    if (const auto* w = written.find(path))
      return judge(active, written, *w, {me_.scope, {}}) != verdict::denied;
    deny(holder_text(active, "blocked"));
    return false;
  }
  if (reply.refusal().code() == v1::Refusal::NOT_REGISTERED)
    throw refused(reply);
  deny("swarm lock refused " + use_.tool + " for " + escape_control(path, false) + ": " + escape_control(text_for_people(reply.refusal()), false));
  return false;
}

bool hook_run::take_locks(const path_matcher& written) {
  const auto paths = lock_names(use_.paths, me_);
  if (!paths) {
    deny("swarm lock refused " + use_.tool + ": it writes more than " + std::to_string(limits::hook_paths_max) +
         " files, which cannot be locked together. Name fewer of them at once.");
    return false;
  }
  if (paths->empty())
    return true;
  auto task = current_task();
  auto turn = turn_at_locks();
  return std::all_of(paths->begin(), paths->end(), [&](const auto& path) { return take_lock(path, task, written); });
}

} // namespace swarm::cli
