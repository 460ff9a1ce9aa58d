// What is said to the agents of conversations, by people, by sessions and by mail.
#include <algorithm>

#include "actors/base/text.hpp"
#include "actors/domain/conversation/rules.hpp"
#include "actors/domain/digest.hpp"
#include "actors/domain/sender_name.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation; // for the names of its states
using prompt_row = v1::Prompt;

constexpr std::size_t title_begin_bytes = 96;

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

/// A prompt only goes from lower to higher.
int rank(prompt_row::State s) {
  switch (s) {
    case prompt_row::QUEUED: return 1;
    case prompt_row::SENDING: return 2;
    case prompt_row::SUBMITTED: return 3;
    case prompt_row::UNKNOWN: return 4; // the driver's word may come after its end, and is better than none
    case prompt_row::CONSUMED:
    case prompt_row::UNDELIVERABLE: return 5;
    default: return 0;
  }
}

/// Sessions speak to other agents only, so that none answers itself for ever.
std::optional<v1::Reply> check_speaker(const transaction& tx, const conversation& c) {
  if (!is_itself(tx, c))
    return std::nullopt;
  return refuse(v1::Refusal::FORBIDDEN, "A session does not prompt the conversation that it is itself", c.id());
}

bool is_file_name(std::string_view name) {
  return name.size() <= limits::attachment_name_bytes_max && name != "." && name != ".." && name.find('/') == name.npos &&
         std::none_of(name.begin(), name.end(), [](unsigned char ch) { return ch < 0x20 || ch == 0x7f; });
}

/// As RFC 6838 has it: a type and a subtype of letters, digits and some signs.
bool is_media_type(std::string_view type) {
  static constexpr std::string_view signs = "!#$&-^_.+";
  const auto slash = type.find('/');
  const auto is_word = [](std::string_view word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](char ch) {
      return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || signs.find(ch) != signs.npos;
    });
  };
  return type.size() <= limits::attachment_type_bytes_max && slash != type.npos && is_word(type.substr(0, slash)) && is_word(type.substr(slash + 1));
}

std::optional<v1::Reply> check_attachments(const v1::SendPrompt& s) {
  if (s.attachments_size() > static_cast<int>(limits::prompt_attachments_max))
    return refuse(v1::Refusal::INVALID, "A prompt has at most " + std::to_string(limits::prompt_attachments_max) + " images and files");
  auto bytes = s.prompt().size();
  for (const auto& a : s.attachments()) {
    bytes += a.bytes();
    if (a.digest().size() != digest_bytes)
      return refuse(v1::Refusal::INVALID, "The digest of an attachment is its SHA-256, 32 bytes");
    if (!is_file_name(a.name()))
      return refuse(v1::Refusal::INVALID, "The name of an attachment is that of a file, without a directory and at most " +
                                            std::to_string(limits::attachment_name_bytes_max) + " bytes");
    if (!is_media_type(a.media_type()))
      return refuse(v1::Refusal::INVALID, "The media type of an attachment is a type and a subtype, for instance image/png");
    if (a.bytes() == 0 || a.bytes() > limits::conversation_blob_bytes_max())
      return refuse(v1::Refusal::INVALID,
                    "An attachment has 1 byte to " + std::to_string(limits::conversation_blob_bytes_max() / limits::mib) + " MiB");
  }
  if (bytes > limits::driver_prompt_bytes_max) // its driver would refuse it, at its turn
    return refuse(v1::Refusal::INVALID,
                  "A prompt has at most " + std::to_string(limits::driver_prompt_bytes_max / limits::mib) +
                    " MiB with its images and files. Send fewer of them, or put them into the agent's directory and say their paths.");
  return std::nullopt;
}

v1::Reply queue_is_full(const conversation& c) {
  const auto wait = std::to_string(limits::prompts_open_max) + " prompts wait for this agent. ";
  const bool stands_still = c.held() || c.state() == conversation::SUSPENDED || c.state() == conversation::LOST;
  return refuse(v1::Refusal::LIMIT,
                wait + (stands_still ? "They go on with: swarmctl chat resume " + c.id() : "Wait until it has taken some, or interrupt it."), c.id());
}

