#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rules.hpp"
#include "actors/domain/workspace.hpp"

namespace swarm::domain {

namespace {

constexpr std::string_view person = "operator";

/// Not sessions: what rules tell them is seen as an event. What somebody writes to the operator is kept (`write_to_person`).
bool has_no_mailbox(std::string_view name) { return name == person || name == "system"; }

bool is_full(const transaction& tx, const std::string& recipient) {
  return tx.count<v1::Message>({.scope = tx.scope(), .recipient = recipient, .read = false}) >= limits::session_unread_messages_max();
}

std::string with_task(std::string_view text, std::string_view task_id) {
  if (task_id.empty())
    return std::string(text);
  return "[task:" + std::string(task_id) + "] " + std::string(text);
}

v1::Reply no_such_recipient(const std::string& recipient) {
  return refuse(v1::Refusal::NOT_FOUND, "Instance " + recipient + " is not active in this scope", recipient);
}

/// Why the message may not go to that recipient.
std::optional<v1::Reply> check_recipient(const transaction& tx, const v1::SendMessage& m) {
  if (has_no_mailbox(m.recipient()))
    return std::nullopt;
  auto target = tx.get<v1::Session>(key(m.recipient()));
  if (!target || target->scope() != tx.scope())
    return no_such_recipient(m.recipient());
  auto me = tx.acting_session();
  // A person may write to the session that he acts as. A session would wake itself, whatever it asks its user meanwhile.
  const bool may_be_self = m.relaxed() && tx.command().principal().kind() != v1::Principal::SESSION;
  if (me && me->id() == target->id() && !may_be_self)
    return refuse(v1::Refusal::STATE, m.prompt() ? "Cannot prompt yourself" : "Cannot send a message to yourself", target->id());
  if (me && !m.relaxed())
    if (auto blocked = identity_boundary(tx, *me, *target))
      return blocked;
  if (is_full(tx, target->id()))
    return refuse(v1::Refusal::LIMIT,
                  "Instance " + target->id() + " has " + std::to_string(limits::session_unread_messages_max()) +
                    " unread messages. It must read some before it gets more.",
                  target->id());
  return std::nullopt;
}

json content_payload(const std::string& content) { return {{"content", content}, {"length", utf16_length(content)}}; }

} // namespace

namespace {

v1::Message new_message(const transaction& tx, std::string_view sender, std::string_view recipient, std::string content) {
  v1::Message m;
  m.set_scope(tx.scope());
  m.set_sender(std::string(sender));
  m.set_recipient(std::string(recipient));
  m.set_content(std::move(content));
  m.set_created_at_ms(tx.in().now_ms);
  return m;
}

/// Without an id when there is no mailbox, or a full one.
v1::Message posted(transaction& tx, v1::Message m) {
  if (has_no_mailbox(m.recipient()) || is_full(tx, m.recipient()))
    return m;
  m.set_id(tx.next_message_id());
  mail_becomes_prompt(tx, m);
  tx.put(m);
  return m;
}

/// A conversation is told by its queue.
void describe_prompt(v1::PromptResult& result, const v1::Message& m, const std::string& conversation) {
  result.set_backend("conversation");
  result.set_handle(conversation);
  if (m.no_wake())
    result.set_skipped("nudge=false");
  else if (!m.read())
    result.set_skipped("its queue is full: the message becomes a prompt when there is room");
}

/// Why nobody is woken now, in the words of swarm-mcp. Here a prompt that is skipped because the agent works or asks its user is delivered at its
/// next idle; one that is starting is told when it waits for input.
void describe_waking(const transaction& tx, v1::PromptResult& result, waking how) {
  auto session = tx.get<v1::Session>(key(result.recipient()));
  auto terminal = session ? terminal_of(tx, *session) : std::nullopt;
  if (!terminal)
    return result.set_skipped(no_workspace);
  result.set_backend("pty");
  result.set_handle(terminal->pty_id());
  auto state = agent_state(*session, tx.in().now_ms);
  result.set_agent_status(state);
  if (how == waking::never)
    result.set_skipped("nudge=false");
  else if (!is_agent(terminal->harness()))
    result.set_skipped("the program in that terminal is " + terminal->harness() + ", which reads no mail when it is typed to");
  else if (state == v1::AgentReport::BLOCKED || asks_person(*session))
    result.set_skipped(std::string("target workspace handle is ") + to_text(state) + ": a person must answer there first, and force changes nothing");
  else if (how != waking::at_once && state == v1::AgentReport::WORKING)
    result.set_skipped(std::string("target workspace handle is ") + to_text(state) + "; pass force=true to inject anyway");
}

} // namespace

v1::Message post_message(transaction& tx, std::string_view sender, std::string_view recipient, std::string content) {
  return posted(tx, new_message(tx, sender, recipient, std::move(content)));
}

v1::PromptResult prompt(transaction& tx, std::string_view sender, std::string_view recipient, std::string text, std::string_view task_id, waking how,
                        bool wants_news) {
  auto message = new_message(tx, sender, recipient, with_task(text, task_id));
  message.set_prompted(wants_news);
  message.set_no_wake(how == waking::never);
  message.set_force_wake(how == waking::at_once);
  tx.event("message.sent", recipient, content_payload(message.content()), sender); // before what becomes of it
  message = posted(tx, std::move(message));
  v1::PromptResult result;
  result.set_sender(message.sender());
  result.set_recipient(message.recipient());
  result.set_message_id(message.id());
  if (const auto conversation = conversation_at(tx, result.recipient()); !conversation.empty())
    describe_prompt(result, message, conversation);
  else
    describe_waking(tx, result, how);
  return result;
}

v1::Reply deliver_messages(transaction& tx, const v1::DeliverMessages& d) {
  message_filter unread{.scope = tx.scope(), .recipient = d.session_id(), .read = false};
  unread.limit = limits::session_end_messages_max;
  auto ids = json::array();
  for (auto& m : tx.find<v1::Message>(unread)) {
    if (m.id() > d.up_to() || m.delivered_at_ms() != 0 || m.no_wake())
      continue;
    if (!tx.has_room(m.ByteSizeLong() + 2 * limits::event_payload_bytes_max()))
      break;
    m.set_delivered_at_ms(tx.in().now_ms);
    if (ids.size() < limits::announced_tasks_max)
      ids.push_back({{"id", m.id()}, {"sender", m.sender()}});
    tx.put(std::move(m));
  }
  if (!ids.empty())
    tx.event("message.delivered", d.session_id(), {{"messages", ids}});
  v1::Reply reply;
  reply.mutable_done();
  return reply;
}

namespace {

/// The mailbox of the operator, one for each scope: it holds as many messages as a session may have unread. A new one takes the place of the
/// oldest that was read.
v1::Reply write_to_person(transaction& tx, const v1::SendMessage& m) {
  const auto most = limits::session_unread_messages_max();
  v1::Message row;
  row.set_recipient(m.recipient());
  if (is_full(tx, row.recipient()))
    return refuse(v1::Refusal::LIMIT,
                  "The operator has " + std::to_string(most) +
                    " unread messages in this scope. Somebody must read them first: swarmctl messages --mine",
                  row.recipient());
  if (tx.count<v1::Message>({.scope = tx.scope(), .recipient = row.recipient()}) >= most)
    for (const auto& oldest : tx.find<v1::Message>({.scope = tx.scope(), .recipient = row.recipient(), .read = true, .limit = 1}))
      tx.erase(oldest);
  row.set_scope(tx.scope());
  row.set_sender(tx.actor_name());
  row.set_content(with_task(m.content(), m.task_id()));
  row.set_created_at_ms(tx.in().now_ms);
  row.set_id(tx.next_message_id());
  tx.put(row);
  tx.event("message.sent", row.recipient(), content_payload(row.content()), row.sender());
  v1::Reply reply;
  auto& result = *reply.mutable_message_sent()->mutable_prompt();
  result.set_sender(row.sender());
  result.set_recipient(row.recipient());
  result.set_message_id(row.id());
  if (m.prompt())
    result.set_skipped("the operator reads mail with: swarmctl messages --mine");
  return reply;
}

} // namespace

v1::Reply send_message(transaction& tx, const v1::SendMessage& m) {
  if (m.recipient() == person)
    return write_to_person(tx, m);
  if (auto refusal = check_recipient(tx, m))
    return *refusal;
  v1::Reply reply;
  auto how = m.no_wake() ? waking::never : m.force_wake() ? waking::at_once : waking::at_idle;
  auto result = prompt(tx, tx.actor_name(), m.recipient(), m.content(), m.task_id(), how, m.prompt());
  if (!m.prompt())
    result.clear_skipped();
  *reply.mutable_message_sent()->mutable_prompt() = std::move(result);
  return reply;
}

v1::Reply broadcast(transaction& tx, const v1::Broadcast& b) {
  auto me = tx.acting_session();
  v1::Reply reply;
  std::uint32_t recipients = 0;
  session_filter others{.scope = tx.scope()};
  if (!b.to_leased())
    others.adopted = true;
  for (const auto& s : tx.find<v1::Session>(others)) {
    if (me && (s.id() == me->id() || !same_identity(tx, me->identity(), s.identity())))
      continue;
    if (post_message(tx, tx.actor_name(), s.id(), b.content()).id() != 0)
      ++recipients;
  }
  if (recipients > 0)
    tx.event("message.broadcast", "", {{"content", b.content()}, {"recipients", recipients}, {"length", utf16_length(b.content())}});
  reply.mutable_broadcast_sent()->set_recipients(recipients);
  return reply;
}

v1::Reply consume_messages(transaction& tx, const v1::ConsumeMessages& c) {
  auto me = tx.acting_session();
  if (!me && !acts_as_operator(tx))
    return not_registered();
  const auto whose = me ? me->id() : std::string{person};
  message_filter unread{.scope = tx.scope(), .recipient = whose, .read = false};
  unread.limit = c.limit() == 0 ? 50 : c.limit();
  if (!c.task_prefix().empty())
    unread.content_prefix = "[task:" + c.task_prefix() + "]";
  v1::Reply reply;
  auto* list = reply.mutable_messages();
  auto seen = json::array();
  std::size_t reply_bytes = 0;
  for (auto& m : tx.find<v1::Message>(unread)) {
    // Each message is in the batch twice, as a row and in the reply; what does not fit stays unread.
    auto bytes = m.ByteSizeLong() + 16;
    if (list->messages_size() > 0 && !tx.has_room(reply_bytes + 2 * bytes))
      break;
    reply_bytes += bytes;
    m.set_read(true);
    tx.put(m);
    // The sender who woke somebody hears that it was worth it.
    if ((m.delivered_at_ms() != 0 || m.prompted()) && seen.size() < limits::announced_tasks_max)
      seen.push_back({{"id", m.id()}, {"sender", m.sender()}});
    *list->add_messages() = std::move(m);
  }
  if (!seen.empty())
    tx.event("message.read", whose, {{"messages", seen}});
  return reply;
}

} // namespace swarm::domain
