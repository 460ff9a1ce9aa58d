#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/digest.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

v1::Reply approval_reply(v1::Approval a, v1::Reply reply = {}) {
  *reply.mutable_approval() = std::move(a);
  return reply;
}

using approval = v1::Approval; // for the names of its kinds

/// How an approval ended that nobody has decided.
std::string_view undecided_end(const v1::Approval& a) { return a.withdrawn().empty() ? "The approval has expired" : "The approval was withdrawn"; }

constexpr const char* agent_has_ended = "the agent has ended";
/// The agent that has asked is there, and in the same generation.
bool waits_for(const transaction& tx, const v1::Approval& a) {
  const auto c = find_conversation(tx, a.conversation_id());
  return c && c->generation() == a.generation() && c->state() != v1::Conversation::ENDED && has_driver(tx, *c);
}

/// Why this decision is not valid.
std::optional<v1::Reply> check(const transaction& tx, const v1::Approval& a, const v1::DecideApproval& d) {
  if (a.decided_at_ms() != 0)
    return refuse(v1::Refusal::STATE, a.decision().empty() ? std::string(undecided_end(a)) : "Already decided: " + a.decision(), a.id());
  if (!a.conversation_id().empty() && !waits_for(tx, a))
    return refuse(v1::Refusal::STATE, "The agent that asked has ended. It asks again when it needs to.", a.id());
  if (a.deadline_ms() != 0 && a.deadline_ms() <= tx.in().now_ms)
    return refuse(v1::Refusal::TIMEOUT, "The approval's deadline has passed. It must be asked for again.", a.id());
  if (a.action_digest() != d.action_digest())
    return refuse(v1::Refusal::STALE, "The action is not the one shown. Look at the approval again.", a.id());
  if (std::find(a.options().begin(), a.options().end(), d.option()) == a.options().end())
    return refuse(v1::Refusal::INVALID, "\"" + d.option() + "\" is not one of the options", a.id());
  return check_words_for_agent(tx, a, d);
}

/// It asks whether a task of this scope may go on, and nothing else.
bool is_about_task(const transaction& tx, const v1::Approval& a) {
  if (approval_kind(a) != approval::TASK)
    return false;
  constexpr std::string_view prefix = "task/";
  if (a.subject().compare(0, prefix.size(), prefix) != 0)
    return false;
  const auto task = tx.get<v1::Task>(key(a.subject().substr(prefix.size())));
  return task && task->scope() == tx.scope();
}

/// People decide: the table of rights has let them pass. A session may when it leads others, on tasks only, and never on what it wants itself.
std::optional<v1::Reply> check_decider(const transaction& tx, const v1::Approval& a, const v1::DecideApproval& d) {
  const auto& who = tx.command().principal();
  if (!d.decided_for().empty())
    if (auto refused = may(who, operation::decide_for_others))
      return refuse(v1::Refusal::FORBIDDEN, "Only a messaging gateway with the grant approve says for whom it decides. Leave decided_for out.",
                    a.id());
  if (who.kind() != v1::Principal::SESSION)
    return std::nullopt;
  const auto me = tx.acting_session();
  if (!me || !has_token(me->label(), gateway_token))
    return refuse(v1::Refusal::FORBIDDEN, "Only the operator and sessions labeled mode:gateway decide approvals. Ask one of them.", a.id());
  if (!is_about_task(tx, a))
    return refuse(
      v1::Refusal::FORBIDDEN,
      "A session labeled mode:gateway decides approvals of tasks only (subject task/<id>). Ask the operator to decide this one: swarmctl decide " +
        a.id(),
      a.id());
  if (principal_key(who) == principal_key(a.requested_by()))
    return refuse(v1::Refusal::FORBIDDEN, "A session may not decide what it has asked for itself. Ask the operator or another coordinator.", a.id());
  return std::nullopt;
}

/// The key of what an agent asks: in its generation it asks each once.
std::string key_for(const v1::ConversationRequest& r) {
  constexpr std::size_t readable_max = 128;
  auto native = to_hex(r.native_id());
  if (native.size() > readable_max)
    native = to_hex(sha256(r.native_id()));
  return "conversation/" + r.conversation_id() + "/" + std::to_string(r.generation()) + "/" + native;
}

