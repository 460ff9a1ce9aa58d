#include "actors/domain/session/registrant.hpp"

#include <algorithm>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rights.hpp"

namespace swarm::domain {

namespace {

using kind = v1::Principal;

const v1::Principal& caller(const transaction& tx) { return tx.command().principal(); }

bool is_person(const transaction& tx) { return caller(tx).kind() == kind::OPERATOR || caller(tx).kind() == kind::NODE; }

const std::string& node_of(const transaction& tx, const v1::RegisterSession& r) { return r.node_id().empty() ? tx.in().node_id : r.node_id(); }

bool is_of_agent(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  return !r.agent().root().empty() && s.agent_root() == r.agent().root() && s.node_id() == node_of(tx, r);
}

/// What a session is known as, wherever its row is. A worker's outlives its row: the spawn says what it was made for.
std::optional<v1::Session> known_session(const transaction& tx, const std::string& id) {
  if (auto row = tx.get<v1::Session>(key(id)))
    return row;
  spawn_filter f;
  f.session_id = id;
  f.limit = 1;
  auto spawns = tx.find<v1::Spawn>(f);
  if (spawns.empty())
    return std::nullopt;
  v1::Session s;
  s.set_label(spawns.front().label());
  s.set_identity(effective_identity(s.label(), tx.in()));
  return s;
}

/// Calls `keep` with each token of the label and puts together those that it keeps.
template <class Keep>
std::string kept_tokens(std::string_view label, Keep keep) {
  constexpr std::string_view blanks = " \t\r\n\f\v";
  std::string out;
  for (auto start = label.find_first_not_of(blanks); start != label.npos; start = label.find_first_not_of(blanks)) {
    label.remove_prefix(start);
    auto token = label.substr(0, label.find_first_of(blanks));
    label.remove_prefix(token.size());
    if (keep(token))
      out += concat({out.empty() ? "" : " ", token});
  }
  return out;
}

/// Who is no session yet registers as what anybody is here, unless it may choose.
std::optional<v1::Reply> check_unregistered(const transaction& tx, const v1::Session& wanted) {
  const auto& who = caller(tx);
  if (has_token(wanted.label(), gateway_token))
    if (auto refused = may(who, operation::make_coordinators))
      return refuse(v1::Refusal::FORBIDDEN, "Only the operator registers coordinators. Leave mode:gateway out of the label. " + refused->text());
  if (wanted.identity() != tx.in().user_identity)
    if (auto refused = may(who, operation::choose_identity))
      return refuse(v1::Refusal::FORBIDDEN,
                    "Only the operator registers another identity than the node user's. Leave identity: out of the label. " + refused->text());
  return std::nullopt;
}

void say(std::string& note, std::string text) { note += (note.empty() ? "" : " ") + std::move(text); }

} // namespace

bool is_made_for_caller(const transaction& tx, const v1::Session& s, const v1::RegisterSession& r) {
  if (is_person(tx))
    return true;
  const auto& who = caller(tx);
  if (who.kind() == kind::SESSION && (s.id() == who.id() || s.made_by() == who.id()))
    return true;
  if (is_of_agent(tx, s, r) || (!r.agent().instance_id().empty() && r.agent().instance_id() == s.id()))
    return true;
  return !r.agent_session().empty() && s.agent_session() == sha256(r.agent_session());
}

std::string label_in_rights(const transaction& tx, const v1::RegisterSession& r, const v1::Session* present, std::string& note) {
  if (!r.has_agent() || is_person(tx))
    return r.label();
  auto identity = present ? identity_token(present->label()) : std::string{};
  if (identity.empty())
    identity = identity_token(r.agent().identity());
  const bool coordinator = r.agent().coordinator() || (present && has_token(present->label(), gateway_token));
  std::string rest = kept_tokens(r.label(), [&](std::string_view token) {
    if (token == gateway_token && !coordinator) {
      say(note, "mode:gateway was left out of the label: an agent is a coordinator only when a person starts its program as one, for instance with "
                "SWARM_ROLE=gateway.");
      return false;
    }
    if (identity_token(token).empty() || token == identity)
      return true;
    say(note, concat({token, " was left out of the label: ",
                      identity.empty() ? "this agent was started without an identity" : "this agent was started as " + identity,
                      ". A person gives it another one where its program is started, with AGENT_IDENTITY."}));
    return false;
  });
  if (identity.empty() || identity_token(rest) == identity)
    return note.empty() && !rest.empty() ? r.label() : rest;
  return rest.empty() ? identity : identity + " " + rest;
}

std::optional<v1::Reply> check_registrant(const transaction& tx, const v1::RegisterSession& r, const v1::Session& wanted) {
  const auto& who = caller(tx);
  // Below an agent's program its start has had its say already (label_in_rights).
  if (r.has_agent())
    return std::nullopt;
  if (who.kind() != kind::SESSION)
    return check_unregistered(tx, wanted);
  const auto present = known_session(tx, who.id());
  if (!present)
    return refuse(v1::Refusal::FORBIDDEN,
                  "Your session has ended, so nobody knows its identity any more. Register from a shell of the operator, without its SWARM_TOKEN.",
                  who.id());
  if (wanted.identity() != present->identity()) {
    const auto token = identity_token(present->label());
    return refuse(v1::Refusal::FORBIDDEN,
                  "A session may not register under another identity than its own. Register " +
                    (token.empty() ? std::string("without an identity: token") : "with " + token + " in the label") +
                    ", or let the operator register the other identity.",
                  who.id());
  }
  if (has_token(wanted.label(), gateway_token) && !has_token(present->label(), gateway_token))
    return refuse(v1::Refusal::FORBIDDEN,
                  "A session may not make itself or another one a coordinator. Leave mode:gateway out of the label, or let the operator register it.",
                  who.id());
  return std::nullopt;
}

std::optional<v1::Session> session_of_agent(const transaction& tx, const v1::RegisterSession& r) {
  if (r.agent().root().empty())
    return std::nullopt;
  if (caller(tx).kind() == kind::SESSION)
    if (auto own = tx.get<v1::Session>(key(caller(tx).id())); own && own->scope() == tx.scope() && !is_held(*own) && is_of_agent(tx, *own, r))
      return own;
  std::optional<v1::Session> found;
  for (auto& s : tx.find<v1::Session>({.scope = tx.scope()})) {
    if (is_held(s) || !is_of_agent(tx, s, r))
      continue;
    if (found)
      return std::nullopt; // of several nobody can tell which is meant
    found = std::move(s);
  }
  return found;
}

void add_grants_of_start(const transaction& tx, v1::Session& s, const v1::RegisterSession& r) {
  if (is_person(tx))
    return;
  for (const auto& grant : r.agent().grants()) {
    if (is_grant(kind::SESSION, grant) && std::find(s.grants().begin(), s.grants().end(), grant) == s.grants().end())
      s.add_grants(grant);
  }
}

void remember_registrant(const transaction& tx, v1::Session& s, const v1::RegisterSession& r) {
  if (!r.agent().root().empty())
    s.set_agent_root(r.agent().root());
  if (!r.agent_session().empty())
    s.set_agent_session(sha256(r.agent_session()));
  if (caller(tx).kind() == kind::SESSION && s.made_by().empty() && s.id() != caller(tx).id())
    s.set_made_by(caller(tx).id());
}

} // namespace swarm::domain
