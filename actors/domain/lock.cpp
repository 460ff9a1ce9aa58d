#include <algorithm>
#include <limits>
#include <set>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/lock_names.hpp"
#include "actors/domain/lock_paths.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/workspace.hpp"

namespace swarm::domain {

namespace {

/// Every lock that one on `path` may conflict with: that of the path itself, then those above it from the nearest, then those below it.
std::vector<v1::Lock> locks_around(const transaction& tx, const std::string& path) {
  std::vector<v1::Lock> out;
  for (const auto& p : covering_paths(path))
    if (auto lock = tx.get<v1::Lock>(key(tx.scope(), p)))
      out.push_back(std::move(*lock));
  if (const auto below = below_prefix(path))
    for (auto& lock : tx.find<v1::Lock>({.scope = tx.scope(), .path_prefix = *below}))
      if (lock.path() != path && lock_covers(path, lock.path()))
        out.push_back(std::move(lock));
  return out;
}

/// Everybody who waits for a lock that conflicts with one on `path`, in the order in which they came.
std::vector<v1::LockWaiter> line_around(const transaction& tx, const std::string& path) {
  std::vector<v1::LockWaiter> out;
  if (tx.find<v1::LockWaiter>({.scope = tx.scope(), .limit = 1}).empty())
    return out;
  for (const auto& p : covering_paths(path))
    for (auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope(), .path = p}))
      out.push_back(std::move(w));
  if (const auto below = below_prefix(path))
    for (auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope(), .path_prefix = *below}))
      if (w.path() != path && lock_covers(path, w.path()))
        out.push_back(std::move(w));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.seq() < b.seq(); });
  return out;
}

std::optional<v1::Lock> held_by_other(const std::vector<v1::Lock>& around, const std::string& session_id) {
  for (const auto& lock : around)
    if (lock.session_id() != session_id)
      return lock;
  return std::nullopt;
}

/// The session holds a lock that covers the path. Then everybody who waits for a lock that conflicts with the path already waits for the session.
bool is_covered_by(const std::vector<v1::Lock>& around, const std::string& session_id, const std::string& path) {
  return std::any_of(around.begin(), around.end(),
                     [&](const auto& lock) { return lock.session_id() == session_id && lock_covers(lock.path(), path); });
}

/// The first of another session that came before `seq`.
std::optional<v1::LockWaiter> ahead_in_line(const std::vector<v1::LockWaiter>& line, const std::string& session_id, std::uint64_t seq) {
  for (const auto& w : line)
    if (w.seq() < seq && w.session_id() != session_id)
      return w;
  return std::nullopt;
}

v1::Reply granted(v1::Lock lock) {
  v1::Reply reply;
  *reply.mutable_lock()->mutable_lock() = std::move(lock);
  return reply;
}

v1::Reply quota_reached(const std::string& path) {
  return refuse(v1::Refusal::LIMIT,
                "The session holds " + std::to_string(limits::session_locks_max()) + " locks. Release some before taking another one.", path);
}

bool has_quota(const transaction& tx, const std::string& session_id) {
  return tx.count<v1::Lock>({.scope = tx.scope(), .session_id = session_id}) < limits::session_locks_max();
}

v1::Lock grant(transaction& tx, v1::Lock lock, std::int64_t ttl_ms) {
  lock.set_id(tx.in().new_uuid());
  lock.set_scope(tx.scope());
  lock.set_created_at_ms(tx.in().now_ms);
  lock.set_fence(tx.next_fence());
  lock.set_deadline_ms(ttl_ms > 0 ? tx.in().now_ms + ttl_ms : 0);
  tx.put(lock);
  tx.event("context.lock_acquired", lock.path(), {{"id", lock.id()}, {"content", lock.note()}, {"fence", lock.fence()}}, lock.session_id());
  return lock;
}

v1::Lock lock_of(const v1::Session& me, const v1::AcquireLock& a) {
  v1::Lock lock;
  lock.set_path(a.path());
  lock.set_session_id(me.id());
  lock.set_note(a.note());
  lock.set_task_id(a.task_id());
  return lock;
}

