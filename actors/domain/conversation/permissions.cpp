// What the agent of a conversation may do unasked, and which model and mode it is to have.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/conversation/rules.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation; // for the names of its permissions

bool loosens(conversation::Permissions p) { return p == conversation::AUTO_EDIT || p == conversation::AUTO; }

/// Each of the two denies something that the other one lets pass, so neither is looser.
bool is_strict(conversation::Permissions p) { return p == conversation::PLAN || p == conversation::DENY; }

bool loosens(conversation::Permissions from, conversation::Permissions to) {
  return loosens(to) || (is_strict(from) && to != from && to != conversation::PERMISSIONS_UNSPECIFIED);
}

/// In every other mode an agent may do things that it asks nobody about.
bool is_loose_mode(const std::string& mode) { return !mode.empty() && mode != "plan"; }
/// In this mode an agent asks nobody about anything, for as long as it lives.
constexpr std::string_view bypass_mode = "bypassPermissions";

void put_wishes(conversation& c, const std::string& model, const std::string& mode) {
  if (model.empty() && mode.empty())
    return;
  c.set_wishes(c.wishes() + 1);
  if (!model.empty())
    c.set_wished_model(model);
  if (!mode.empty())
    c.set_wished_mode(mode);
}

/// Refuses a caller who may not loosen what an agent may do.
std::optional<v1::Reply> check_may_loosen(const transaction& tx) {
  if (auto refused = may(tx.command().principal(), operation::loosen_permissions)) {
    v1::Reply r;
    *r.mutable_refusal() = std::move(*refused);
    return r;
  }
  if (tx.acting_session())
    return refuse(v1::Refusal::FORBIDDEN, "A session does not say what an agent may do unasked. Do it as yourself, without --session.");
  return std::nullopt;
}

/// Or empty. The agent gets it among its arguments.
bool is_word(std::string_view text) {
  return !text.starts_with('-') && std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::optional<v1::Reply> check_permissions(conversation::Permissions permissions, std::int64_t for_ms, const std::string& model,
                                           const std::string& mode) {
  if (!conversation::Permissions_IsValid(permissions))
    return refuse(v1::Refusal::INVALID, "There are no such permissions. Known: ask, auto-edit, auto, plan, deny.");
  if (for_ms != 0 && permissions != conversation::AUTO)
    return refuse(v1::Refusal::INVALID, "Only the permissions auto hold for a time. Leave permissions_ms out.");
  if (!is_word(model) || !is_word(mode))
    return refuse(v1::Refusal::INVALID, "A model and a mode are words of the agent, which begin with no - and have no control characters.");
  if (mode == bypass_mode)
    return refuse(v1::Refusal::INVALID, "In that mode nobody is ever asked, and nothing ends it. Take --permissions auto, which ends by itself.");
  return std::nullopt;
}

/// An agent does not change what it may do itself, not even to less: people see what they have set.
std::optional<v1::Reply> check_setter(const transaction& tx, const conversation& c) {
  if (!is_itself(tx, c))
    return std::nullopt;
  return refuse(v1::Refusal::FORBIDDEN, "A session does not change the conversation that it is itself. Ask the operator.", c.id());
}

conversation::Permissions permissions_now(const transaction& tx, conversation c) {
  end_bypass(c, tx.in().now_ms);
  return c.permissions();
}

/// Patterns name commands, and events are for everybody in the scope.
json described(const conversation& c) {
  return {{"permissions", to_text(c.permissions())}, {"permissions_end_ms", c.permissions_end_ms()}, {"allowed", c.allowed_size()}};
}

} // namespace

const char* to_text(conversation::Permissions p) noexcept {
  switch (p) {
    case conversation::AUTO_EDIT: return "auto-edit";
    case conversation::AUTO: return "auto";
    case conversation::PLAN: return "plan";
    case conversation::DENY: return "deny";
    default: return "ask";
  }
}

bool end_bypass(conversation& c, std::int64_t now_ms) {
  if (c.permissions() == conversation::PERMISSIONS_UNSPECIFIED)
    c.set_permissions(conversation::ASK);
  if (c.permissions() != conversation::AUTO || c.permissions_end_ms() > now_ms)
    return false;
  c.set_permissions(conversation::ASK);
  c.clear_permissions_end_ms();
  return true;
}