/// Only a conversation's node says what its agent asks, and for the driver that runs.
std::optional<v1::Reply> check_agent(const transaction& tx, const v1::RequestApproval& r, approval::Kind what) {
  if (!r.has_conversation() && r.body_bytes() != 0)
    return refuse(v1::Refusal::INVALID, "Only what the agent of a conversation asks has a body that is a blob. Leave body_bytes out.");
  if (!r.has_conversation())
    return std::nullopt;
  const auto& from = r.conversation();
  if (tx.command().principal().kind() != v1::Principal::NODE)
    return refuse(v1::Refusal::FORBIDDEN, "Only the node asks for what the agent of a conversation waits for");
  if (!is_permission(what) && what != approval::QUESTION && what != approval::ELICITATION)
    return refuse(v1::Refusal::INVALID, "An agent asks for tools, commands and files, and asks questions");
  if (from.native_id().empty())
    return refuse(v1::Refusal::INVALID, "conversation.native_id is missing");
  if (r.body_bytes() != 0 &&
      (r.action_digest().size() != digest_bytes || !r.body().empty() || r.body_bytes() > limits::conversation_blob_bytes_max()))
    return refuse(v1::Refusal::INVALID, "A body that is a blob comes with its digest alone, and has at most " +
                                          std::to_string(limits::conversation_blob_bytes_max() / limits::mib) + " MiB");
  const auto c = find_conversation(tx, from.conversation_id());
  if (!c)
    return no_conversation(from.conversation_id());
  if (c->generation() != from.generation() || from.generation() == 0)
    return refuse(v1::Refusal::STALE, "This driver of the conversation is over or was never asked for", c->id());
  return std::nullopt;
}

/// In whose name it is asked: an agent's request comes from the node, and is its session's.
v1::Principal asker_of(const transaction& tx, const v1::RequestApproval& r) {
  if (!r.has_conversation())
    return speaker(tx);
  const auto c = find_conversation(tx, r.conversation().conversation_id());
  v1::Principal who;
  who.set_kind(v1::Principal::SESSION);
  who.set_id(c ? c->session_id() : std::string{});
  return who;
}

/// People, and the node for the agents that it drives.
bool is_trusted(v1::Principal::Kind who) { return who == v1::Principal::OPERATOR || who == v1::Principal::NODE; }

/// Why nobody may ask for this.
std::optional<v1::Reply> check_request(const transaction& tx, const v1::RequestApproval& r, approval::Kind what) {
  if (!approval::Kind_IsValid(r.kind()))
    return refuse(v1::Refusal::INVALID, "There is no such kind of approval");
  // Also a person who acts as a session asks in its name. What nobody stands for, as an orphan, asks for approvals of tasks only.
  const auto who = speaker(tx).kind();
  const bool may_ask = what == approval::TASK || is_trusted(who) || (what == approval::QUESTION && who == v1::Principal::SESSION);
  if (!may_ask)
    return refuse(v1::Refusal::FORBIDDEN, "A session asks for approvals of tasks and asks questions. Only the node asks for an agent's permissions.");
  if (what != approval::TASK && r.title().empty())
    return refuse(v1::Refusal::INVALID, "An approval needs a title: one line that says what is asked");
  if (is_permission(what) && !r.options().empty())
    return refuse(v1::Refusal::INVALID, "A permission is answered by allow, deny or always. Leave the options out.");
  if ((what == approval::QUESTION || what == approval::ELICITATION) && r.options().empty())
    return refuse(v1::Refusal::INVALID, "A question needs options: what may be answered");
  for (int i = 0; i < r.options_size(); ++i)
    if (r.options(i).empty() || std::find(r.options().begin(), r.options().begin() + i, r.options(i)) != r.options().begin() + i)
      return refuse(v1::Refusal::INVALID, "Each option is a word of its own, and none is empty");
  return std::nullopt;
}

void put_options(v1::Approval& a, const v1::RequestApproval& r) {
  *a.mutable_options() = r.options();
  const auto add = [&](std::initializer_list<const char*> options) {
    for (const auto* option : options)
      a.add_options(option);
  };
  if (is_permission(a.kind())) {
    add({"allow", "deny"});
    if (!r.has_conversation() || r.conversation().can_be_always() || !r.conversation().pattern().empty())
      add({"always"});
  } else if (a.options().empty()) {
    add({"yes", "no"});
  }
}