/// "is identity:work", "has no identity"
std::string with_identity(const char* is, const char* has, const v1::Session& s) {
  auto token = identity_token(s.label());
  return token.empty() ? concat({has, " no identity"}) : concat({is, " ", token});
}

/// swarm-mcp's text names neither side.
std::string why_not(const v1::Session& me, const v1::Session& other, const std::string& path) {
  return path + " is in the working tree of " + other.id().substr(0, 8) + " (" + (other.label().empty() ? "no label" : other.label()) + "), which " +
         with_identity("is", "has", other) + "; you " + with_identity("are", "have", me) +
         ". Register both under one identity (--identity NAME), or work in separate checkouts.";
}

/// The path lies in the working tree of a session of another identity. Sessions without an identity token are everybody's, unless the
/// configuration draws the boundary around them, too.
std::optional<v1::Reply> owned_by_other_identity(const transaction& tx, const v1::Session& me, const std::string& path) {
  const bool strict = tx.in().identity_boundary;
  if (may_cross_identity(tx.command()) || (!strict && identity_token(me.label()).empty()))
    return std::nullopt;
  session_filter others{.scope = tx.scope(), .adopted = true, .other_identity = me.identity()};
  for (const auto& s : tx.find<v1::Session>(others)) {
    if (s.identity() == me.identity() || (!strict && identity_token(s.label()).empty()))
      continue;
    if (!is_inside(s.root(), path) && !is_inside(s.file_root(), path) && !is_inside(s.directory(), path))
      continue;
    auto reply = refuse(v1::Refusal::CROSS_IDENTITY, "Cannot lock a path owned by another identity", path);
    reply.mutable_refusal()->set_explanation(why_not(me, s, path));
    auto* active = reply.mutable_lock()->mutable_active();
    active->set_hidden(true);
    active->mutable_lock()->set_scope(tx.scope());
    active->mutable_lock()->set_path(path);
    return reply;
  }
  return std::nullopt;
}

v1::Reply already_locked(const transaction& tx, const v1::Session& me, v1::Lock held) {
  // A grant of this very command goes with its refusal: the next one has another id and fence.
  if (const auto stored = tx.base().row<v1::Lock>(key(tx.scope(), held.path())); !stored || stored->id() != held.id()) {
    held.clear_id();
    held.clear_fence();
  }
  auto reply = refuse(v1::Refusal::CONFLICT, "File is already locked", held.path());
  *reply.mutable_lock()->mutable_active() = lock_view(tx.base(), held, &me, may_cross_identity(tx.command()), tx.in().now_ms);
  return reply;
}

/// The lock that a waiter gets when its turn comes, shown to those who come after it.
v1::Lock promised_to(const v1::LockWaiter& w) {
  v1::Lock lock;
  lock.set_scope(w.scope());
  lock.set_path(w.path());
  lock.set_session_id(w.session_id());
  lock.set_note(w.note());
  lock.set_task_id(w.task_id());
  return lock;
}

// -- the wait-for graph ------------------------------------------------------------------------------
//
// A session waits for the holders of the locks that conflict with the lock it wants, and for every earlier waiter whose lock conflicts with it.
// A hand-over only takes edges away, so checking each new place in line keeps the graph free of cycles for ever. A grant at once adds no edge: all
// who wait for this lock already wait for its new holder. Waits that are over are ignored.

struct wait_edge {
  std::string session_id;
  std::string path; // because of this lock
};

void add_line(const transaction& tx, const std::string& session_id, const std::string& path, std::uint64_t before_seq, std::vector<wait_edge>& out) {
  for (const auto& lock : locks_around(tx, path))
    if (lock.session_id() != session_id && !has_lapsed(lock, tx.in()))
      out.push_back({lock.session_id(), lock.path()});
  for (const auto& w : line_around(tx, path))
    if (w.seq() < before_seq && w.session_id() != session_id && w.deadline_ms() > tx.in().now_ms)
      out.push_back({w.session_id(), w.path()});
}

