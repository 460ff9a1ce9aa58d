// What a hook does before and after a tool call.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"
#include "cli/hook/protected.hpp"
#include "cli/hook/run_internal.hpp"
#include "cli/rows.hpp"

#include <algorithm>
#include <filesystem>

namespace swarm::cli {

namespace {

constexpr std::size_t script_shown_bytes = limits::ambient_text_bytes_max;

} // namespace

// -- before the tool ----------------------------------------------------------------------------

/// For a tool call that writes more files than are checked. With --fail-closed or --enforce it denies the call and returns true, otherwise it
/// only says so.
bool hook_run::denied_as_too_many() {
  auto text = use_.tool + " may write more files than are looked at (" + std::to_string(limits::hook_paths_max) + ")";
  if (options_.fail_closed || options_.enforce)
    deny("swarm lock check failed: " + text + ". Name fewer of them at once.");
  else
    note(text + "; the others were not checked");
  return options_.fail_closed || options_.enforce;
}

/// Remembers for post-tool-use how the files that others have locked look now. For the hooks of other sessions it also remembers that this
/// call may write the files that we have locked.
void hook_run::watch(const std::vector<v1::LockView>& held) {
  tool_call_seen call;
  call.key = use_.key;
  call.from_ms = cli_.now_ms();
  bool mine = false;
  for (const auto& l : held) {
    bool own = !l.hidden() && l.lock().session_id() == me_.id;
    mine = mine || own;
    if (own || use_.what != tool_use::kind::shell || l.lock().path().starts_with("/__swarm/") || call.watched.size() >= limits::hook_paths_max)
      continue;
    // The stamp of a directory says nothing about the files in it. Others named the path: what cannot be looked at is no reason to stop here.
    std::error_code ec;
    if (auto file = file_of(l, {me_.scope, {}}); !file.empty() && !std::filesystem::is_directory(file, ec))
      call.watched.push_back({l.lock().path(), file, l.lock().session_id(), stamp_of(file)});
  }
  call.locks = taken_;
  if (!mine && call.watched.empty() && call.locks.empty())
    return;
  if (use_.what == tool_use::kind::write)
    for (const auto& w : use_.paths)
      call.paths.push_back(lock_name(w.path, me_));
  remember([&](hook_memory& m) {
    if (m.id.empty())
      m = me_;
    std::erase_if(m.calls, [&](const auto& c) {
      if (c.key != call.key)
        return false;
      // The agent asked twice about one call and will report one end, so the repeated event counts once.
      for (const auto& path : c.locks)
        if (auto lock = m.taken.find(path); c.to_ms == 0 && lock != m.taken.end())
          --lock->second.users;
      return true;
    });
    m.calls.push_back(std::move(call));
    return true;
  });
}

/// The directory of the event, and the variables by which scripts reach what the node keeps.
shell::place hook_run::place_of_tool() const {
  const auto& env = cli_.env();
  return {place_, env.get("HOME"), shell::file_variables([&](const std::string& name) { return env.get(name); })};
}

void hook_run::pre_tool_use() {
  use_ = tool_use_of(input_, place_of_tool());
  // Before everything else: it asks no node, and it holds in every mode.
  if (auto reason = reason_against(use_, protected_directories(cli_.env(), state_directory_.string())); !reason.empty())
    return deny(reason);
  if (use_.unreadable && options_.fail_closed)
    return deny(cannot_be_read);
  if (use_.unreadable)
    note("no locks were checked: the hook could not read what the tool is to do");
  me_ = known_session();
  bool writes = use_.what == tool_use::kind::write ? !use_.paths.empty() : use_.what == tool_use::kind::shell;
  if (writes && me_.id.empty() && !enter_again()) {
    if (options_.fail_closed)
      deny("swarm lock check failed for " + use_.tool + ": its event does not name the session. Take --fail-closed off its hook.");
    else
      note("no locks were checked: the event does not name the session");
    return;
  }
  bool checked = writes && !(agent_.what == agents::program::hermes && me_.coordinator);
  bool denied = false;
  if (checked) {
    path_matcher written{use_.paths, me_};
    denied = use_.cut && denied_as_too_many();
    denied = denied || (options_.enforce && !take_locks(written));
    const place_of_locks own{me_.scope, {}};
    auto held = denied ? std::vector<v1::LockView>{} : locks(own);
    // A session of the agent's tool server must not be watched as another's.
    for (const auto& l : held)
      if (!l.hidden())
        is_me(l.lock().session_id());
    denied = denied || denied_by(held, written, own) || denied_in_other_repositories();
    if (denied)
      give_back(std::exchange(taken_, {}));
    else
      watch(held);
  }
  if (!denied && !warnings_.empty()) {
    std::string all;
    for (const auto& w : warnings_) {
      note(w);
      all += (all.empty() ? "" : "\n") + w;
    }
    say(hook_context(agent_, event_, all));
  }
  report(v1::AgentReport::WORKING);
}

// -- after the tool -----------------------------------------------------------------------------

/// The watched files that have changed, except those whose holder may have written them itself or no longer has the lock.
std::vector<watched_file> hook_run::changed_files(const std::vector<watched_file>& watched, std::int64_t since_ms) const {
  std::vector<watched_file> out;
  for (const auto& w : watched)
    if (stamp_of(w.file) != w.before && !hook_store::may_have_written(state_directory_, w.holder, w.path, since_ms))
      out.push_back(w);
  std::erase_if(out, [&](const watched_file& w) {
    auto q = query();
    q.mutable_get_lock()->set_path(w.path);
    auto answer = ask(q);
    return answer.has_refusal() || !answer.lock().has_active() || (!w.holder.empty() && answer.lock().active().lock().session_id() != w.holder);
  });
  return out;
}

void hook_run::tell_about(const std::vector<watched_file>& changed) {
  std::string all;
  for (const auto& w : changed) {
    auto script = escape_control(utf8_prefix(use_.script, script_shown_bytes), false);
    auto file = escape_control(w.path, false);
    all += (all.empty() ? "" : "\n") + std::string{"swarm lock broken: "} + file + " changed while your " + use_.tool + " command ran, and " +
           (w.holder.empty() ? std::string{hidden_holder} : w.holder.substr(0, 8)) +
           " holds its lock. If your command wrote it, tell the holder, and undo it unless they agree.";
    if (w.holder.empty())
      continue;
    auto c = command();
    c.mutable_send_message()->set_recipient(w.holder);
    c.mutable_send_message()->set_relaxed(true);
    c.mutable_send_message()->set_content(concat(
      {"[auto] ", file, ", which you have locked, changed while ", me_.id, " ran: ", script, "\nIf that was not you, look at it before you go on."}));
    auto reply = decide(c);
    if (reply.has_refusal())
      note("the holder was not told: " + reply.refusal().text());
  }
  note(all);
  say(hook_context(agent_, event_, all));
}

void hook_run::post_tool_use() {
  use_ = tool_use_of(input_, place_of_tool());
  me_ = known_session();
  if (me_.id.empty())
    return;
  tool_call_seen call;
  auto begun = std::find_if(me_.calls.begin(), me_.calls.end(), [&](const auto& c) { return c.key == use_.key && c.to_ms == 0; });
  if (use_.what != tool_use::kind::other && begun != me_.calls.end()) {
    call = *begun;
    remember([&](hook_memory& m) {
      for (auto& c : m.calls)
        if (c.key == use_.key) {
          c.to_ms = cli_.now_ms();
          c.watched.clear();
        }
      return true;
    });
  }
  if (auto changed = changed_files(call.watched, call.from_ms); !changed.empty())
    tell_about(changed);
  if (!call.locks.empty())
    give_back(call.locks);
  report(v1::AgentReport::WORKING);
}

} // namespace swarm::cli