/// Whether its queue waits because too many turns were begun by nobody but agents.
bool waits_for_person(const conversation& c) { return c.held() && c.own_turns() >= limits::conversation_own_turns_max; }

/// The agent is started if none runs and something waits.
void wake(transaction& tx, conversation& c) {
  if (c.state() != conversation::SUSPENDED && c.state() != conversation::LOST)
    return;
  if (tx.count<prompt_row>({.scope = tx.scope(), .conversation_id = c.id(), .open = true}) == 0)
    return;
  c.clear_reason();
  if (!has_driver(tx, c))
    return start_driver(tx, c);
  c.set_state(conversation::STARTING); // the driver starts its agent, or its end starts the next one
}

/// The conversation that acts as this session now, and takes prompts.
std::optional<conversation> conversation_for(const transaction& tx, const std::string& session_id) {
  const auto session = tx.get<v1::Session>(key(session_id));
  const auto spawn = session && !session->spawn_id().empty() ? tx.get<v1::Spawn>(key(session->spawn_id())) : std::nullopt;
  auto c = spawn && !spawn->conversation_id().empty() ? find_conversation(tx, spawn->conversation_id()) : std::nullopt;
  if (c && (c->session_id() != session_id || c->state() == conversation::ENDED || !is_here(tx, *c)))
    c.reset();
  return c;
}

std::string mail_text(const transaction& tx, const v1::Message& m) {
  const auto sender = is_reserved_sender(m.sender()) ? std::nullopt : tx.get<v1::Session>(key(m.sender()));
  const auto name = sender && !sender->label().empty() ? m.sender() + " (" + sender->label() + ")" : m.sender();
  return "Message from " + name + ":\n\n" + m.content();
}

v1::Principal sender_of(const transaction& tx, const v1::Message& m) {
  auto who = speaker(tx);
  if (m.sender() == "operator" && is_persons(who))
    return who;
  who.Clear();
  who.set_kind(is_reserved_sender(m.sender()) ? v1::Principal::NODE : v1::Principal::SESSION);
  if (!is_reserved_sender(m.sender()))
    who.set_id(m.sender());
  return who;
}

/// Puts the message into the queue and marks it read. False = it stays in the mailbox, where the agent finds it when it looks: what the node tells
/// everybody is worth no turn.
bool queue_mail(transaction& tx, conversation& c, v1::Message& m) {
  if (m.no_wake() || m.sender() == "system" || is_queue_full(tx, c) || !tx.has_room(2 * (m.content().size() + 4 * row_bytes)))
    return false;
  prompt_row said;
  said.set_text(mail_text(tx, m));
  said.set_message_id(std::to_string(m.id()));
  *said.mutable_requested_by() = sender_of(tx, m);
  const auto p = queue_prompt(tx, c, std::move(said));
  m.set_read(true);
  m.set_delivered_at_ms(tx.in().now_ms);
  tx.event("message.delivered", m.recipient(), {{"messages", json::array({{{"id", m.id()}, {"sender", m.sender()}}})}});
  tx.event("conversation.prompted", c.id(), {{"prompt_id", p.id()}, {"number", p.number()}});
  return true;
}

/// An agent may be told without end what it does not take. What it has taken stands in the log.
void forget_oldest_prompts(transaction& tx, const conversation& c) {
  prompt_filter retired{.scope = tx.scope(), .conversation_id = c.id(), .retired = true};
  retired.limit = 2;
  for (const auto& p : tx.find<prompt_row>(retired))
    if (p.number() + limits::prompts_kept_max < c.prompts())
      tx.erase(p);
  if (c.prompts() <= limits::prompts_words_kept_max)
    return;
  const auto oldest = c.prompts() - limits::prompts_words_kept_max;
  retired.after_number = oldest - 1;
  retired.limit = 1;
  for (auto& p : tx.find<prompt_row>(retired))
    if (p.number() == oldest && !p.text().empty()) {
      p.clear_text();
      tx.put(std::move(p));
    }
}

