// What people ask of conversations, but for words to their agents and for permissions.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/conversation/rules.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/task/spawn_rules.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation; // for the names of its states
using prompt_row = v1::Prompt;

/// Role of the workers that drive an agent.
constexpr const char* driver_role = "conversation";

/// The driver's spawn, which is asked for with the first prompt.
struct ordered_driver {
  v1::Spawn spawn;
  std::optional<v1::Reply> refusal;
};
ordered_driver driver_for(const transaction& tx, const v1::StartConversation& s, const std::string& id) {
  ordered_driver out;
  auto& spawn = out.spawn;
  spawn.set_harness(s.harness());
  *spawn.mutable_argv() = s.argv();
  spawn.set_directory(s.directory().empty() ? tx.command().caller().directory() : s.directory());
  spawn.set_node_id(s.node_id());
  if (!is_agent(s.harness())) {
    out.refusal = refuse(v1::Refusal::INVALID, "A conversation needs an agent, and \"" + s.harness() + "\" is none. Name one: claude.");
    return out;
  }
  if ((out.refusal = check_driven(s.harness())))
    return out;
  if ((out.refusal = check_worker(spawn, tx.scope())))
    return out;
  auto label = make_worker_label(tx, driver_role, s.harness(), dispatch_hash({id}), {}, s.label()); // titles are not for every session
  if ((out.refusal = std::move(label.refusal)))
    return out;
  spawn.set_label(std::move(label.text));
  spawn.set_role(driver_role);
  spawn.set_key(id);
  spawn.set_pipes(true);
  spawn.set_conversation_id(id);
  return out;
}

/// The order of a driver that nobody needs yet: the first prompt makes it attempt 1.
void put_aside(transaction& tx, v1::Spawn& spawn) {
  spawn.set_status(v1::Spawn::ENDED);
  spawn.set_attempt(0);
  spawn.clear_intent();
  spawn.set_ended_at_ms(tx.in().now_ms);
  tx.put(spawn);
}

/// Nobody is to do its task once more.
void drop_retries(transaction& tx, const conversation& c) {
  auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  if (!spawn || spawn->retries_left() == 0)
    return;
  spawn->set_retries_left(0);
  tx.put(*spawn);
}

void stop_waiting(transaction& tx, const conversation& c, const std::string& why) {
  // What the driver may have is told by the driver, or is unknown when that ends.
  for (auto& p : tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c.id(), .open = true}))
    if (p.state() == prompt_row::QUEUED)
      move_prompt(tx, p, prompt_row::UNDELIVERABLE, why);
}

/// Nobody has any of it yet, so there is nothing that ends.
v1::Reply hold_queue(transaction& tx, conversation c) {
  c.set_held(true);
  if (c.state() == conversation::STARTING)
    c.set_state(conversation::SUSPENDED); // the next prompt that its driver may give starts the agent
  put_changed(tx, c);
  tx.event("conversation.interrupted", c.id(), {{"turn", ""}, {"interrupts", c.interrupts()}});
  return conversation_reply(std::move(c));
}

/// With all that was said; what it has cost stays.
void forget_conversation(transaction& tx, const conversation& c) {
  tx.erase(c);
  if (const auto spawn = tx.get<v1::Spawn>(key(c.spawn_id())))
    tx.erase(*spawn);
  // What does not fit has no text any more, but for a few, and the sweep takes it.
  auto prompts = tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c.id()});
  std::partition(prompts.begin(), prompts.end(), [](const prompt_row& p) { return !p.text().empty(); });
  for (const auto& p : prompts)
    if (tx.has_room(row_bytes))
      tx.erase(p);
  forget_agent_requests(tx, c.id());
  tx.event("conversation.deleted", c.id(), json::object());
}

/// The oldest of those that have ended goes when there are too many, and with them what was said.
void forget_oldest_ended(transaction& tx) {
  const conversation_filter ended{.scope = tx.scope(), .open = false};
  const auto all = tx.count<conversation>(ended);
  if (all < limits::conversations_ended_max)
    return;
  auto oldest_first = ended;
  oldest_first.limit = all - limits::conversations_ended_max + 1;
  for (const auto& c : tx.find<conversation>(oldest_first))
    if (!has_driver(tx, c) && tx.has_room(64 * row_bytes))
      forget_conversation(tx, c);
}

} // namespace

bool is_here(const transaction& tx, const v1::Conversation& c) { return c.node_id() == tx.in().node_id; }

std::optional<v1::Reply> check_here(const transaction& tx, const v1::Conversation& c) {
  if (is_here(tx, c))
    return std::nullopt;
  return refuse(v1::Refusal::STATE,
                "The agent of this conversation and what was said are on the node " + c.node_id() +
                  "; this node has a copy of the row. Go on there, or delete the copy: swarmctl chat delete " + c.id(),
                c.id());
}

