// What people ask of conversations: the commands from start_conversation to delete_conversation.
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
constexpr std::size_t title_begin_bytes = 96;
/// Room that a row, its key and its event take besides its texts.
constexpr std::size_t row_bytes = 1 * limits::kib;

/// The first line that says something.
std::string title_from(std::string_view prompt) {
  const auto begin = prompt.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return {};
  auto line = prompt.substr(begin);
  line = line.substr(0, line.find_first_of("\r\n"));
  std::string out{utf8_prefix(line, title_begin_bytes)};
  std::replace(out.begin(), out.end(), '\0', ' ');
  return out;
}

/// In whose name it is said: the session's, also when the operator acts as it.
v1::Principal speaker(const transaction& tx) {
  auto who = tx.command().principal();
  if (const auto me = tx.acting_session(); me && who.kind() != v1::Principal::SESSION) {
    who.Clear();
    who.set_kind(v1::Principal::SESSION);
    who.set_id(me->id());
  }
  return who;
}

v1::Reply ended(const conversation& c) {
  return refuse(v1::Refusal::STATE, "The conversation was stopped. Resume it first: swarmctl chat resume " + c.id(), c.id());
}

std::optional<v1::Reply> check_open(const transaction& tx) {
  if (tx.count<conversation>({.scope = tx.scope(), .open = true}) < limits::conversations_open_max())
    return std::nullopt;
  return refuse(v1::Refusal::LIMIT, std::to_string(limits::conversations_open_max()) + " conversations have not ended. Stop some first.");
}

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
    out.refusal = refuse(v1::Refusal::INVALID, "A conversation needs an agent, and \"" + s.harness() + "\" is none. Known: " + harness_names() + ".");
    return out;
  }
  if ((out.refusal = check_worker(spawn, tx.scope())))
    return out;
  auto label = make_worker_label(tx, driver_role, s.harness(), dispatch_hash({id}), utf8_prefix(s.title(), title_begin_bytes), s.label());
  if ((out.refusal = std::move(label.refusal)))
    return out;
  spawn.set_label(std::move(label.text));
  spawn.set_role(driver_role);
  spawn.set_key(id);
  spawn.set_pipes(true);
  spawn.set_conversation_id(id);
  return out;
}

v1::Prompt queue_prompt(transaction& tx, conversation& c, const std::string& text) {
  c.set_prompts(c.prompts() + 1);
  prompt_row p;
  p.set_id(tx.in().new_uuid());
  p.set_scope(tx.scope());
  p.set_conversation_id(c.id());
  p.set_number(c.prompts());
  p.set_text(text);
  p.set_state(prompt_row::QUEUED);
  *p.mutable_requested_by() = speaker(tx);
  p.set_created_at_ms(tx.in().now_ms);
  p.set_changed_at_ms(tx.in().now_ms);
  tx.put(p);
  if (c.title().empty())
    c.set_title(title_from(text));
  return p;
}

/// A person wants the queue to go on: the agent is started if none runs, and as often as for a new one.
void go_on(transaction& tx, conversation& c) {
  c.set_held(false);
  c.set_restarts(0);
  if (c.state() != conversation::SUSPENDED && c.state() != conversation::LOST)
    return;
  if (tx.count<prompt_row>({.scope = tx.scope(), .conversation_id = c.id(), .open = true}) == 0)
    return;
  c.clear_reason();
  if (!has_driver(tx, c))
    return start_driver(tx, c);
  c.set_state(conversation::STARTING); // the driver starts its agent, or its end starts the next one
}

/// Sessions speak to other agents only, so that none answers itself for ever.
std::optional<v1::Reply> check_speaker(const transaction& tx, const conversation& c) {
  const auto me = tx.acting_session();
  if (!me || conversation_of(tx.base(), *me) != c.id())
    return std::nullopt;
  return refuse(v1::Refusal::FORBIDDEN, "A session does not prompt the conversation that it is itself", c.id());
}

/// The order of a driver that nobody needs yet: the first prompt makes it attempt 1.
void put_aside(transaction& tx, v1::Spawn& spawn) {
  spawn.set_status(v1::Spawn::ENDED);
  spawn.set_attempt(0);
  spawn.clear_intent();
  spawn.set_ended_at_ms(tx.in().now_ms);
  tx.put(spawn);
}

void end_driver_unstarted(transaction& tx, const conversation& c) {
  auto spawn = tx.get<v1::Spawn>(key(c.spawn_id()));
  if (!spawn || spawn->status() != v1::Spawn::REQUESTED)
    return; // its node sees that the conversation has ended
  spawn->set_status(v1::Spawn::FAILED);
  spawn->set_reason("the conversation was stopped");
  spawn->set_ended_at_ms(tx.in().now_ms);
  tx.put(*spawn);
  tx.event("spawn.failed", spawn->id(), {{"reason", spawn->reason()}, {"task_id", ""}, {"attempt", spawn->attempt()}});
  if (auto session = tx.get<v1::Session>(key(spawn->session_id())); session && !spawn->session_id().empty())
    end_session(tx, *session, "instance.deregistered", false, nullptr);
}

