#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

v1::Reply approval_reply(v1::Approval a, v1::Reply reply = {}) {
  *reply.mutable_approval() = std::move(a);
  return reply;
}

/// Why this decision is not valid.
std::optional<v1::Reply> check(const transaction& tx, const v1::Approval& a, const v1::DecideApproval& d) {
  if (a.decided_at_ms() != 0)
    return refuse(v1::Refusal::STATE, a.decision().empty() ? "The approval has expired" : "Already decided: " + a.decision(), a.id());
  if (a.deadline_ms() != 0 && a.deadline_ms() <= tx.in().now_ms)
    return refuse(v1::Refusal::TIMEOUT, "The approval's deadline has passed. It must be asked for again.", a.id());
  if (a.action_digest() != d.action_digest())
    return refuse(v1::Refusal::STALE, "The action is not the one shown. Look at the approval again.", a.id());
  if (std::find(a.options().begin(), a.options().end(), d.option()) == a.options().end())
    return refuse(v1::Refusal::INVALID, "\"" + d.option() + "\" is not one of the options", a.id());
  return std::nullopt;
}

/// In whose name the command comes: the session, also when the operator acts as it.
v1::Principal requester(const transaction& tx) {
  auto who = tx.command().principal();
  if (const auto me = tx.acting_session(); me && who.kind() != v1::Principal::SESSION) {
    who.Clear();
    who.set_kind(v1::Principal::SESSION);
    who.set_id(me->id());
  }
  return who;
}

/// The task that the approval is about, if that is all it is about.
bool is_about_task(const transaction& tx, const v1::Approval& a) {
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

} // namespace

v1::Reply request_approval(transaction& tx, const v1::RequestApproval& r) {
  if (tx.count<v1::Approval>({.scope = tx.scope(), .open = true}) >= limits::approvals_open_max())
    return refuse(v1::Refusal::LIMIT, std::to_string(limits::approvals_open_max()) + " approvals are open. Decide some first.");
  v1::Approval a;
  a.set_id(tx.in().new_uuid());
  a.set_scope(tx.scope());
  a.set_subject(r.subject());
  a.set_action_digest(r.action_digest());
  *a.mutable_options() = r.options();
  if (a.options().empty()) {
    a.add_options("yes");
    a.add_options("no");
  }
  a.set_created_at_ms(tx.in().now_ms);
  if (r.timeout_ms() > 0)
    a.set_deadline_ms(tx.in().now_ms + r.timeout_ms());
  *a.mutable_requested_by() = requester(tx);
  tx.put(a);
  json options = json::array();
  for (const auto& option : a.options())
    options.push_back(option);
  tx.event("approval.requested", a.id(),
           {{"subject", a.subject()}, {"action_digest", to_hex(a.action_digest())}, {"options", options}, {"deadline_ms", a.deadline_ms()}});
  return approval_reply(std::move(a));
}

v1::Reply decide_approval(transaction& tx, const v1::DecideApproval& d) {
  auto a = tx.get<v1::Approval>(key(d.approval_id()));
  if (!a || a->scope() != tx.scope())
    return refuse(v1::Refusal::NOT_FOUND, "There is no approval " + d.approval_id() + " in this scope", d.approval_id());
  if (auto refusal = check_decider(tx, *a, d))
    return *refusal;
  if (auto refusal = check(tx, *a, d))
    return approval_reply(std::move(*a), std::move(*refusal));
  *a->mutable_decided_by() = tx.command().principal();
  a->set_decision(d.option());
  a->set_decided_for(d.decided_for());
  a->set_decided_at_ms(tx.in().now_ms);
  tx.put(*a);
  json payload = {{"subject", a->subject()}, {"decision", a->decision()}};
  if (!a->decided_for().empty())
    payload["decided_for"] = a->decided_for();
  tx.event("approval.decided", a->id(), payload);
  return approval_reply(std::move(*a));
}

} // namespace swarm::domain