/// The agent never got it: it is mail again, which the agent finds when it looks, or which becomes a prompt once more.
void give_mail_back(transaction& tx, const prompt_row& p) {
  auto m = p.message_id().empty() ? std::nullopt : tx.get<v1::Message>(key(p.scope(), std::stoull(p.message_id())));
  if (!m || !m->read())
    return;
  m->set_read(false);
  m->clear_delivered_at_ms();
  tx.put(std::move(*m));
}

/// The sender hears that it was read.
void tell_sender(transaction& tx, const conversation& c, const prompt_row& p) {
  if (p.message_id().empty() || p.requested_by().kind() != v1::Principal::SESSION)
    return;
  const auto number = std::stoull(p.message_id());
  tx.event("message.read", c.session_id(), {{"messages", json::array({{{"id", number}, {"sender", p.requested_by().id()}}})}});
}

} // namespace

bool is_itself(const transaction& tx, const conversation& c) {
  const auto me = tx.acting_session();
  return me && conversation_of(tx.base(), *me) == c.id();
}

bool joins_turns(const conversation& c, const prompt_row& p) noexcept {
  return p.steer() && (c.own_turns() < limits::conversation_own_turns_max || is_persons(p.requested_by()));
}

bool is_persons(const v1::Principal& who) noexcept {
  return who.kind() == v1::Principal::OPERATOR || who.kind() == v1::Principal::DEVICE || who.kind() == v1::Principal::GATEWAY;
}

std::vector<prompt_row> underway(const transaction& tx, const conversation& c) {
  return tx.find<prompt_row>({.scope = tx.scope(), .conversation_id = c.id(), .retired = false});
}

bool is_queue_full(const transaction& tx, const conversation& c) {
  return tx.count<prompt_row>({.scope = tx.scope(), .conversation_id = c.id(), .open = true}) >= limits::prompts_open_max;
}

prompt_row queue_prompt(transaction& tx, conversation& c, prompt_row p) {
  c.set_prompts(c.prompts() + 1);
  p.set_id(tx.in().new_uuid());
  p.set_scope(tx.scope());
  p.set_conversation_id(c.id());
  p.set_number(c.prompts());
  p.set_state(prompt_row::QUEUED);
  if (!p.has_requested_by())
    *p.mutable_requested_by() = speaker(tx);
  p.set_created_at_ms(tx.in().now_ms);
  p.set_changed_at_ms(tx.in().now_ms);
  tx.put(p);
  forget_oldest_prompts(tx, c);
  if (c.title().empty())
    c.set_title(title_from(p.text()));
  return p;
}

bool move_prompt(transaction& tx, prompt_row& p, prompt_row::State to, const std::string& reason) {
  if (rank(to) <= rank(p.state()))
    return false;
  p.set_state(to);
  p.set_reason(reason);
  p.set_changed_at_ms(tx.in().now_ms);
  // Everything else can be said again.
  if (to == prompt_row::CONSUMED)
    p.clear_text();
  if (to == prompt_row::UNDELIVERABLE)
    give_mail_back(tx, p);
  tx.put(p);
  return true;
}

void go_on(transaction& tx, conversation& c, bool for_person) {
  if (for_person) {
    if (waits_for_person(c))
      c.clear_reason();
    c.set_own_turns(0);
  } else if (waits_for_person(c)) {
    return;
  }
  c.set_held(false);
  c.set_restarts(0);
  wake(tx, c);
}