std::vector<wait_edge> waits_of(const transaction& tx, const std::string& session_id) {
  std::vector<wait_edge> out;
  for (const auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope(), .session_id = session_id}))
    add_line(tx, session_id, w.path(), w.seq(), out);
  return out;
}

struct cycle_search {
  const transaction& tx;
  const std::string& start;
  std::set<std::string> seen;
  std::vector<wait_edge> trail;

  /// Follows `edges` depth first until one leads back to the start.
  bool closes(const std::vector<wait_edge>& edges) {
    for (const auto& e : edges) {
      if (e.session_id != start && !seen.insert(e.session_id).second)
        continue;
      trail.push_back(e);
      if (e.session_id == start || closes(waits_of(tx, e.session_id)))
        return true;
      trail.pop_back();
    }
    return false;
  }
};

std::optional<v1::Reply> deadlock(const transaction& tx, const v1::Session& me, const std::string& path, std::uint64_t before_seq) {
  std::vector<wait_edge> edges;
  add_line(tx, me.id(), path, before_seq, edges);
  cycle_search search{tx, me.id(), {}, {}};
  if (!search.closes(edges))
    return std::nullopt;
  std::string text = "Waiting would never end: " + me.id();
  for (const auto& e : search.trail)
    text += (&e == &search.trail.front() ? " would wait for " : ", which waits for ") + e.session_id + " because of " + e.path;
  return refuse(v1::Refusal::DEADLOCK, text + ". Release a lock of yours, or give up a wait, first.", path);
}

// -- standing in line --------------------------------------------------------------------------------

v1::Reply stand_in_line(transaction& tx, const v1::Session& me, const v1::AcquireLock& a) {
  auto line = tx.find<v1::LockWaiter>({.scope = tx.scope(), .path = a.path()});
  auto mine = std::find_if(line.begin(), line.end(), [&](const auto& w) { return w.session_id() == me.id(); });
  // A place whose time is over is gone: those behind it need not have waited for it, so it cannot come back in front of them.
  if (mine != line.end() && mine->deadline_ms() <= tx.in().now_ms) {
    end_wait(tx, *mine, waited_too_long(a.path()));
    hand_over(tx, a.path());
    line.erase(mine);
    mine = line.end();
  }
  if (mine == line.end() && line.size() >= limits::lock_waiters_max())
    return refuse(v1::Refusal::LIMIT, std::to_string(limits::lock_waiters_max()) + " sessions already wait for this lock. Try again later.",
                  a.path());
  if (mine == line.end() && tx.count<v1::LockWaiter>({.scope = tx.scope(), .session_id = me.id()}) >= limits::session_locks_max())
    return refuse(v1::Refusal::LIMIT,
                  "The session waits for " + std::to_string(limits::session_locks_max()) + " locks already. Let some of its requests end first.",
                  a.path());
  // A session that asks again keeps its place; the request that held it is answered.
  auto seq = mine == line.end() ? tx.next_fence() : mine->seq();
  if (auto refusal = deadlock(tx, me, a.path(), seq))
    return *refusal;
  if (mine != line.end())
    end_wait(tx, *mine, refuse(v1::Refusal::STALE, "A newer request of the session waits for the lock instead", a.path()));
  v1::LockWaiter w;
  w.set_scope(tx.scope());
  w.set_path(a.path());
  w.set_seq(seq);
  w.set_session_id(me.id());
  *w.mutable_principal() = tx.command().principal();
  *w.mutable_request() = tx.in().request;
  w.set_deadline_ms(tx.in().now_ms + a.wait_ms());
  w.set_note(a.note());
  w.set_task_id(a.task_id());
  w.set_ttl_ms(a.ttl_ms());
  w.set_digest(tx.in().digest);
  tx.put(w);
  v1::Reply reply;
  const auto around = line_around(tx, a.path());
  const auto ahead =
    std::count_if(around.begin(), around.end(), [&](const auto& other) { return other.seq() < seq && other.session_id() != me.id(); });
  reply.mutable_lock_waiting()->set_position(static_cast<std::uint32_t>(ahead) + 1);
  *reply.mutable_lock_waiting()->mutable_waiter() = std::move(w);
  return reply;
}

