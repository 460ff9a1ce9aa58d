// swarm_status, as in swarm-mcp: what one session should know and do next.
#include <set>

#include "actors/domain/query/rules.hpp"

namespace swarm::domain {

namespace {

constexpr std::size_t unread_bytes_max = limits::page_encoded_bytes_max / 2;
constexpr std::size_t peers_max = limits::page_rows_max;

constexpr v1::TaskStatus counted_statuses[] = {v1::OPEN,   v1::CLAIMED,   v1::IN_PROGRESS, v1::DONE,
                                               v1::FAILED, v1::CANCELLED, v1::BLOCKED,     v1::APPROVAL_REQUIRED};

// The summary of a task has neither description nor result.
v1::Task summary(v1::Task t) {
  t.clear_description();
  t.clear_result();
  return t;
}

class status_builder {
public:
  explicit status_builder(const question& q) : q_(q), me_(*q.viewer) {}

  v1::Answer build() {
    *out_.mutable_session() = shown(q_, me_);
    add_peers();
    add_planner();
    add_unread();
    for (const auto s : counted_statuses)
      out_.add_task_counts(count_tasks(q_, s));
    add_assigned();
    add_claimable();
    add_peer_tasks();
    add_locks();
    add_warnings();
    choose_next();
    v1::Answer a;
    *a.mutable_status() = std::move(out_);
    return a;
  }

private:
  void add_peers() {
    session_filter f;
    f.scope = q_.scope();
    f.adopted = true;
    for (auto& s : q_.rows.rows<v1::Session>(f))
      if (s.id() != me_.id() && q_.sees(s) && static_cast<std::size_t>(out_.peers_size()) < peers_max)
        *out_.add_peers() = shown(q_, std::move(s));
  }

  void add_planner() {
    const auto state = q_.rows.row<v1::ScopeState>(key(q_.scope()));
    if (!state || state->planner_session_id().empty())
      return;
    const auto planner = q_.rows.row<v1::Session>(key(state->planner_session_id()));
    if (!planner || planner->scope() != q_.scope() || !has_token(planner->label(), "role:planner"))
      return;
    out_.set_planner_session_id(planner->id());
    out_.set_planner_label(planner->label());
    out_.set_planner_assigned_at_ms(state->planner_assigned_at_ms());
  }

  void add_unread() {
    message_filter f;
    f.scope = q_.scope();
    f.recipient = me_.id();
    f.read = false;
    f.limit = limits::status_unread_max;
    std::size_t bytes = 0;
    for (auto& m : q_.rows.rows<v1::Message>(f)) {
      bytes += m.ByteSizeLong();
      if (bytes > unread_bytes_max)
        return;
      *out_.add_unread_messages() = std::move(m);
    }
  }

  void add_assigned() {
    task_filter f;
    f.scope = q_.scope();
    f.statuses = {v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED};
    f.assignee = me_.id();
    f.limit = limits::status_assigned_max;
    for (auto& t : q_.rows.rows<v1::Task>(f))
      *out_.add_assigned_tasks() = summary(std::move(t));
  }

  void add_claimable() {
    for (const auto& t : out_.assigned_tasks())
      if (t.status() == v1::CLAIMED && t.harness() != "exec" && has_room_for_claimable())
        *out_.add_claimable_tasks() = t;
    task_filter f;
    f.scope = q_.scope();
    f.statuses = {v1::OPEN};
    f.unassigned = true;
    f.limit = limits::claim_next_candidates_max();
    for (auto& t : q_.rows.rows<v1::Task>(f))
      if (t.harness() != "exec" && q_.sees(t) && has_room_for_claimable())
        *out_.add_claimable_tasks() = summary(std::move(t));
  }

  bool has_room_for_claimable() const { return static_cast<std::size_t>(out_.claimable_tasks_size()) < limits::status_claimable_max; }

  void add_peer_tasks() {
    task_filter f;
    f.scope = q_.scope();
    f.statuses = {v1::CLAIMED, v1::IN_PROGRESS};
    f.limit = limits::page_rows_max;
    for (auto& t : q_.rows.rows<v1::Task>(f))
      if (t.assignee() != me_.id() && q_.sees(t) && static_cast<std::size_t>(out_.active_peer_tasks_size()) < limits::status_peer_tasks_max)
        *out_.add_active_peer_tasks() = summary(std::move(t));
  }

  void add_locks() {
    lock_filter f;
    f.scope = q_.scope();
    f.session_id = me_.id();
    for (auto& l : q_.rows.rows<v1::Lock>(f))
      if (!has_lapsed(l, q_.in)) {
        held_.insert(l.path());
        *out_.add_held_locks() = std::move(l);
      }
    std::set<std::string> seen;
    for_my_tasks([&](const v1::Task& t) {
      for (const auto& file : t.files())
        if (!seen.count(t.id() + '\0' + file)) {
          seen.insert(t.id() + '\0' + file);
          add_blocking(t, file);
        }
    });
  }

  void add_blocking(const v1::Task& mine, const std::string& file) {
    if (static_cast<std::size_t>(out_.blocking_locks_size()) >= limits::status_warnings_max)
      return;
    const auto lock = covering_lock(q_, file);
    if (!lock || lock->session_id() == me_.id())
      return;
    auto shown = lock_view(q_.rows, *lock, &me_, q_.cross, q_.in.now_ms).lock();
    shown.set_path(file);
    shown.set_task_id(mine.id());
    *out_.add_blocking_locks() = std::move(shown);
  }