void note_taken(transaction& tx, conversation& c, const prompt_row& p, bool is_of_task) {
  c.set_restarts(0);
  tell_sender(tx, c, p);
  if (is_of_task || is_persons(p.requested_by())) {
    c.set_own_turns(0);
    return;
  }
  c.set_own_turns(c.own_turns() + 1);
  const auto waiting = underway(tx, c);
  const auto is_wanted = [&](const prompt_row& other) { return is_persons(other.requested_by()) || is_instruction(c, other); };
  if (c.own_turns() < limits::conversation_own_turns_max || c.held() || std::any_of(waiting.begin(), waiting.end(), is_wanted))
    return;
  c.set_held(true);
  c.set_reason(std::to_string(c.own_turns()) +
               " times in a row the agent was told something by other agents alone. What they say waits until a person says something, or: " +
               "swarmctl chat resume " + c.id());
  tx.event("conversation.held", c.id(), {{"own_turns", c.own_turns()}}, "system");
}

void take_mail(transaction& tx, conversation& c) {
  message_filter unread{.scope = tx.scope(), .recipient = c.session_id(), .read = false};
  unread.limit = limits::prompts_open_max;
  std::size_t bytes = 0;
  for (bool more = !c.session_id().empty(); more && bytes < limits::conversation_mail_bytes_max && !is_queue_full(tx, c);) {
    auto found = tx.find<v1::Message>(unread);
    more = found.size() == unread.limit;
    for (auto& m : found) {
      unread.after_id = m.id();
      bytes += m.ByteSizeLong() + row_bytes;
      if (queue_mail(tx, c, m))
        tx.put(std::move(m));
    }
  }
}

bool mail_becomes_prompt(transaction& tx, v1::Message& m) {
  auto c = conversation_for(tx, m.recipient());
  if (!c || !queue_mail(tx, *c, m))
    return false;
  if (!c->held())
    wake(tx, *c);
  put_changed(tx, *c);
  return true;
}

void take_mail_back(transaction& tx, const operators_mail& known) {
  const auto is_it = [&](const v1::Message& m) {
    return m.sender() == "operator" && m.content() == known.content && m.created_at_ms() == known.sent_at_ms;
  };
  auto c = conversation_for(tx, known.recipient);
  for (auto& p : c ? underway(tx, *c) : std::vector<prompt_row>{}) {
    const auto m = p.message_id().empty() ? std::nullopt : tx.get<v1::Message>(key(p.scope(), std::stoull(p.message_id())));
    if (p.state() != prompt_row::QUEUED || !m || !is_it(*m))
      continue;
    move_prompt(tx, p, prompt_row::CONSUMED, "its agent had the answer from its own call");
    put_changed(tx, *c);
  }
  for (auto& m : tx.find<v1::Message>({.scope = tx.scope(), .recipient = known.recipient, .read = false}))
    if (is_it(m)) {
      m.set_read(true);
      tx.put(std::move(m));
    }
}

std::string conversation_at(const transaction& tx, const std::string& session_id) {
  const auto c = conversation_for(tx, session_id);
  return c ? c->id() : std::string{};
}

v1::Reply send_prompt(transaction& tx, const v1::SendPrompt& s) {
  auto c = find_conversation(tx, s.conversation_id());
  if (!c)
    return no_conversation(s.conversation_id());
  if (auto refused = check_speaker(tx, *c))
    return *refused;
  if (trimmed(s.prompt()).empty() && s.attachments().empty())
    return refuse(v1::Refusal::INVALID, "The prompt is blank. Say something.");
  if (auto wrong = check_attachments(s))
    return *wrong;
  if (auto elsewhere = check_here(tx, *c))
    return *elsewhere;
  if (c->state() == conversation::ENDED)
    return refuse(v1::Refusal::STATE, "The conversation was stopped. Resume it first: swarmctl chat resume " + c->id(), c->id());
  if (is_queue_full(tx, *c))
    return queue_is_full(*c);
  prompt_row said;
  said.set_text(s.prompt());
  said.set_steer(s.steer());
  *said.mutable_attachments() = s.attachments();
  auto p = queue_prompt(tx, *c, std::move(said));
  tx.event("conversation.prompted", c->id(), {{"prompt_id", p.id()}, {"number", p.number()}});
  go_on(tx, *c, is_persons(speaker(tx)));
  put_changed(tx, *c);
  return conversation_reply(std::move(*c), std::move(p));
}

} // namespace swarm::domain