/// The digest of what is decided on is the store's own, so that nobody is shown one action and decides another.
std::optional<v1::Reply> put_action(v1::Approval& a, const v1::RequestApproval& r) {
  a.set_title(r.title());
  a.set_body(r.body());
  a.set_action_digest(r.action_digest());
  if (a.kind() == approval::TASK)
    return std::nullopt;
  if (r.body_bytes() != 0) {
    a.set_body_bytes(r.body_bytes());
    return std::nullopt; // the node has it, and has made its digest
  }
  if (a.body().empty())
    a.set_body(a.title());
  a.set_action_digest(sha256(a.body()));
  if (!r.action_digest().empty() && r.action_digest() != a.action_digest())
    return refuse(v1::Refusal::INVALID, "The digest is not the SHA-256 of the body. Leave it out.");
  return std::nullopt;
}

std::optional<v1::Reply> check_room(const transaction& tx, const v1::Principal& asker, bool of_agent) {
  if (of_agent && tx.count<v1::Approval>({.scope = tx.scope(), .open = true, .of_conversation = true}) >= limits::conversation_approvals_open_max())
    return refuse(v1::Refusal::LIMIT,
                  std::to_string(limits::conversation_approvals_open_max()) + " requests of agents wait for a person. Decide some first.");
  if (of_agent)
    return std::nullopt;
  const auto most = limits::approvals_open_per_session_max;
  if (tx.count<v1::Approval>({.scope = tx.scope(), .open = true, .of_conversation = false}) >= limits::approvals_open_max())
    return refuse(v1::Refusal::LIMIT, std::to_string(limits::approvals_open_max()) + " approvals are open. Decide some first.");
  if (!is_trusted(asker.kind()) && !asker.id().empty() &&
      tx.count<v1::Approval>({.scope = tx.scope(), .open = true, .asker = asker.id(), .of_conversation = false}) >= most)
    return refuse(v1::Refusal::LIMIT, std::to_string(most) + " approvals of this session are open. Wait until some are decided, or withdraw them.");
  return std::nullopt;
}

/// Who asks and withdraws without end must not fill the store before the time of what has ended is over.
void forget_oldest_ended(transaction& tx, const v1::Principal& asker) {
  if (asker.kind() != v1::Principal::SESSION)
    return;
  const approval_filter ended{.scope = tx.scope(), .open = false, .asker = asker.id(), .of_conversation = false};
  if (tx.count<v1::Approval>(ended) >= limits::approvals_ended_per_session_max)
    tx.erase(tx.find<v1::Approval>(ended).front());
}

/// The same for the agent of a conversation. What was decided and is still on its way to the agent stays.
void forget_oldest_ended(transaction& tx, const std::string& conversation_id) {
  const approval_filter ended{.scope = tx.scope(), .open = false, .conversation_id = conversation_id};
  if (tx.count<v1::Approval>(ended) < limits::approvals_ended_per_session_max)
    return;
  const auto all = tx.find<v1::Approval>(ended);
  const auto oldest = std::find_if(all.begin(), all.end(), [](const auto& a) { return a.delivery() != approval::PENDING; });
  if (oldest != all.end())
    tx.erase(*oldest);
}

/// 0 = as long as it takes.
std::int64_t patience_for(const transaction& tx, const v1::RequestApproval& r) {
  const auto asked = std::max<std::int64_t>(r.timeout_ms(), 0);
  const auto own = r.has_conversation() ? patience_ms(tx, r.conversation().conversation_id()) : 0;
  return asked == 0 || own == 0 ? asked + own : std::min(asked, own);
}

/// What the same asker has asked for under this key before, the newest.
std::optional<v1::Approval> asked_before(const transaction& tx, const v1::Principal& asker, const std::string& request_key) {
  if (request_key.empty())
    return std::nullopt;
  auto found = tx.find<v1::Approval>({.scope = tx.scope(), .asker = asker.id(), .request_key = request_key});
  std::erase_if(found, [&](const v1::Approval& a) { return principal_key(a.requested_by()) != principal_key(asker); });
  return found.empty() ? std::nullopt : std::optional{std::move(found.back())};
}

