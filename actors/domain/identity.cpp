#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

constexpr std::string_view blanks = " \t\r\n\f\v";
constexpr std::string_view identity_prefix = "identity:";

/// Calls `visit` with each whitespace-separated token until it returns true.
template <class Visit>
std::string find_token(std::string_view label, Visit visit) {
  while (true) {
    auto start = label.find_first_not_of(blanks);
    if (start == std::string_view::npos)
      return {};
    label.remove_prefix(start);
    auto token = label.substr(0, label.find_first_of(blanks));
    if (visit(token))
      return std::string(token);
    label.remove_prefix(token.size());
  }
}

/// May this caller's overrides of the identity boundary have any effect?
bool may_override(const v1::Principal& who) { return !may(who, operation::cross_identity); }

} // namespace

bool acts_as_operator(const transaction& tx) { return tx.command().principal().kind() == v1::Principal::OPERATOR && tx.command().actor().empty(); }

v1::Principal speaker(const transaction& tx) {
  auto who = tx.command().principal();
  if (const auto me = tx.acting_session(); me && who.kind() != v1::Principal::SESSION) {
    who.Clear();
    who.set_kind(v1::Principal::SESSION);
    who.set_id(me->id());
  }
  return who;
}

std::optional<v1::Reply> check_grants(const transaction& tx, const grant_list& grants, const grant_time_list& times) {
  for (auto g = grants.begin(); g != grants.end(); ++g) {
    if (!is_grant(v1::Principal::SESSION, *g))
      return refuse(v1::Refusal::INVALID, "Unknown grant \"" + *g + "\". Expected one of: " + grant_names(v1::Principal::SESSION), *g);
    if (std::find(grants.begin(), g, *g) != g)
      return refuse(v1::Refusal::INVALID, "The grant \"" + *g + "\" is named twice", *g);
  }
  const auto same = [](const v1::GrantTime& a) { return [&](const v1::GrantTime& b) { return a.grant() == b.grant(); }; };
  for (auto t = times.begin(); t != times.end(); ++t) {
    if (std::find(grants.begin(), grants.end(), t->grant()) == grants.end())
      return refuse(v1::Refusal::INVALID, "A time is given for \"" + t->grant() + "\", which is none of the grants", t->grant());
    if (std::find_if(times.begin(), t, same(*t)) != t)
      return refuse(v1::Refusal::INVALID, "The grant \"" + t->grant() + "\" is given two times to end at", t->grant());
    if (t->for_ms() == 0)
      return refuse(v1::Refusal::INVALID, "The grant \"" + t->grant() + "\" would end at once. Give it a time above 0, or none.", t->grant());
  }
  if (!grants.empty() && may(tx.command().principal(), operation::give_grants))
    return refuse(v1::Refusal::FORBIDDEN, tx.command().principal().kind() == v1::Principal::SESSION
                                            ? "A session may not give grants. Leave --grant out, or let the operator start that session."
                                            : "Only the operator gives grants. Leave --grant out, or let the operator start that session.");
  return std::nullopt;
}

grant_end_list grant_ends(const grant_time_list& times, std::int64_t now_ms) {
  grant_end_list out;
  for (const auto& t : times) {
    auto& end = *out.Add();
    end.set_grant(t.grant());
    end.set_until_ms(now_ms + t.for_ms());
  }
  return out;
}

std::string identity_token(std::string_view label) {
  return find_token(label, [](auto token) { return token.substr(0, identity_prefix.size()) == identity_prefix; });
}

std::string role_of(std::string_view label) {
  auto token = find_token(label, [](auto t) { return t.size() > 5 && t.substr(0, 5) == "role:"; });
  return token.empty() ? token : token.substr(5);
}

bool has_token(std::string_view label, std::string_view wanted) {
  return !find_token(label, [&](auto token) { return token == wanted; }).empty();
}

bool has_word(std::string_view label, std::string_view word) {
  return !word.empty() && !find_token(label, [&](auto token) {
                             return token == word ||
                                    (token.size() > word.size() && token.ends_with(word) && token[token.size() - word.size() - 1] == ':');
                           }).empty();
}

bool begins_id(std::string_view id, std::string_view word) { return word.size() >= limits::id_prefix_min && id.starts_with(word); }

std::string caller_identity_token(const transaction& tx) {
  const auto& name = tx.command().caller().identity();
  if (name.empty() || !identity_token(name).empty())
    return identity_token(name);
  auto token = std::string(identity_prefix) + name;
  return token.find_first_of(blanks) == std::string::npos ? token : std::string{};
}

std::string actor_identity_token(const transaction& tx) {
  const auto me = tx.acting_session();
  return me ? identity_token(me->label()) : caller_identity_token(tx);
}

bool is_name(std::string_view text) noexcept {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

std::string identity_name(std::string_view identity) {
  if (identity.substr(0, identity_prefix.size()) == identity_prefix)
    identity.remove_prefix(identity_prefix.size());
  return is_name(identity) ? std::string(identity) : std::string();
}

std::string effective_identity(std::string_view label, const inputs& in) {
  auto token = identity_token(label);
  return token.empty() ? in.user_identity : token;
}

bool may_cross_identity(const v1::Command& cmd) { return cmd.caller().allow_cross_identity() && may_override(cmd.principal()); }

bool may_cross_identity(const v1::Query& query) { return query.caller().allow_cross_identity() && may_override(query.principal()); }

bool same_identity(const transaction& tx, std::string_view identity_a, std::string_view identity_b) {
  return identity_a == identity_b || may_cross_identity(tx.command());
}

std::optional<v1::Reply> identity_boundary(const transaction& tx, const v1::Session& sender, const v1::Session& target) {
  if (same_identity(tx, sender.identity(), target.identity()))
    return std::nullopt;
  auto a = identity_token(sender.label()), b = identity_token(target.label());
  if (a.empty() || b.empty()) {
    if (tx.command().caller().allow_unlabeled() && may_override(tx.command().principal()))
      return std::nullopt;
    return refuse(v1::Refusal::CROSS_IDENTITY,
                  "Identity boundary blocked: " + std::string(a.empty() ? "sender" : "target") +
                    " has no identity token. Add an identity:<name> label or set SWARM_MCP_ALLOW_UNLABELED=1 from a trusted shell.",
                  target.id());
  }
  return refuse(v1::Refusal::CROSS_IDENTITY,
                "Cross-identity coordination blocked: sender " + a + ", target " + b +
                  ". Delegation across the identity boundary is forbidden (see swarm-mcp/docs/control-plane.md). Set "
                  "SWARM_MCP_ALLOW_CROSS_IDENTITY=1 to override from a trusted shell.",
                target.id());
}

v1::Reply not_registered() { return refuse(v1::Refusal::NOT_REGISTERED, "Not registered. Call register first."); }

std::string display_name(const v1::Session& s) { return s.label().empty() ? s.id() : s.label(); }

bool is_held(const v1::Session& s) noexcept {
  return s.adopted() && (s.presence() == v1::Session::PROCESS || s.presence() == v1::Session::CONNECTION);
}

} // namespace swarm::domain
