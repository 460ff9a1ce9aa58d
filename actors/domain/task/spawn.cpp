// Worker processes: the command request_spawn and what the node's process table reports.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lost_host.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

bool is_loss(std::string_view reason) noexcept { return reason == node_restarted || reason == host_lost; }

namespace {

constexpr std::string_view spawn_failed = "spawn_failed";

v1::Reply spawn_reply(v1::Spawn spawn, bool existing) {
  v1::Reply r;
  *r.mutable_spawn()->mutable_spawn() = std::move(spawn);
  r.mutable_spawn()->set_existing(existing);
  return r;
}

v1::Reply stale(const v1::Spawn& s) { return refuse(v1::Refusal::STALE, "This attempt of the spawn is over or was never asked for", s.id()); }

std::optional<v1::Spawn> find_spawn(const transaction& tx, const std::string& id) {
  auto s = tx.get<v1::Spawn>(key(id));
  if (s && s->scope() != tx.scope())
    s.reset();
  return s;
}

std::optional<v1::Task> task_of(const transaction& tx, const v1::Spawn& s) { return s.task_id().empty() ? std::nullopt : find_task(tx, s.task_id()); }

/// Does this process's end decide the task? Command tasks belong to their spawn, others only while its session holds them.
bool decides(const v1::Spawn& s, const v1::Task& t) { return s.harness() == "exec" && (t.harness() == "exec" || t.assignee() == s.session_id()); }

void end_worker_session(transaction& tx, const v1::Spawn& s, bool announce) {
  if (auto session = tx.get<v1::Session>(key(s.session_id())); session && session->scope() == tx.scope())
    end_session(tx, *session, "instance.deregistered", announce, nullptr);
}

/// The spawn that still answers for this key: the live one, else the last one that ended recently.
std::optional<v1::Spawn> remembered(const transaction& tx, const v1::RequestSpawn& c) {
  spawn_filter f;
  f.scope = tx.scope();
  f.role = c.role();
  f.key = c.key();
  f.live = true;
  if (auto live = tx.find<v1::Spawn>(f); !live.empty())
    return std::move(live.back());
  if (c.restart())
    return std::nullopt;
  f.live = false;
  auto ended = tx.find<v1::Spawn>(f);
  if (ended.empty() || ended.back().ended_at_ms() + limits::spawn_key_retention().count() <= tx.in().now_ms)
    return std::nullopt;
  return std::move(ended.back());
}

// -- reports of the process table ------------------------------------------------------------------

// The row may have run out its lease while the node was down; the worker gets it back under the same id.
void adopt_session(transaction& tx, const v1::Spawn& s, const v1::SpawnStarting& c) {
  auto row = tx.get<v1::Session>(key(s.session_id()));
  auto session = row ? std::move(*row) : worker_session(tx, s, s.session_id());
  session.set_adopted(true);
  session.set_presence(v1::Session::PROCESS);
  session.set_pid(c.pid());
  session.set_pid_start(c.pid_start());
  session.set_lease_until_ms(0);
  session.set_heartbeat_ms(tx.in().now_ms);
  session.clear_reports();
  put_registered(tx, session, true);
  if (s.conversation_id().empty())
    publish_terminal(tx, session, s.id());
  claim_planner(tx, session);
  if (c.token_hash().empty())
    return;
  v1::Credential credential;
  credential.set_token_hash(c.token_hash());
  credential.set_session_id(s.session_id());
  credential.set_created_at_ms(tx.in().now_ms);
  tx.put(std::move(credential));
}

/// Back to REQUESTED under the next attempt, as a new session; the task returns to open for the fabric to take again.
void ask_again(transaction& tx, v1::Spawn& s, const std::string& reason) {
  if (auto task = task_of(tx, s); task && !task->assignee().empty() && task->assignee() == s.session_id())
    reopen_task(tx, std::move(*task), reason);
  end_worker_session(tx, s, false);
  next_attempt(s);
  s.set_retries_left(s.retries_left() - std::min(s.retries_left(), 1u)); // none is left, nor used up, when it is only given to another node
  s.set_reason(reason);
  issue_spawn(tx, s);
}

/// What became of a program that was lost with its host is not known.
bool has_exit_status(const v1::SpawnEnded& c) {
  return !c.never_ran() && !is_loss(c.reason()) && c.reason().compare(0, spawn_failed.size(), spawn_failed) != 0;
}

/// The end of the output as text. A terminal ends its lines with \r\n.
std::string tail_text(const v1::SpawnEnded& c, bool of_terminal) {
  const auto& tail = c.output_tail();
  auto text = to_utf8(std::string_view(tail).substr(tail.size() - std::min(tail.size(), limits::output_tail_bytes_max())));
  for (auto at = of_terminal ? text.find("\r\n") : text.npos; at != text.npos; at = text.find("\r\n", at))
    text.erase(at, 1);
  return text;
}

std::string outcome_json(const v1::SpawnEnded& c, const std::string& how, bool of_terminal) {
  json out = json::object();
  if (has_exit_status(c))
    out["exit_status"] = c.exit_status();
  if (c.signal() != 0)
    out["signal"] = c.signal();
  // Nobody knows how long a program ran that was lost unseen, and one that never ran has no duration.
  if (has_exit_status(c) || c.duration_ms() > 0)
    out["duration_ms"] = c.duration_ms();
  out["output_tail"] = tail_text(c, of_terminal);
  if (c.output_truncated())
    out["output_truncated"] = true;
  if (!c.reason().empty())
    out["reason"] = c.reason();
  if (!how.empty())
    out["detail"] = how;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void finish_command_task(transaction& tx, const v1::Spawn& s, const v1::SpawnEnded& c, const std::string& how) {
  auto task = task_of(tx, s);
  if (!task || is_terminal(task->status()) || !decides(s, *task))
    return;
  const bool succeeded = has_exit_status(c) && c.exit_status() == 0 && c.signal() == 0 && c.reason().empty();
  const auto outcome = outcome_json(c, how, !s.pipes());
  auto done = finish_task(tx, std::move(*task), succeeded ? v1::DONE : v1::FAILED, outcome, s.session_id());
  notify_requester(tx, done.task(), s.session_id(), finished_text(done.task(), "Result", outcome));
  notify_unblocked(tx, done, s.session_id());
}

} // namespace

v1::Reply request_spawn(transaction& tx, const v1::RequestSpawn& c) {
  if (auto r = check_spawn_authority(tx, "request_spawn"))
    return *r;
  if (c.role().empty() || c.key().empty())
    return refuse(v1::Refusal::INVALID, "request_spawn requires a role and a key");
  if (auto known = remembered(tx, c))
    return spawn_reply(std::move(*known), true);
  auto worker = described_worker(c);
  worker.set_directory(c.directory().empty() ? tx.command().caller().directory() : c.directory());
  if (auto r = check_worker(worker, tx.scope()))
    return *r;
  auto task = c.task_id().empty() ? std::nullopt : find_task(tx, c.task_id());
  if (!c.task_id().empty() && !task)
    return refuse(v1::Refusal::NOT_FOUND, "Task not found", c.task_id());
  auto label = make_worker_label(tx, c.role(), c.harness(), dispatch_hash({c.key()}), {}, c.label());
  if (label.refusal)
    return *label.refusal;
  if (auto r = check_grants(tx, c.grants(), c.grant_times()))
    return *r;
  *worker.mutable_grant_ends() = grant_ends(c.grant_times(), tx.in().now_ms);
  if (auto r = check_spawn_quota(tx))
    return *r;
  if (auto r = check_place(worker))
    return *r;
  if (auto r = check_order(tx, worker))
    return *r;
  worker.set_role(c.role());
  worker.set_key(c.key());
  worker.set_intent(c.intent().empty() && task ? task->title() : c.intent());
  worker.set_label(std::move(label.text));
  worker.set_task_id(c.task_id());
  return spawn_reply(order_worker(tx, std::move(worker)), false);
}

v1::Reply spawn_starting(transaction& tx, const v1::SpawnStarting& c) {
  auto s = find_spawn(tx, c.spawn_id());
  if (!s)
    return refuse(v1::Refusal::NOT_FOUND, "Spawn not found", c.spawn_id());
  const bool process_was_lost = s->status() == v1::Spawn::STARTING || s->status() == v1::Spawn::RUNNING;
  if (process_was_lost && c.attempt() == s->attempt() + 1 && s->retries_left() > 0 && s->conversation_id().empty())
    ask_again(tx, *s, node_restarted);
  if (s->status() != v1::Spawn::REQUESTED || c.attempt() != s->attempt() || s->session_id().empty())
    return stale(*s);
  // A conversation goes on after its task.
  if (auto task = task_of(tx, *s); (task && is_terminal(task->status()) && s->conversation_id().empty()) || wants_no_driver(tx, *s))
    return stale(*s);
  s->set_status(v1::Spawn::STARTING);
  s->set_pid(c.pid());
  s->set_pid_start(c.pid_start());
  if (!s->pipes())
    s->set_pty_id(s->id());
  s->set_started_at_ms(tx.in().now_ms);
  s->set_fence(tx.next_fence());
  s->clear_reason();
  adopt_session(tx, *s, c);
  tx.put(*s);
  tx.event("spawn.starting", s->id(), {{"pid", s->pid()}, {"task_id", s->task_id()}, {"session_id", s->session_id()}, {"attempt", s->attempt()}});
  return spawn_reply(std::move(*s), false);
}

v1::Reply spawn_running(transaction& tx, const v1::SpawnRunning& c) {
  auto s = find_spawn(tx, c.spawn_id());
  if (!s)
    return refuse(v1::Refusal::NOT_FOUND, "Spawn not found", c.spawn_id());
  if (c.attempt() == s->attempt() && s->status() == v1::Spawn::RUNNING)
    return spawn_reply(std::move(*s), true);
  if (c.attempt() != s->attempt() || s->status() != v1::Spawn::STARTING)
    return stale(*s);
  auto task = task_of(tx, *s);
  if ((task && task->harness() == "exec" && is_terminal(task->status())) || wants_no_driver(tx, *s))
    return stale(*s);
  s->set_status(v1::Spawn::RUNNING);
  tx.put(*s);
  tx.event("spawn.running", s->id(), {{"task_id", s->task_id()}, {"session_id", s->session_id()}, {"attempt", s->attempt()}});
  const bool free = task && task->assignee().empty() && !is_terminal(task->status());
  if (!s->conversation_id().empty()) {
    driver_takes_task(tx, *s);
  } else if (free && s->harness() == "exec" && task->status() == v1::OPEN) {
    start_task(tx, std::move(*task), s->session_id(), false);
  } else if (free) {
    reserve_task(tx, *task, s->session_id());
    prompt(tx, tx.actor_name(), s->session_id(), instruction(*task, message_of(*task)), task->id());
  }
  return spawn_reply(std::move(*s), false);
}

v1::Reply spawn_ended(transaction& tx, const v1::SpawnEnded& said) {
  auto c = said;
  std::string how; // it was lost, for people
  if (auto loss = read_host_loss(said.reason()); loss.word == host_lost) {
    c.set_reason(loss.word);
    how = loss.how;
  }
  auto s = find_spawn(tx, c.spawn_id());
  if (!s)
    return refuse(v1::Refusal::NOT_FOUND, "Spawn not found", c.spawn_id());
  if (c.attempt() != s->attempt())
    return stale(*s);
  if (!is_live(*s))
    return spawn_reply(std::move(*s), true);
  const json where{{"task_id", s->task_id()}, {"session_id", s->session_id()}, {"attempt", s->attempt()}};
  json payload{{"reason", c.reason()}};
  if (!c.never_ran())
    payload = {{"exit_status", has_exit_status(c) ? json(c.exit_status()) : json(nullptr)}, {"signal", c.signal()}, {"reason", c.reason()}};
  payload.update(where);
  if (!how.empty())
    payload["detail"] = how;
  tx.event(c.never_ran() ? "spawn.failed" : "spawn.ended", s->id(), payload);
  // Only the home of the scope chooses; a node whose program was lost there starts it again.
  const auto placed = !c.next_node_id().empty() && tx.command().principal().node().empty() && s->conversation_id().empty();
  const auto again = is_loss(c.reason()) && s->conversation_id().empty() && (s->retries_left() > 0 || (placed && c.never_ran()));
  if (auto task = task_of(tx, *s); again && !(task && is_terminal(task->status()))) {
    if (placed) {
      s->set_node_id(c.next_node_id());
      s->set_placement(c.next_placement());
    }
    ask_again(tx, *s, c.reason());
    return spawn_reply(std::move(*s), false);
  }
  s->set_status(c.never_ran() ? v1::Spawn::FAILED : v1::Spawn::ENDED);
  s->set_exit_status(c.exit_status());
  s->set_signal(c.signal());
  s->set_reason(c.reason());
  s->set_ended_at_ms(tx.in().now_ms);
  tx.put(*s);
  finish_command_task(tx, *s, c, how);
  driver_ended(tx, *s, !c.never_ran(), c.reason(), how); // before its session ends, which gives back what it works on
  end_worker_session(tx, *s, s->harness() != "exec");
  return spawn_reply(tx.get<v1::Spawn>(key(s->id())).value_or(*s), false);
}

} // namespace swarm::domain