void withdraw(transaction& tx, v1::Approval& a, std::string why) {
  a.set_withdrawn(std::move(why));
  a.set_decided_at_ms(tx.in().now_ms);
  tx.put(a);
  tx.event("approval.withdrawn", a.id(), {{"subject", a.subject()}, {"kind", to_text(approval_kind(a))}, {"reason", a.withdrawn()}});
}

void end_delivery(transaction& tx, v1::Approval& a, approval::Delivery how, std::string why) {
  a.set_delivery(how);
  a.set_delivery_reason(std::move(why));
  tx.put(a);
  tx.event("approval.delivered", a.id(),
           {{"subject", a.subject()},
            {"delivery", how == approval::DELIVERED ? "delivered"
                         : how == approval::REFUSED ? "refused"
                                                    : "unknown"}});
}

/// Its choices are the asker's own words, and its decision is one of them.
bool is_answered_in_words(const v1::Approval& a) { return a.kind() == approval::QUESTION || a.kind() == approval::ELICITATION; }

/// Removes what was said in it, of a conversation that is gone. That it was decided, and by whom, stays as long as of others.
void forget(transaction& tx, v1::Approval& a) {
  a.clear_title();
  a.clear_body();
  a.clear_message();
  a.clear_edited_input();
  a.clear_pattern();
  a.clear_answers();
  a.clear_writes();
  a.clear_tool();
  a.clear_delivery_reason();
  if (!a.withdrawn().empty())
    a.set_withdrawn("its conversation was deleted");
  if (is_answered_in_words(a)) {
    a.clear_options();
    if (!a.decision().empty())
      a.set_decision("answered");
  }
  tx.put(a);
}

void announce(transaction& tx, const v1::Approval& a) {
  json options = json::array();
  for (const auto& option : a.options())
    if (!is_answered_in_words(a))
      options.push_back(option);
  tx.event("approval.requested", a.id(),
           {{"subject", a.subject()},
            {"kind", to_text(a.kind())},
            // Of anything else than a task the text is for those who see the approval, as the choices of a question; events are for all sessions.
            {"title", a.kind() == approval::TASK ? a.title() : std::string{}},
            {"action_digest", to_hex(a.action_digest())},
            {"options", options},
            {"deadline_ms", a.deadline_ms()}});
}

/// The session that has asked, of a question that is answered by mail, too.
std::optional<v1::Session> asker_with_mail(const transaction& tx, const v1::Approval& a) {
  if (a.kind() != approval::QUESTION || !a.conversation_id().empty() || a.requested_by().kind() != v1::Principal::SESSION)
    return std::nullopt;
  auto asker = tx.get<v1::Session>(key(a.requested_by().id()));
  return asker && asker->scope() == tx.scope() ? std::move(asker) : std::nullopt;
}

std::string answer_text(const v1::Approval& a) { return "Your question \"" + a.title() + "\" is answered: " + a.decision(); }

/// The asker may be idle: its answer comes as mail, too.
void tell_asker(transaction& tx, const v1::Approval& a) {
  if (const auto asker = asker_with_mail(tx, a))
    prompt(tx, "operator", asker->id(), answer_text(a), {}, waking::at_idle, false);
}

/// The call that waited has brought the answer: the mail would say it a second time.
void take_answer_back(transaction& tx, const v1::Approval& a) {
  if (const auto asker = asker_with_mail(tx, a); asker && !a.decision().empty())
    take_mail_back(tx, {.recipient = asker->id(), .content = answer_text(a), .sent_at_ms = a.decided_at_ms()});
}

} // namespace

v1::Approval::Kind approval_kind(const v1::Approval& a) noexcept { return a.kind() == approval::KIND_UNSPECIFIED ? approval::TASK : a.kind(); }

const char* to_text(v1::Approval::Kind k) noexcept {
  switch (k) {
    case approval::TOOL: return "tool";
    case approval::COMMAND: return "command";
    case approval::FILE: return "file";
    case approval::QUESTION: return "question";
    case approval::ELICITATION: return "elicitation";
    default: return "task";
  }
}

bool is_permission(approval::Kind k) noexcept { return k == approval::TOOL || k == approval::COMMAND || k == approval::FILE; }

