// Tasks that conversations do: a dispatch that is structured starts one instead of a worker on a terminal.
#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/domain/conversation/rules.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation; // for the names of its states
using prompt_row = v1::Prompt;

/// The task is the agent's as soon as it has read this, so it need not claim it.
std::string task_prompt(const v1::Task& task, const std::string& message) {
  return "Task " + task.id() + " is yours: " + task.title() + "\n\n" + message +
         "\n\nFinish it with complete_task. If you do not, it is done when you stop, and what you say last is its result.";
}

std::optional<v1::Task> unfinished_task(const transaction& tx, const conversation& c) {
  auto task = c.task_id().empty() ? std::nullopt : find_task(tx, c.task_id());
  if (task && is_terminal(task->status()))
    task.reset();
  return task;
}

v1::Prompt queue_task(transaction& tx, conversation& c, const v1::Task& task, const std::string& message) {
  prompt_row said;
  said.set_text(task_prompt(task, message));
  said.set_task_id(task.id());
  return queue_prompt(tx, c, std::move(said));
}

/// Its agent, or its driver, begins once more when that was asked for.
bool is_tried_again(transaction& tx, conversation& c, const v1::Task& task) {
  auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  const auto waiting = underway(tx, c);
  const bool waits = std::any_of(waiting.begin(), waiting.end(), [&](const auto& p) { return is_instruction(c, p); });
  if (!spawn || spawn->retries_left() == 0 || c.state() == conversation::ENDED || !is_here(tx, c) || c.held() || waits || is_queue_full(tx, c))
    return false;
  spawn->set_retries_left(spawn->retries_left() - 1);
  tx.put(*spawn);
  const auto p = queue_task(tx, c, task, message_of(task));
  tx.event("conversation.prompted", c.id(), {{"prompt_id", p.id()}, {"number", p.number()}});
  return true;
}

/// Ends the task in its agent's name, and tells those who wait for it. Mail may come back to this conversation meanwhile.
void finish_work(transaction& tx, conversation& c, v1::Task task, v1::TaskStatus status, const std::string& text) {
  const auto session = c.session_id();
  put_changed(tx, c);
  auto done = finish_task(tx, std::move(task), status, text, session);
  notify_requester(tx, done.task(), session, finished_text(done.task(), "Result", text));
  notify_unblocked(tx, done, session);
  c = find_conversation(tx, c.id()).value_or(c);
}

/// What a person has let it do for other work, it would do for the next task as well. One that asks a person takes whatever the task is given.
bool may_have(const transaction& tx, conversation c, conversation::Permissions permissions) {
  end_bypass(c, tx.in().now_ms);
  return (c.permissions() == conversation::ASK || c.permissions() == permissions) && c.allowed().empty() && c.wished_mode().empty();
}

/// Nobody is to do a task that is over.
void take_back_instruction(transaction& tx, const conversation& c) {
  for (auto& p : underway(tx, c))
    if (p.state() == prompt_row::QUEUED && is_instruction(c, p))
      move_prompt(tx, p, prompt_row::UNDELIVERABLE, "its task is over");
}

/// Its agent has been told to do a task, and nobody wants it done any more.
void stop_working(transaction& tx, conversation& c) {
  take_back_instruction(tx, c);
  const auto waiting = underway(tx, c);
  const bool is_on_its_way = std::any_of(waiting.begin(), waiting.end(), [&](const auto& p) { return is_given(p) && is_instruction(c, p); });
  if (!c.open_turn().empty() || is_on_its_way) {
    c.set_interrupts(c.interrupts() + 1);
    tx.event("conversation.interrupted", c.id(), {{"turn", c.open_turn()}, {"interrupts", c.interrupts()}});
  }
  put_changed(tx, c);
}

/// A retry of the task asks for the same permissions.
void note_permissions(transaction& tx, const std::string& task_id, conversation::Permissions permissions) {
  auto task = find_task(tx, task_id);
  if (!task || task->permissions() == permissions)
    return;
  task->set_permissions(permissions);
  tx.put(std::move(*task));
}

void wait_on(const transaction& tx, conversation& c) { c.set_background_until_ms(tx.in().now_ms + limits::conversation_background().count()); }

} // namespace