std::optional<v1::Reply> check_loosening(const transaction& tx, conversation::Permissions permissions) {
  return loosens(permissions) ? check_may_loosen(tx) : std::nullopt;
}

void put_permissions(const transaction& tx, conversation& c, conversation::Permissions permissions, std::int64_t for_ms) {
  c.set_permissions(permissions == conversation::PERMISSIONS_UNSPECIFIED ? conversation::ASK : permissions);
  c.clear_permissions_end_ms();
  if (permissions == conversation::AUTO)
    c.set_permissions_end_ms(tx.in().now_ms + (for_ms != 0 ? for_ms : limits::conversation_bypass_max.count()));
}

std::optional<v1::Reply> put_first_permissions(const transaction& tx, conversation& c, const v1::StartConversation& s) {
  if (loosens(s.permissions()) || !s.allowed().empty() || is_loose_mode(s.mode()))
    if (auto refused = check_may_loosen(tx))
      return refused;
  if (auto wrong = check_permissions(s.permissions(), s.permissions_ms(), s.model(), s.mode()))
    return wrong;
  if (auto wrong = check_new_patterns(s.allowed(), s.harness()))
    return wrong;
  put_permissions(tx, c, s.permissions(), s.permissions_ms());
  add_patterns(c, s.allowed());
  if (auto full = check_patterns(c))
    return full;
  put_wishes(c, s.model(), s.mode());
  return std::nullopt;
}

v1::Reply set_conversation(transaction& tx, const v1::SetConversation& s) {
  auto c = find_conversation(tx, s.conversation_id());
  if (!c)
    return no_conversation(s.conversation_id());
  if (auto refused = check_setter(tx, *c))
    return *refused;
  if (loosens(permissions_now(tx, *c), s.permissions()) || !s.allow().empty() || is_loose_mode(s.mode()))
    if (auto refused = check_may_loosen(tx))
      return *refused;
  if (auto wrong = check_permissions(s.permissions(), s.permissions_ms(), s.model(), s.mode()))
    return *wrong;
  if (auto wrong = check_new_patterns(s.allow(), c->harness()))
    return *wrong;
  const auto before = c->SerializeAsString();
  if (s.permissions() != conversation::PERMISSIONS_UNSPECIFIED)
    put_permissions(tx, *c, s.permissions(), s.permissions_ms());
  for (const auto& pattern : s.forget())
    c->mutable_allowed()->erase(std::remove(c->mutable_allowed()->begin(), c->mutable_allowed()->end(), pattern), c->mutable_allowed()->end());
  add_patterns(*c, s.allow());
  if (auto full = check_patterns(*c))
    return *full;
  put_wishes(*c, s.model(), s.mode());
  if (c->SerializeAsString() == before)
    return conversation_reply(std::move(*c));
  put_changed(tx, *c);
  tx.event("conversation.set", c->id(), described(*c));
  return conversation_reply(std::move(*c));
}

std::optional<v1::Reply> allow_always(transaction& tx, const v1::Approval& a) {
  auto c = a.pattern().empty() ? std::nullopt : find_conversation(tx, a.conversation_id());
  if (!c)
    return std::nullopt;
  pattern_list one;
  *one.Add() = a.pattern();
  if (add_patterns(*c, one) == 0)
    return std::nullopt;
  if (auto full = check_patterns(*c))
    return full;
  put_changed(tx, *c);
  auto payload = described(*c);
  payload["approval_id"] = a.id();
  tx.event("conversation.set", c->id(), payload);
  return std::nullopt;
}

bool end_task_permissions(transaction& tx, conversation& c) {
  if (!loosens(c.permissions()))
    return false;
  c.set_permissions(conversation::ASK);
  c.clear_permissions_end_ms();
  tx.event("conversation.set", c.id(), described(c), "system");
  return true;
}

bool settle_permissions(transaction& tx, conversation& c) {
  if (c.permissions() != conversation::AUTO || !end_bypass(c, tx.in().now_ms))
    return false;
  put_changed(tx, c);
  tx.event("conversation.set", c.id(), described(c), "system");
  return true;
}

} // namespace swarm::domain