/// Who may not decide what an agent asks does not say what it need not ask.
std::optional<v1::Reply> check_loosening(const transaction& tx, conversation::Permissions permissions, bool adds_patterns) {
  if (permissions != conversation::AUTO_EDIT && permissions != conversation::AUTO && !adds_patterns)
    return std::nullopt;
  if (auto refused = may(tx.command().principal(), operation::loosen_permissions)) {
    v1::Reply r;
    *r.mutable_refusal() = std::move(*refused);
    return r;
  }
  if (tx.acting_session())
    return refuse(v1::Refusal::FORBIDDEN, "A session does not say what an agent may do unasked. Do it as yourself, without --session.");
  return std::nullopt;
}

std::optional<v1::Reply> check_permissions(conversation::Permissions permissions, std::int64_t for_ms) {
  if (!conversation::Permissions_IsValid(permissions))
    return refuse(v1::Refusal::INVALID, "There are no such permissions. Known: ask, auto-edit, auto, plan, deny.");
  if (for_ms != 0 && permissions != conversation::AUTO)
    return refuse(v1::Refusal::INVALID, "Only the permissions auto hold for a time. Leave permissions_ms out.");
  return std::nullopt;
}

void put_permissions(const transaction& tx, conversation& c, conversation::Permissions permissions, std::int64_t for_ms) {
  c.set_permissions(permissions == conversation::PERMISSIONS_UNSPECIFIED ? conversation::ASK : permissions);
  c.clear_permissions_end_ms();
  if (permissions == conversation::AUTO)
    c.set_permissions_end_ms(tx.in().now_ms + (for_ms != 0 ? for_ms : limits::conversation_bypass_max.count()));
}

} // namespace

v1::Reply start_conversation(transaction& tx, const v1::StartConversation& s) {
  if (auto refused = check_spawn_authority(tx, "start_conversation"))
    return *refused;
  if (auto refused = check_loosening(tx, s.permissions(), !s.allowed().empty()))
    return *refused;
  if (auto wrong = check_permissions(s.permissions(), s.permissions_ms()))
    return *wrong;
  conversation c;
  c.set_id(tx.in().new_uuid());
  auto driver = driver_for(tx, s, c.id());
  if (driver.refusal)
    return *driver.refusal;
  if (auto full = check_open(tx))
    return *full;
  if (auto full = check_spawn_quota(tx))
    return *full;
  c.set_scope(tx.scope());
  c.set_harness(s.harness());
  c.set_title(s.title());
  c.set_directory(driver.spawn.directory());
  put_permissions(tx, c, s.permissions(), s.permissions_ms());
  *c.mutable_allowed() = s.allowed();
  c.set_wished_model(s.model());
  c.set_wished_mode(s.mode());
  c.set_wishes(s.model().empty() && s.mode().empty() ? 0 : 1);
  *c.mutable_created_by() = speaker(tx);
  c.set_created_at_ms(tx.in().now_ms);
  std::optional<prompt_row> first;
  if (!s.prompt().empty())
    first = queue_prompt(tx, c, s.prompt());
  auto spawn = order_worker(tx, std::move(driver.spawn), !first);
  if (!first)
    put_aside(tx, spawn);
  c.set_spawn_id(spawn.id());
  c.set_node_id(spawn.node_id());
  c.set_generation(spawn.attempt());
  c.set_session_id(spawn.session_id());
  c.set_state(first ? conversation::STARTING : conversation::SUSPENDED);
  put_changed(tx, c);
  tx.event("conversation.started", c.id(), {{"harness", c.harness()}, {"spawn_id", c.spawn_id()}, {"node_id", c.node_id()}});
  if (first)
    tx.event("conversation.prompted", c.id(), {{"prompt_id", first->id()}, {"number", first->number()}});
  return conversation_reply(std::move(c), std::move(first));
}

v1::Reply send_prompt(transaction& tx, const v1::SendPrompt& s) {
  auto c = find_conversation(tx, s.conversation_id());
  if (!c)
    return no_conversation(s.conversation_id());
  if (auto refused = check_speaker(tx, *c))
    return *refused;
  if (c->state() == conversation::ENDED)
    return ended(*c);
  if (tx.count<prompt_row>({.scope = tx.scope(), .conversation_id = c->id(), .open = true}) >= limits::prompts_open_max)
    return refuse(v1::Refusal::LIMIT,
                  std::to_string(limits::prompts_open_max) + " prompts wait for this agent. Wait until it has taken some, or interrupt it.", c->id());
  auto p = queue_prompt(tx, *c, s.prompt());
  tx.event("conversation.prompted", c->id(), {{"prompt_id", p.id()}, {"number", p.number()}});
  go_on(tx, *c);
  put_changed(tx, *c);
  return conversation_reply(std::move(*c), std::move(p));
}