bool settle_foreign(transaction& tx, conversation& c) {
  if (is_here(tx, c) || c.state() == conversation::LOST || c.state() == conversation::ENDED)
    return false;
  const auto why = "its log and its agent are on the node " + c.node_id() + ", and this store is a copy";
  stop_waiting(tx, c, why);
  if (auto spawn = tx.get<v1::Spawn>(key(c.spawn_id())); spawn && is_live(*spawn)) {
    spawn->set_status(v1::Spawn::ENDED);
    spawn->set_reason(host_lost);
    spawn->set_ended_at_ms(tx.in().now_ms);
    tx.put(*spawn);
    tx.event("spawn.ended", spawn->id(), {{"reason", host_lost}, {"task_id", spawn->task_id()}, {"attempt", spawn->attempt()}});
    if (auto session = tx.get<v1::Session>(key(spawn->session_id())); session && !spawn->session_id().empty())
      end_session(tx, *session, "instance.deregistered", false, nullptr);
  }
  lose_driver(tx, c, why);
  c.set_state(conversation::LOST);
  c.set_held(false);
  c.set_reason(why);
  put_changed(tx, c);
  return true;
}

std::optional<v1::Reply> check_room_for_conversation(const transaction& tx) {
  if (tx.count<conversation>({.scope = tx.scope(), .open = true}) < limits::conversations_open_max())
    return std::nullopt;
  return refuse(v1::Refusal::LIMIT, std::to_string(limits::conversations_open_max()) + " conversations have not ended. Stop some first.");
}

std::optional<v1::Reply> check_driven(const std::string& harness) {
  if (is_driven(harness))
    return std::nullopt;
  return refuse(v1::Refusal::INVALID, "There is no driver for conversations with " + harness +
                                        " yet. Take claude, or a worker on a terminal: " + "swarmctl dispatch TITLE --harness " + harness);
}

void put_started(transaction& tx, conversation& c, const v1::Spawn& spawn, bool asked_for, const std::optional<prompt_row>& first) {
  c.set_spawn_id(spawn.id());
  c.set_node_id(spawn.node_id());
  c.set_state(conversation::SUSPENDED);
  if (asked_for)
    follow_driver(c, spawn);
  put_changed(tx, c);
  tx.event("conversation.started", c.id(), {{"harness", c.harness()}, {"spawn_id", c.spawn_id()}, {"node_id", c.node_id()}});
  if (first)
    tx.event("conversation.prompted", c.id(), {{"prompt_id", first->id()}, {"number", first->number()}});
}

void end_driver_unstarted(transaction& tx, const conversation& c, const std::string& reason) {
  auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  if (!spawn || spawn->status() != v1::Spawn::REQUESTED)
    return; // its node sees that the conversation has ended
  spawn->set_status(v1::Spawn::FAILED);
  spawn->set_reason(reason);
  spawn->set_ended_at_ms(tx.in().now_ms);
  tx.put(*spawn);
  tx.event("spawn.failed", spawn->id(), {{"reason", spawn->reason()}, {"task_id", spawn->task_id()}, {"attempt", spawn->attempt()}});
  if (auto session = tx.get<v1::Session>(key(spawn->session_id())); session && !spawn->session_id().empty())
    end_session(tx, *session, "instance.deregistered", false, nullptr);
}

void end_conversation(transaction& tx, conversation& c, const std::string& reason) {
  stop_waiting(tx, c, "the conversation was stopped");
  drop_retries(tx, c);
  settle_task(tx, c, turn_end::failed, conversation_stopped);
  forget_oldest_ended(tx);
  c.set_state(conversation::ENDED);
  c.set_held(false);
  c.set_reason(reason);
  c.set_ended_at_ms(tx.in().now_ms);
  withdraw_agent_requests(tx, c.id(), "the conversation was stopped", false);
  put_changed(tx, c);
  tx.event("conversation.ended", c.id(), {{"harness", c.harness()}});
}