bool is_instruction(const conversation& c, const prompt_row& p) { return !c.task_id().empty() && p.task_id() == c.task_id(); }

std::optional<v1::Task> task_at_work(const transaction& tx, const conversation& c) {
  auto task = unfinished_task(tx, c);
  const bool is_its = task && !c.session_id().empty() && task->assignee() == c.session_id();
  return is_its && (task->status() == v1::CLAIMED || task->status() == v1::IN_PROGRESS) ? task : std::nullopt;
}

void begin_task(transaction& tx, const conversation& c) {
  auto task = task_at_work(tx, c);
  if (task && task->status() == v1::CLAIMED)
    start_task(tx, std::move(*task), c.session_id(), false);
}

bool waits_on(const conversation& c) noexcept { return c.background_until_ms() != 0; }

void settle_task(transaction& tx, conversation& c, turn_end how, const std::string& text) {
  c.clear_background_until_ms();
  auto task = task_at_work(tx, c);
  // A driver that never ran has taken no task.
  if (!task && how == turn_end::failed)
    if (task = unfinished_task(tx, c); task && (!task->assignee().empty() || task->status() != v1::OPEN || has_driver(tx, c)))
      task.reset();
  if (!task || how == turn_end::interrupted)
    return;
  // Something was said meanwhile or runs beside its turns, and the agent goes on.
  if (how == turn_end::finished && (c.background() > 0 || !underway(tx, c).empty()))
    return wait_on(tx, c);
  if (how == turn_end::failed && is_tried_again(tx, c, *task))
    return;
  if (how == turn_end::failed)
    take_back_instruction(tx, c);
  finish_work(tx, c, std::move(*task), how == turn_end::finished ? v1::DONE : v1::FAILED, text);
}

void settle_lost_prompt(transaction& tx, conversation& c, const prompt_row& p) {
  if (c.held())
    return; // whoever holds it goes on
  if (is_instruction(c, p))
    return settle_task(tx, c, turn_end::failed, "its agent did not get the task: " + p.reason());
  if (!waits_on(c))
    return;
  if (p.state() == prompt_row::UNKNOWN)
    return settle_task(tx, c, turn_end::failed, "its agent ended before it told whether it has what was said to it last");
  settle_task(tx, c, turn_end::finished, c.last_text());
}

void take_background(transaction& tx, conversation& c, std::uint32_t running) {
  c.set_background(running);
  if (running == 0 && waits_on(c))
    c.set_background_until_ms(std::min(c.background_until_ms(), tx.in().now_ms + limits::conversation_last_turn.count()));
}

void end_background(transaction& tx, conversation& c, const std::string& why) {
  const auto running = c.background();
  c.clear_background();
  if (!waits_on(c))
    return;
  if (running == 0 || !underway(tx, c).empty())
    return settle_task(tx, c, turn_end::finished, c.last_text());
  settle_task(tx, c, turn_end::failed, "its agent ended while it waited for what runs beside its turns" + (why.empty() ? "" : ": " + why));
}

bool settle_background(transaction& tx, conversation& c) {
  if (!waits_on(c) || c.background_until_ms() > tx.in().now_ms)
    return false;
  c.clear_background_until_ms();
  const bool is_told_more = !underway(tx, c).empty();
  if (is_told_more && unfinished_task(tx, c))
    wait_on(tx, c);
  else if (auto task = task_at_work(tx, c); task && !is_told_more)
    finish_work(tx, c, std::move(*task), v1::DONE,
                c.background() == 0 ? c.last_text()
                                    : c.last_text() + "\n\n(" + std::to_string(c.background()) + " of its tasks still run beside its turns)");
  put_changed(tx, c);
  return true;
}

v1::Spawn order_conversation(transaction& tx, v1::Spawn driver, const v1::Task& task, const std::string& message,
                             conversation::Permissions permissions, bool deferred) {
  conversation c;
  c.set_id(tx.in().new_uuid());
  c.set_scope(tx.scope());
  c.set_harness(driver.harness());
  c.set_title(task.title());
  c.set_directory(driver.directory());
  c.set_task_id(task.id());
  put_permissions(tx, c, permissions, 0);
  note_permissions(tx, task.id(), c.permissions());
  *c.mutable_created_by() = speaker(tx);
  c.set_created_at_ms(tx.in().now_ms);
  const auto first = queue_task(tx, c, task, message);
  driver.set_pipes(true);
  driver.set_conversation_id(c.id());
  auto ordered = order_worker(tx, std::move(driver), deferred);
  if (deferred)
    c.set_reason("its task waits");
  put_started(tx, c, ordered, !deferred, first);
  return ordered;
}

