// Tasks as lists, singly and as the snapshot that agents bootstrap from.
#include "actors/domain/query/rules.hpp"

namespace swarm::domain {

namespace {

// Above this many rows the viewer gets the scope's count: deciding row by row would make every status call as long as the scope.

constexpr v1::TaskStatus terminal_statuses[] = {v1::DONE, v1::FAILED, v1::CANCELLED};

// A position is the row it stands behind, reduced to what orders it.
std::string task_position(const v1::Task& t) {
  v1::Task at;
  at.set_priority(t.priority());
  at.set_created_at_ms(t.created_at_ms());
  at.set_id(t.id());
  return at.SerializeAsString();
}

std::optional<v1::Task> task_at(const std::string& position) {
  v1::Task at;
  if (!at.ParseFromString(position) || at.id().empty())
    return std::nullopt;
  return at;
}

/// Adds visible rows in list order, at most `rows_max`. Says so when rows are left for another reason.
void add_tasks(const question& q, v1::Snapshot& out, task_filter f, std::size_t rows_max, std::size_t& bytes) {
  if (bytes >= limits::page_encoded_bytes_max) {
    f.limit = 1;
    if (!q.rows.rows<v1::Task>(f).empty())
      out.set_truncated(true);
    return;
  }
  const auto before = static_cast<std::size_t>(out.tasks_size());
  page_start start;
  start.size = rows_max;
  auto more = fill_page<v1::Task>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after = task_at(after);
      f.limit = limit;
      return q.rows.rows<v1::Task>(f);
    },
    task_position,
    [&](v1::Task t) -> std::size_t {
      if (!q.sees(t) || bytes >= limits::page_encoded_bytes_max)
        return 0;
      const auto size = t.ByteSizeLong() + 4;
      bytes += size;
      *out.add_tasks() = std::move(t);
      return size;
    });
  const bool as_many_as_wanted = out.tasks_size() - before == rows_max && rows_max < limits::page_examined_rows_max;
  if (more && !as_many_as_wanted)
    out.set_truncated(true);
}

v1::Answer one_task(v1::Task task) {
  v1::Answer a;
  *a.mutable_task() = std::move(task);
  return a;
}

} // namespace

v1::Answer list_tasks(const question& q, const v1::ListTasks& c) {
  const char* list = c.by_creation() ? "tasks-by-creation" : "tasks";
  const auto start = read_page(list, c.page());
  if (!start.valid || (!start.position.empty() && !task_at(start.position)))
    return bad_page();
  v1::Answer a;
  auto& out = *a.mutable_tasks();
  task_filter f;
  f.scope = q.scope();
  for (const auto s : c.statuses())
    f.statuses.push_back(static_cast<v1::TaskStatus>(s));
  f.assignee = c.assignee();
  f.requester = c.requester();
  f.by_creation = c.by_creation();
  const auto next = fill_page<v1::Task>(
    start,
    [&](const std::string& after, std::size_t limit) {
      f.after = task_at(after);
      f.limit = limit;
      return q.rows.rows<v1::Task>(f);
    },
    task_position,
    [&](v1::Task t) -> std::size_t {
      if (!q.sees(t))
        return 0;
      const auto bytes = t.ByteSizeLong() + 4;
      *out.add_tasks() = std::move(t);
      return bytes;
    });
  if (next)
    out.mutable_page()->set_token(page_token(list, *next));
  return a;
}

v1::Answer get_task(const question& q, const v1::GetTask& c) {
  auto task = q.rows.row<v1::Task>(key(c.task_id()));
  if (!task || task->scope() != q.scope() || !q.sees(*task))
    return deny(v1::Refusal::NOT_FOUND, "Task not found", c.task_id());
  return one_task(std::move(*task));
}

namespace {

v1::Answer newest_task(const question& q) {
  task_filter f{.scope = q.scope(), .by_creation = true, .newest = true, .limit = q.viewer && !q.cross ? limits::page_rows_max : 1};
  auto newest = q.rows.rows<v1::Task>(f);
  auto seen = std::find_if(newest.rbegin(), newest.rend(), [&](const auto& t) { return q.sees(t); });
  if (seen == newest.rend())
    return deny(v1::Refusal::NOT_FOUND, "There is no task in scope " + q.scope() + " yet");
  return one_task(std::move(*seen));
}

std::string candidates(const std::vector<v1::Task>& tasks) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size() && i < limits::candidates_shown_max; ++i)
    text += (i == 0 ? "" : ", ") + tasks[i].id() + " (" + tasks[i].title() + ")";
  return tasks.size() > limits::candidates_shown_max ? text + ", …" : text;
}

} // namespace

v1::Answer find_task(const question& q, const v1::FindTask& c) {
  const auto& who = c.who();
  if (who.empty())
    return newest_task(q);
  if (auto task = q.rows.row<v1::Task>(key(who)); task && task->scope() == q.scope() && q.sees(*task))
    return one_task(std::move(*task));
  auto none = [&](const std::string& why) { return deny(v1::Refusal::NOT_FOUND, "No task of scope " + q.scope() + " has the id " + who + why, who); };
  if (who.size() < limits::id_prefix_min)
    return none("; a beginning of an id has at least " + std::to_string(limits::id_prefix_min) + " characters");
  task_filter f{.scope = q.scope(), .id_prefix = who, .limit = limits::page_rows_max};
  auto found = q.rows.rows<v1::Task>(f);
  std::erase_if(found, [&](const auto& t) { return !q.sees(t); });
  if (found.size() == 1)
    return one_task(std::move(found.front()));
  if (found.empty())
    return none(", and none begins so; see: swarmctl tasks");
  return deny(v1::Refusal::CONFLICT, "Several tasks begin with " + who + ": " + candidates(found), who);
}

std::uint64_t count_tasks(const question& q, v1::TaskStatus status) {
  task_filter f;
  f.scope = q.scope();
  f.statuses = {status};
  const auto total = q.rows.total<v1::Task>(f);
  if (!q.viewer || q.cross || total == 0 || total > limits::exact_count_rows_max)
    return total;
  const auto rows = q.rows.rows<v1::Task>(f);
  return static_cast<std::uint64_t>(std::count_if(rows.begin(), rows.end(), [&](const auto& t) { return q.sees(t); }));
}

v1::Answer task_snapshot(const question& q, const v1::TaskSnapshot& c) {
  v1::Answer a;
  auto& out = *a.mutable_snapshot();
  out.set_done(count_tasks(q, v1::DONE));
  out.set_failed(count_tasks(q, v1::FAILED));
  out.set_cancelled(count_tasks(q, v1::CANCELLED));
  std::size_t bytes = 0;
  task_filter f;
  f.scope = q.scope();
  f.statuses = {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED};
  add_tasks(q, out, f, limits::page_examined_rows_max, bytes);
  const std::size_t terminal_max = c.include_terminal() ? limits::page_examined_rows_max : c.terminal_limit();
  for (const auto status : terminal_statuses) {
    f.statuses = {status};
    if (terminal_max > 0)
      add_tasks(q, out, f, terminal_max, bytes);
  }
  return a;
}

} // namespace swarm::domain