v1::Reply request_approval(transaction& tx, const v1::RequestApproval& r) {
  const auto what = r.kind() == approval::KIND_UNSPECIFIED ? approval::TASK : r.kind();
  if (auto wrong = check_request(tx, r, what))
    return *wrong;
  v1::Approval a;
  a.set_kind(what);
  if (auto wrong = check_agent(tx, r, what))
    return *wrong;
  if (auto wrong = put_action(a, r))
    return *wrong;
  const auto who = asker_of(tx, r);
  const auto request_key = r.has_conversation() ? key_for(r.conversation()) : r.request_key();
  auto first = asked_before(tx, who, request_key);
  if (first && first->action_digest() == a.action_digest())
    return approval_reply(std::move(*first));
  if (auto full = check_room(tx, who, r.has_conversation()))
    return *full;
  r.has_conversation() ? forget_oldest_ended(tx, r.conversation().conversation_id()) : forget_oldest_ended(tx, who);
  if (first && first->decided_at_ms() == 0)
    withdraw(tx, *first, "its asker asks for another action now");
  a.set_id(tx.in().new_uuid());
  a.set_scope(tx.scope());
  a.set_subject(r.subject());
  a.set_request_key(request_key);
  if (r.has_conversation()) {
    a.set_subject("conversation/" + r.conversation().conversation_id());
    a.set_conversation_id(r.conversation().conversation_id());
    a.set_generation(r.conversation().generation());
    a.set_native_id(r.conversation().native_id());
    a.set_pattern(is_permission(what) ? r.conversation().pattern() : std::string{});
    a.set_tool(r.conversation().tool());
    *a.mutable_writes() = r.conversation().writes();
    a.set_more_writes(r.conversation().more_writes());
  }
  put_options(a, r);
  a.set_created_at_ms(tx.in().now_ms);
  if (const auto patience = patience_for(tx, r); patience > 0)
    a.set_deadline_ms(tx.in().now_ms + patience);
  *a.mutable_requested_by() = who;
  tx.put(a);
  announce(tx, a);
  follow_agent_requests(tx, a.conversation_id());
  return approval_reply(std::move(a));
}

v1::Reply withdraw_approval(transaction& tx, const v1::WithdrawApproval& w) {
  auto a = tx.get<v1::Approval>(key(w.approval_id()));
  const auto who = speaker(tx);
  const bool is_askers = a && who.kind() == v1::Principal::SESSION && principal_key(who) == principal_key(a->requested_by());
  if (!a || a->scope() != tx.scope() || (!is_trusted(who.kind()) && !is_askers))
    return refuse(v1::Refusal::NOT_FOUND, "There is no approval " + w.approval_id() + " of yours in this scope", w.approval_id());
  if (!a->conversation_id().empty() && who.kind() != v1::Principal::NODE)
    return refuse(v1::Refusal::FORBIDDEN, "The agent of a conversation waits for this one. Decide it: swarmctl decide " + a->id() + " deny", a->id());
  if (a->decided_at_ms() == 0) {
    withdraw(tx, *a, w.reason().empty() ? "its asker has withdrawn it" : w.reason());
    follow_agent_requests(tx, a->conversation_id());
  } else if (is_askers) {
    take_answer_back(tx, *a);
  }
  return approval_reply(std::move(*a));
}

v1::Reply report_delivery(transaction& tx, const v1::ReportDelivery& d) {
  auto a = tx.get<v1::Approval>(key(d.approval_id()));
  if (!a || a->scope() != tx.scope() || a->conversation_id().empty())
    return refuse(v1::Refusal::NOT_FOUND, "There is no approval " + d.approval_id() + " of a conversation in this scope", d.approval_id());
  if (d.generation() != a->generation())
    return refuse(v1::Refusal::STALE, "Another driver has asked for this approval", a->id());
  if (d.delivery() != approval::DELIVERED && d.delivery() != approval::REFUSED && d.delivery() != approval::OUTCOME_UNKNOWN)
    return refuse(v1::Refusal::INVALID, "A delivery is DELIVERED, REFUSED or OUTCOME_UNKNOWN", a->id());
  if (a->delivery() == approval::PENDING)
    end_delivery(tx, *a, d.delivery(), d.delivery() == approval::DELIVERED ? std::string{} : d.reason());
  return approval_reply(std::move(*a));
}