/// Releases the lapsed locks around `path`, and returns the other locks there. A refusal of the command undoes this.
std::vector<v1::Lock> settle(transaction& tx, const std::string& path) {
  auto lapsed = false;
  auto around = locks_around(tx, path);
  for (const auto& lock : around)
    if (has_lapsed(lock, tx.in())) {
      release(tx, lock, "expired");
      lapsed = true;
    }
  if (around.empty())
    hand_over(tx, path);
  return around.empty() || lapsed ? locks_around(tx, path) : around;
}

} // namespace

void end_wait(transaction& tx, const v1::LockWaiter& w, v1::Reply answer) {
  tx.erase(w);
  v1::ResolvedWait end;
  end.set_path(w.path());
  *end.mutable_principal() = w.principal();
  *end.mutable_request() = w.request();
  *end.mutable_reply() = std::move(answer);
  tx.resolve(std::move(end));
}

v1::Reply waited_too_long(const std::string& path) { return refuse(v1::Refusal::TIMEOUT, "Waited for the lock until the deadline", path); }

bool has_lapsed(const v1::Lock& lock, const inputs& in) {
  return lock.deadline_ms() != 0 && lock.deadline_ms() <= in.now_ms && in.now_ms >= in.grace_until_ms;
}

std::optional<v1::Lock> live_lock(const transaction& tx, const std::string& path) {
  auto held = tx.get<v1::Lock>(key(tx.scope(), path));
  return held && has_lapsed(*held, tx.in()) ? std::nullopt : held;
}

namespace {

/// Why a place in line is not worth keeping, or nothing.
std::optional<v1::Reply> refusal_of_overdue(const transaction& tx, const v1::LockWaiter& w) {
  if (w.deadline_ms() <= tx.in().now_ms)
    return waited_too_long(w.path());
  if (!tx.get<v1::Session>(key(w.session_id())))
    return not_registered();
  return std::nullopt;
}

} // namespace

void hand_over(transaction& tx, const std::string& path) {
  // A waiter that leaves the line may have been in the way of those who wait for something below it or above it.
  std::vector<std::string> freed{path};
  for (std::size_t i = 0; i < freed.size(); ++i) {
    const auto at = freed[i]; // the list grows
    std::vector<v1::Lock> given;
    for (const auto& w : line_around(tx, at)) {
      const auto conflicts = [&](const v1::Lock& lock) { return lock.session_id() != w.session_id() && locks_conflict(lock.path(), w.path()); };
      auto overdue = refusal_of_overdue(tx, w);
      if (!overdue && std::any_of(given.begin(), given.end(), conflicts))
        continue;
      // A new row, an event, and a reply, or only the reply.
      if (!tx.has_room(6 * w.path().size() + 4 * limits::note_bytes_max()))
        return tx.scope_state().set_lines_pending(true);
      if (overdue) {
        end_wait(tx, w, std::move(*overdue));
        freed.push_back(w.path());
        continue;
      }
      if (held_by_other(locks_around(tx, w.path()), w.session_id()) || ahead_in_line(line_around(tx, w.path()), w.session_id(), w.seq()))
        continue;
      if (!has_quota(tx, w.session_id())) {
        end_wait(tx, w, quota_reached(w.path()));
        freed.push_back(w.path());
        continue;
      }
      v1::Lock lock;
      lock.set_path(w.path());
      lock.set_session_id(w.session_id());
      lock.set_note(w.note());
      lock.set_task_id(w.task_id());
      given.push_back(grant(tx, std::move(lock), w.ttl_ms()));
      end_wait(tx, w, granted(given.back()));
    }
  }
}