std::optional<v1::Reply> check_conversation_order(const transaction& tx, const v1::Spawn& driver) {
  if (!driver.node_id().empty() && driver.node_id() != tx.in().node_id)
    return refuse(v1::Refusal::INVALID, "A structured worker runs on the node that has the scope. Leave --structured or --on out.");
  if (auto none = check_driven(driver.harness()))
    return none;
  return check_room_for_conversation(tx);
}

void deferred_driver_ordered(transaction& tx, const v1::Spawn& driver) {
  auto c = driver.conversation_id().empty() ? std::nullopt : find_conversation(tx, driver.conversation_id());
  if (!c)
    return;
  c->clear_reason();
  follow_driver(*c, driver);
  put_changed(tx, *c);
}

void driver_dropped(transaction& tx, const v1::Spawn& driver) {
  auto c = driver.conversation_id().empty() ? std::nullopt : find_conversation(tx, driver.conversation_id());
  if (c && c->state() != conversation::ENDED)
    end_conversation(tx, *c, driver.reason());
}

void driver_takes_task(transaction& tx, const v1::Spawn& driver) {
  const auto c = find_conversation(tx, driver.conversation_id());
  auto task = c ? unfinished_task(tx, *c) : std::nullopt;
  if (task && task->assignee().empty() && c->generation() == driver.attempt())
    reserve_task(tx, std::move(*task), driver.session_id());
}

bool waits_for_task(const transaction& tx, const std::string& conversation_id, conversation::Permissions permissions) {
  const auto c = find_conversation(tx, conversation_id);
  if (!c || c->state() != conversation::IDLE || c->held() || c->task_id().empty())
    return false;
  return may_have(tx, *c, permissions) && !unfinished_task(tx, *c) && underway(tx, *c).empty();
}

void instruct_conversation(transaction& tx, const std::string& conversation_id, const v1::Task& task, const std::string& message,
                           std::optional<conversation::Permissions> permissions) {
  auto c = find_conversation(tx, conversation_id);
  if (!c)
    return;
  c->set_task_id(task.id());
  if (permissions) {
    put_permissions(tx, *c, *permissions, 0);
    note_permissions(tx, task.id(), c->permissions());
  }
  const auto p = queue_task(tx, *c, task, message);
  tx.event("conversation.prompted", c->id(), {{"prompt_id", p.id()}, {"number", p.number()}});
  go_on(tx, *c, true);
  put_changed(tx, *c);
}

std::optional<conversation> conversation_for_task(const transaction& tx, const v1::Task& task) {
  spawn_filter f;
  f.scope = tx.scope();
  f.task_id = task.id();
  f.of_conversation = true;
  for (const auto& driver : tx.find<v1::Spawn>(f))
    if (auto c = find_conversation(tx, driver.conversation_id()); c && c->task_id() == task.id() && c->state() != conversation::ENDED)
      return c;
  return std::nullopt;
}

void leave_task(transaction& tx, const v1::Task& task) {
  // Without an assignee its driver is being started.
  auto c = task.assignee().empty() ? conversation_for_task(tx, task) : find_conversation(tx, conversation_at(tx, task.assignee()));
  if (!c || c->task_id() != task.id())
    return;
  const bool has_ended = end_task_permissions(tx, *c);
  const bool is_its_own = !task.assignee().empty() && task.assignee() == tx.actor_name();
  if (task.status() == v1::CANCELLED && !is_its_own)
    stop_working(tx, *c);
  else if (has_ended)
    put_changed(tx, *c);
}

std::int64_t patience_ms(const transaction& tx, const std::string& conversation_id) {
  const auto c = find_conversation(tx, conversation_id);
  return c && unfinished_task(tx, *c) ? limits::conversation_task_approval().count() : 0;
}

} // namespace swarm::domain