void withdraw_agent_requests(transaction& tx, const std::string& conversation_id, const std::string& why, bool driver_is_gone) {
  const auto has_room = [&](const v1::Approval& a) { return tx.has_room(a.ByteSizeLong() + limits::event_payload_bytes_max()); };
  for (auto& a : tx.find<v1::Approval>({.scope = tx.scope(), .open = true, .conversation_id = conversation_id}))
    if (has_room(a))
      withdraw(tx, a, why);
  if (!driver_is_gone)
    return;
  for (auto& a : tx.find<v1::Approval>({.scope = tx.scope(), .open = false, .conversation_id = conversation_id}))
    if (a.delivery() == approval::PENDING && has_room(a))
      end_delivery(tx, a, approval::OUTCOME_UNKNOWN, why);
}

bool settle_agent_request(transaction& tx, v1::Approval& a) {
  const bool is_open = a.decided_at_ms() == 0;
  if (a.conversation_id().empty() || (!is_open && a.delivery() != approval::PENDING))
    return false;
  const auto c = find_conversation(tx, a.conversation_id());
  if (c && has_driver(tx, *c) && c->generation() == a.generation())
    return false;
  is_open ? withdraw(tx, a, agent_has_ended) : end_delivery(tx, a, approval::OUTCOME_UNKNOWN, agent_has_ended);
  return true;
}

void forget_agent_requests(transaction& tx, const std::string& conversation_id) {
  for (auto& a : tx.find<v1::Approval>({.scope = tx.scope(), .conversation_id = conversation_id}))
    tx.has_room(a.ByteSizeLong()) ? forget(tx, a) : tx.erase(a);
}

bool approval_visible(const v1::Approval& a, const v1::Session& viewer) {
  const auto& asker = a.requested_by();
  if (asker.kind() == v1::Principal::SESSION && asker.id() == viewer.id())
    return true;
  return approval_kind(a) == approval::TASK && has_token(viewer.label(), gateway_token);
}

bool withdraw_questions(transaction& tx, const v1::Session& s) {
  for (auto& a : tx.find<v1::Approval>({.scope = tx.scope(), .open = true, .asker = s.id()})) {
    if (approval_kind(a) == approval::TASK || !a.conversation_id().empty() || a.requested_by().kind() != v1::Principal::SESSION)
      continue; // of a conversation's agent its driver's end withdraws them
    if (!tx.has_room(a.ByteSizeLong() + limits::event_payload_bytes_max()))
      return false;
    withdraw(tx, a, "the session that asked has ended");
  }
  return true;
}

v1::Reply decide_approval(transaction& tx, const v1::DecideApproval& d) {
  auto a = tx.get<v1::Approval>(key(d.approval_id()));
  if (!a || a->scope() != tx.scope())
    return refuse(v1::Refusal::NOT_FOUND, "There is no approval " + d.approval_id() + " in this scope", d.approval_id());
  if (auto refusal = check_decider(tx, *a, d))
    return *refusal;
  if (auto refusal = check(tx, *a, d))
    return approval_reply(std::move(*a), std::move(*refusal));
  if (d.option() == "always")
    if (auto full = allow_always(tx, *a))
      return approval_reply(std::move(*a), std::move(*full));
  *a->mutable_decided_by() = tx.command().principal();
  a->set_decision(d.option());
  a->set_decided_for(d.decided_for());
  a->set_decided_at_ms(tx.in().now_ms);
  if (!a->conversation_id().empty()) {
    a->set_delivery(approval::PENDING);
    a->set_message(d.message());
    a->set_edited_input(d.edited_input());
    *a->mutable_answers() = d.answers();
  }
  tx.put(*a);
  follow_agent_requests(tx, a->conversation_id());
  json payload = {{"subject", a->subject()}, {"kind", to_text(approval_kind(*a))}, {"decision", a->decision()}};
  if (is_answered_in_words(*a))
    payload.erase("decision");
  if (!a->decided_for().empty())
    payload["decided_for"] = a->decided_for();
  tx.event("approval.decided", a->id(), payload);
  tell_asker(tx, *a);
  return approval_reply(std::move(*a));
}

} // namespace swarm::domain