v1::Reply interrupt_conversation(transaction& tx, const v1::InterruptConversation& i) {
  auto c = find_conversation(tx, i.conversation_id());
  if (!c)
    return no_conversation(i.conversation_id());
  // Also what the driver may have, but no turn has yet.
  const auto waiting = tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c->id(), .retired = false});
  if (c->open_turn().empty() && std::none_of(waiting.begin(), waiting.end(), [](const auto& p) { return is_given(p); }))
    return conversation_reply(std::move(*c));
  c->set_interrupts(c->interrupts() + 1);
  c->set_held(true);
  put_changed(tx, *c);
  tx.event("conversation.interrupted", c->id(), {{"turn", c->open_turn()}, {"interrupts", c->interrupts()}});
  return conversation_reply(std::move(*c));
}

v1::Reply resume_conversation(transaction& tx, const v1::ResumeConversation& r) {
  auto c = find_conversation(tx, r.conversation_id());
  if (!c)
    return no_conversation(r.conversation_id());
  if (c->state() == conversation::ENDED) {
    if (has_driver(tx, *c))
      return refuse(v1::Refusal::STATE, "Its agent has not ended yet. Try again in a moment.", c->id());
    if (auto full = check_open(tx))
      return *full;
    c->set_state(conversation::SUSPENDED);
    c->clear_ended_at_ms();
    c->clear_reason();
  } else if (!c->held() && c->state() != conversation::SUSPENDED && c->state() != conversation::LOST) {
    return conversation_reply(std::move(*c));
  }
  go_on(tx, *c);
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
  // What the driver may have is told by the driver, or is unknown when that ends.
  for (auto& p : tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c->id(), .open = true}))
    if (p.state() == prompt_row::QUEUED)
      move_prompt(tx, p, prompt_row::UNDELIVERABLE, "the conversation was stopped");
  c->set_state(conversation::ENDED);
  c->set_held(false);
  c->set_reason(s.reason());
  c->set_ended_at_ms(tx.in().now_ms);
  withdraw_agent_requests(tx, c->id(), "the conversation was stopped", false);
  put_changed(tx, *c);
  tx.event("conversation.ended", c->id(), {{"harness", c->harness()}});
  end_driver_unstarted(tx, *c);
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

v1::Reply set_conversation(transaction& tx, const v1::SetConversation& s) {
  auto c = find_conversation(tx, s.conversation_id());
  if (!c)
    return no_conversation(s.conversation_id());
  if (auto refused = check_loosening(tx, s.permissions(), !s.allow().empty()))
    return *refused;
  if (auto wrong = check_permissions(s.permissions(), s.permissions_ms()))
    return *wrong;
  if (s.permissions() != conversation::PERMISSIONS_UNSPECIFIED)
    put_permissions(tx, *c, s.permissions(), s.permissions_ms());
  for (const auto& pattern : s.forget())
    c->mutable_allowed()->erase(std::remove(c->mutable_allowed()->begin(), c->mutable_allowed()->end(), pattern), c->mutable_allowed()->end());
  for (const auto& pattern : s.allow())
    if (!pattern.empty() && std::find(c->allowed().begin(), c->allowed().end(), pattern) == c->allowed().end())
      c->add_allowed(pattern);
  if (c->allowed_size() > static_cast<int>(limits::conversation_patterns_max))
    return refuse(v1::Refusal::LIMIT,
                  "At most " + std::to_string(limits::conversation_patterns_max) + " patterns of a conversation allow something. Forget some first.",
                  c->id());
  if (!s.model().empty() || !s.mode().empty()) {
    c->set_wishes(c->wishes() + 1);
    if (!s.model().empty())
      c->set_wished_model(s.model());
    if (!s.mode().empty())
      c->set_wished_mode(s.mode());
  }
  put_changed(tx, *c);
  tx.event("conversation.set", c->id(), {{"permissions", to_text(c->permissions())}, {"permissions_end_ms", c->permissions_end_ms()}});
  return conversation_reply(std::move(*c));
}

v1::Reply delete_conversation(transaction& tx, const v1::DeleteConversation& d) {
  v1::Reply done;
  done.mutable_done();
  const auto c = find_conversation(tx, d.conversation_id());
  if (!c)
    return done;
  const auto spawn = tx.get<v1::Spawn>(key(c->spawn_id()));
  const bool rests = c->state() == conversation::ENDED || (c->state() == conversation::SUSPENDED && c->queued() == 0);
  if (!rests || has_driver(tx, *c))
    return refuse(v1::Refusal::STATE,
                  c->state() == conversation::ENDED ? "Its agent has not ended yet. Try again in a moment."
                                                    : "The conversation goes on. Stop it first: swarmctl chat stop " + c->id(),
                  c->id());
  tx.erase(*c);
  if (spawn)
    tx.erase(*spawn);
  // What does not fit has no text any more, but for a few, and the sweep takes it.
  auto prompts = tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c->id()});
  std::partition(prompts.begin(), prompts.end(), [](const prompt_row& p) { return !p.text().empty(); });
  for (const auto& p : prompts)
    if (tx.has_room(row_bytes))
      tx.erase(p);
  forget_agent_requests(tx, c->id());
  tx.event("conversation.deleted", c->id(), json::object());
  return done;
}

} // namespace swarm::domain