v1::Reply start_conversation(transaction& tx, const v1::StartConversation& s) {
  if (auto refused = check_spawn_authority(tx, "start_conversation"))
    return *refused;
  if (!s.prompt().empty() && trimmed(s.prompt()).empty())
    return refuse(v1::Refusal::INVALID, "The prompt is blank. Say something, or leave it out.");
  conversation c;
  c.set_id(tx.in().new_uuid());
  if (auto wrong = put_first_permissions(tx, c, s))
    return *wrong;
  auto driver = driver_for(tx, s, c.id());
  if (driver.refusal)
    return *driver.refusal;
  if (auto full = check_room_for_conversation(tx))
    return *full;
  if (auto full = check_spawn_quota(tx))
    return *full;
  c.set_scope(tx.scope());
  c.set_harness(s.harness());
  c.set_title(s.title());
  c.set_directory(driver.spawn.directory());
  *c.mutable_created_by() = speaker(tx);
  c.set_created_at_ms(tx.in().now_ms);
  std::optional<prompt_row> first;
  if (!s.prompt().empty()) {
    prompt_row said;
    said.set_text(s.prompt());
    first = queue_prompt(tx, c, std::move(said));
  }
  auto spawn = order_worker(tx, std::move(driver.spawn), !first);
  if (!first)
    put_aside(tx, spawn);
  put_started(tx, c, spawn, first.has_value(), first);
  return conversation_reply(std::move(c), std::move(first));
}

v1::Reply interrupt_conversation(transaction& tx, const v1::InterruptConversation& i) {
  auto c = find_conversation(tx, i.conversation_id());
  if (!c)
    return no_conversation(i.conversation_id());
  // Also what the driver may have, but no turn has yet.
  const auto waiting = tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c->id(), .retired = false});
  if (c->open_turn().empty() && std::none_of(waiting.begin(), waiting.end(), [](const auto& p) { return is_given(p); }))
    return waiting.empty() || c->held() ? conversation_reply(std::move(*c)) : hold_queue(tx, std::move(*c));
  c->set_interrupts(c->interrupts() + 1);
  c->set_held(true);
  c->clear_background_until_ms(); // its task is left to a person
  put_changed(tx, *c);
  tx.event("conversation.interrupted", c->id(), {{"turn", c->open_turn()}, {"interrupts", c->interrupts()}});
  return conversation_reply(std::move(*c));
}

v1::Reply resume_conversation(transaction& tx, const v1::ResumeConversation& r) {
  auto c = find_conversation(tx, r.conversation_id());
  if (!c)
    return no_conversation(r.conversation_id());
  if (auto elsewhere = check_here(tx, *c))
    return *elsewhere;
  if (c->state() == conversation::ENDED) {
    if (has_driver(tx, *c))
      return refuse(v1::Refusal::STATE, "Its agent has not ended yet. Try again in a moment.", c->id());
    if (auto full = check_room_for_conversation(tx))
      return *full;
    c->set_state(conversation::SUSPENDED);
    c->clear_ended_at_ms();
    c->clear_reason();
  } else if (!c->held() && c->state() != conversation::SUSPENDED && c->state() != conversation::LOST) {
    return conversation_reply(std::move(*c));
  }
  go_on(tx, *c, is_persons(speaker(tx)));
  if (c->held())
    return refuse(v1::Refusal::STATE, "Its queue waits for a person, who resumes it: swarmctl chat resume " + c->id(), c->id());
  put_changed(tx, *c);
  tx.event("conversation.resumed", c->id(), json::object());
  return conversation_reply(std::move(*c));
}

v1::Reply stop_conversation(transaction& tx, const v1::StopConversation& s) {
  auto c = find_conversation(tx, s.conversation_id());
  if (!c)
    return no_conversation(s.conversation_id());
  if (c->state() == conversation::ENDED)
    return conversation_reply(std::move(*c));
  end_driver_unstarted(tx, *c, "the conversation was stopped"); // first: a task that a driver may still take does not end
  end_conversation(tx, *c, s.reason());
  return conversation_reply(std::move(*c));
}

v1::Reply rename_conversation(transaction& tx, const v1::RenameConversation& r) {
  auto c = find_conversation(tx, r.conversation_id());
  if (!c)
    return no_conversation(r.conversation_id());
  if (c->title() == r.title())
    return conversation_reply(std::move(*c));
  c->set_title(r.title());
  put_changed(tx, *c);
  // Events are for all sessions, and what people call their conversations is not.
  tx.event("conversation.renamed", c->id(), json::object());
  return conversation_reply(std::move(*c));
}

v1::Reply delete_conversation(transaction& tx, const v1::DeleteConversation& d) {
  v1::Reply done;
  done.mutable_done();
  const auto c = find_conversation(tx, d.conversation_id());
  if (!c)
    return done;
  const bool rests = c->state() == conversation::ENDED || !is_here(tx, *c) || (c->state() == conversation::SUSPENDED && c->queued() == 0);
  if (!rests || has_driver(tx, *c))
    return refuse(v1::Refusal::STATE,
                  c->state() == conversation::ENDED ? "Its agent has not ended yet. Try again in a moment."
                                                    : "The conversation goes on. Stop it first: swarmctl chat stop " + c->id(),
                  c->id());
  forget_conversation(tx, *c);
  return done;
}

} // namespace swarm::domain