void continue_lines(transaction& tx) {
  if (!tx.lines_pending())
    return;
  tx.scope_state().set_lines_pending(false);
  std::set<std::string> seen;
  for (const auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope()}))
    if (!tx.lines_pending() && seen.insert(w.path()).second)
      hand_over(tx, w.path());
}

std::string release(transaction& tx, const v1::Lock& lock, std::string_view reason) {
  tx.erase(lock);
  json payload = {{"released", 1}};
  if (!reason.empty())
    payload["reason"] = reason;
  if (!lock.task_id().empty())
    payload["task_id"] = lock.task_id();
  tx.event("context.lock_released", lock.path(), payload);
  hand_over(tx, lock.path());
  const auto now = tx.get<v1::Lock>(key(tx.scope(), lock.path()));
  return now ? now->session_id() : std::string{};
}

v1::Reply acquire_lock(transaction& tx, const v1::AcquireLock& a) {
  auto me = tx.acting_session();
  if (!me)
    return not_registered();
  if (auto refusal = means_other_host(tx, *me, a.path()))
    return *refusal;
  if (auto refusal = lies_in_checkout_elsewhere(tx, *me, a.path()))
    return *refusal;
  if (auto refusal = has_name_in_checkout_here(tx, a.path()))
    return *refusal;
  if (auto refusal = owned_by_other_identity(tx, *me, a.path()))
    return *refusal;
  const auto around = settle(tx, a.path());
  const bool mine = !around.empty() && around.front().path() == a.path() && around.front().session_id() == me->id();
  if (mine)
    return a.exclusive() ? already_locked(tx, *me, around.front()) : granted(grant(tx, lock_of(*me, a), a.ttl_ms()));
  auto in_the_way = held_by_other(around, me->id());
  auto other_in_line = is_covered_by(around, me->id(), a.path())
                         ? std::nullopt
                         : ahead_in_line(line_around(tx, a.path()), me->id(), std::numeric_limits<std::uint64_t>::max());
  if (!in_the_way && !other_in_line) {
    if (!has_quota(tx, me->id()))
      return quota_reached(a.path());
    return granted(grant(tx, lock_of(*me, a), a.ttl_ms()));
  }
  if (a.wait_ms() > 0)
    return stand_in_line(tx, *me, a);
  if (in_the_way)
    return already_locked(tx, *me, *in_the_way);
  auto reply = already_locked(tx, *me, promised_to(*other_in_line));
  reply.mutable_lock()->mutable_active()->set_in_line(true);
  return reply;
}

v1::Reply release_lock(transaction& tx, const v1::ReleaseLock& r) {
  auto me = tx.acting_session();
  if (!me)
    return not_registered();
  if (auto refusal = means_other_host(tx, *me, r.path()))
    return *refusal;
  v1::Reply reply;
  reply.mutable_lock()->set_released(false);
  settle(tx, r.path());
  auto held = tx.get<v1::Lock>(key(tx.scope(), r.path()));
  if (!held) {
    auto refusal = lies_in_checkout_elsewhere(tx, *me, r.path());
    return refusal ? *refusal : reply;
  }
  if (r.fence() != 0 && r.fence() != held->fence())
    return refuse(v1::Refusal::STALE, "The fence is not the lock's current one. The lock has passed on; take it again.", r.path());
  if (held->session_id() != me->id())
    return reply;
  *reply.mutable_lock()->mutable_lock() = *held;
  reply.mutable_lock()->set_released(true);
  reply.mutable_lock()->set_handed_to(release(tx, *held, ""));
  return reply;
}

v1::Reply cancel_lock_wait(transaction& tx, const v1::CancelLockWait& c) {
  auto me = tx.acting_session();
  if (!me)
    return not_registered();
  v1::Reply reply;
  for (const auto& w : tx.find<v1::LockWaiter>({.scope = tx.scope(), .path = c.path()}))
    if (w.session_id() == me->id()) {
      end_wait(tx, w, refuse(v1::Refusal::STATE, "The wait for the lock was cancelled", c.path()));
      hand_over(tx, c.path());
      reply.mutable_done();
      return reply;
    }
  // Too late to cancel: the caller learns what it has got.
  auto held = live_lock(tx, c.path());
  if (held && held->session_id() == me->id())
    return granted(std::move(*held));
  reply.mutable_done();
  return reply;
}