  // Assigned tasks first; a claimed one is in both lists.
  template <class Visit>
  void for_my_tasks(Visit visit) const {
    for (const auto& t : out_.assigned_tasks())
      visit(t);
    for (const auto& t : out_.claimable_tasks())
      if (t.assignee() != me_.id())
        visit(t);
  }

  // -- warnings ------------------------------------------------------------------------------------

  struct about {
    std::string task_id;
    std::string file;
    std::string session_id;
  };

  void warn(const char* code, const char* severity, const about& what, std::string message) {
    if (static_cast<std::size_t>(out_.warnings_size()) >= limits::status_warnings_max ||
        !warned_.insert(key(code, what.task_id, key(what.file, what.session_id))).second)
      return;
    auto* w = out_.add_warnings();
    w->set_code(code);
    w->set_severity(severity);
    w->set_task_id(what.task_id);
    w->set_file(what.file);
    w->set_session_id(what.session_id);
    w->set_message(std::move(message));
  }

  bool overdue(const v1::Task& t) const { return t.expected_next_update_at_ms() != 0 && t.expected_next_update_at_ms() < q_.in.now_ms; }

  void add_warnings() {
    for_my_tasks([&](const v1::Task& t) { warn_of_mine(t); });
    for (const auto& t : out_.active_peer_tasks())
      if (overdue(t))
        warn("peer_progress_update_overdue", "info", {t.id(), {}, t.assignee()}, "A peer's progress update on \"" + t.title() + "\" is overdue");
    warn_of_idle_locks();
  }

  void warn_of_mine(const v1::Task& t) {
    const bool working = t.status() == v1::IN_PROGRESS && t.assignee() == me_.id();
    if (!t.blocked_reason().empty())
      warn("task_reported_blocked", "warning", {t.id(), {}, {}}, "Task \"" + t.title() + "\" is reported blocked: " + t.blocked_reason());
    if (overdue(t))
      warn("expected_progress_update_overdue", "info", {t.id(), {}, {}}, "The expected progress update on \"" + t.title() + "\" is overdue");
    if (working && out_.peers_size() > 0) {
      if (t.files().empty())
        warn("in_progress_task_without_files", "info", {t.id(), {}, {}},
             "Task \"" + t.title() + "\" names no files, so peers cannot see what it touches");
      for (const auto& f : t.files())
        if (!held_.count(f))
          warn("missing_lock_for_in_progress_task", "warning", {t.id(), f, {}}, "You work on \"" + t.title() + "\" without a lock on " + f);
    }
    for (const auto& l : out_.blocking_locks())
      if (l.task_id() == t.id())
        warn("file_locked_by_peer", "warning", {t.id(), l.path(), l.session_id()}, l.path() + " is locked by a peer");
    for (const auto& peer : out_.active_peer_tasks())
      for (const auto& f : t.files())
        if (std::find(peer.files().begin(), peer.files().end(), f) != peer.files().end())
          warn("active_task_file_overlap", "warning", {t.id(), f, peer.assignee()},
               f + " is also part of a peer's active task \"" + peer.title() + "\"");
  }

  void warn_of_idle_locks() {
    std::set<std::string> needed;
    for (const auto& t : out_.assigned_tasks())
      if (t.status() == v1::CLAIMED || t.status() == v1::IN_PROGRESS)
        needed.insert(t.files().begin(), t.files().end());
    for (const auto& path : held_)
      if (!needed.count(path) && path.rfind("/__swarm/", 0) != 0)
        warn("held_lock_without_active_task_file", "info", {{}, path, {}}, "You hold a lock on " + path + ", which none of your active tasks names");
  }

  // -- what to do next -------------------------------------------------------------------------------

  void next(const char* tool, const char* reason, const v1::Task* task = nullptr) {
    out_.set_next_tool(tool);
    out_.set_next_reason(reason);
    if (task)
      out_.set_next_task_id(task->id());
  }

  const v1::Task* assigned(v1::TaskStatus status) const {
    for (const auto& t : out_.assigned_tasks())
      if (t.status() == status)
        return &t;
    return nullptr;
  }

  void choose_next() {
    if (out_.unread_messages_size() > 0)
      return next("poll_messages", "You have unread messages");
    if (const auto* t = assigned(v1::IN_PROGRESS))
      return next("complete_task", "You have a task in progress", t);
    if (const auto* t = assigned(v1::CLAIMED))
      return next("claim_task", "A task is assigned to you and waits to be started", t);
    if (out_.claimable_tasks_size() > 0)
      return next("claim_next_task", "There is work you can claim", &out_.claimable_tasks(0));
    const auto counts = [&](int i) { return out_.task_counts(i); };
    if (role_of(me_.label()) == "planner" && counts(4) + counts(5) + counts(7) > 0)
      return next("list_tasks", "Tasks have failed, were cancelled or wait for approval");
    next("wait_for_activity", "Nothing to do at the moment");
  }

  const question& q_;
  const v1::Session& me_;
  v1::Status out_;
  std::set<std::string> held_;
  std::set<std::string> warned_;
};

} // namespace

v1::Answer get_status(const question& q) {
  if (!q.viewer)
    return deny(v1::Refusal::NOT_REGISTERED, "Not registered. Call register first.");
  return status_builder(q).build();
}

} // namespace swarm::domain