void release_task_locks(transaction& tx, const v1::Task& task) {
  if (task.assignee().empty() || tx.find<v1::Lock>({.scope = tx.scope(), .session_id = task.assignee(), .limit = 1}).empty())
    return;
  // The task's end must not fail for its locks: what does not fit the batch stays with the session.
  auto let_go = [&](const v1::Lock& lock) {
    if (tx.has_room(6 * lock.path().size() + 4 * limits::note_bytes_max()))
      release(tx, lock, "task_terminal");
  };
  for (const auto& lock : tx.find<v1::Lock>({.scope = tx.scope(), .session_id = task.assignee(), .task_id = task.id()}))
    let_go(lock);
  for (const auto& file : std::set<std::string>(task.files().begin(), task.files().end())) {
    auto lock = tx.get<v1::Lock>(key(tx.scope(), file));
    if (lock && lock->session_id() == task.assignee())
      let_go(*lock);
  }
  for (const auto& other :
       tx.find<v1::Task>({.scope = tx.scope(), .statuses = {v1::CLAIMED, v1::IN_PROGRESS}, .assignee = task.assignee(), .limit = 2}))
    if (other.id() != task.id())
      return;
  for (const auto& lock : tx.find<v1::Lock>({.scope = tx.scope(), .session_id = task.assignee()}))
    if (!is_fabric_name(lock.path()))
      let_go(lock);
}

namespace {

std::uint32_t waiters_for(const rows_view& rows, const v1::Lock& lock) {
  if (rows.rows<v1::LockWaiter>({.scope = lock.scope(), .limit = 1}).empty())
    return 0;
  std::uint64_t n = 0;
  for (const auto& path : covering_paths(lock.path()))
    n += rows.total<v1::LockWaiter>({.scope = lock.scope(), .path = path});
  if (const auto below = below_prefix(lock.path()))
    for (const auto& w : rows.rows<v1::LockWaiter>({.scope = lock.scope(), .path_prefix = *below}))
      n += w.path() != lock.path() && lock_covers(lock.path(), w.path()) ? 1 : 0;
  return static_cast<std::uint32_t>(n);
}

} // namespace

v1::LockView lock_view(const rows_view& rows, const v1::Lock& lock, const v1::Session* viewer, bool allow_cross_identity, std::int64_t now_ms) {
  v1::LockView view;
  auto owner = rows.row<v1::Session>(key(lock.session_id()));
  if (viewer && owner && !allow_cross_identity && owner->identity() != viewer->identity()) {
    view.set_hidden(true);
    view.mutable_lock()->set_scope(lock.scope());
    view.mutable_lock()->set_path(lock.path());
    return view;
  }
  *view.mutable_lock() = lock;
  view.mutable_owner()->set_id(lock.session_id());
  if (owner) {
    view.mutable_owner()->set_label(owner->label());
    view.mutable_owner()->set_heartbeat_ms(shown_heartbeat_ms(*owner, now_ms));
    view.mutable_owner()->set_active(owner->scope() == lock.scope());
  }
  if (auto workspace = workspace_of(rows, lock.scope(), lock.session_id(), viewer, allow_cross_identity, now_ms))
    *view.mutable_owner()->mutable_workspace() = std::move(*workspace);
  task_filter active{.scope = lock.scope(), .statuses = {v1::CLAIMED, v1::IN_PROGRESS}, .assignee = lock.session_id()};
  active.limit = limits::claim_next_candidates_max();
  auto tasks = rows.rows<v1::Task>(active);
  std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.changed_at_ms() > b.changed_at_ms(); });
  for (std::size_t i = 0; i < tasks.size() && i < 5; ++i)
    *view.add_active_tasks() = std::move(tasks[i]);
  view.set_waiters(waiters_for(rows, lock));
  return view;
}

} // namespace swarm::domain
