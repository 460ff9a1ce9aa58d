#include "actors/domain/commands.hpp"
#include "actors/domain/decide.hpp"
#include "actors/domain/refusal.hpp"

namespace swarm::domain {

namespace {

v1::Refusal forbid(std::string text) { return refusal(v1::Refusal::FORBIDDEN, std::move(text)); }

/// A sweep says itself whether it is a person's.
bool is_of_node(const command_spec& spec, const v1::Command& cmd) {
  return spec.from.get() == rights::node || (cmd.has_sweep() && cmd.sweep().mode() != "manual");
}

std::optional<v1::Refusal> session_elsewhere(const rows_view& rows, const std::string& id, const std::string& node_id) {
  const auto row = rows.row<v1::Session>(key(id));
  if (!row || row->node_id() == node_id)
    return std::nullopt;
  const auto& host = row->node_name().empty() ? row->node_id() : row->node_name();
  return forbid("The session " + id + " lives on host " + host + "; run this there");
}

std::optional<v1::Refusal> spawn_elsewhere(const rows_view& rows, const std::string& id, const std::string& node_id) {
  const auto row = rows.row<v1::Spawn>(key(id));
  if (!row || row->node_id() == node_id)
    return std::nullopt;
  return forbid("The worker " + id + " runs on node " + row->node_id() + "; only that node reports about it");
}

std::optional<v1::Refusal> conversation_elsewhere(const rows_view& rows, const std::string& id, const std::string& node_id) {
  const auto row = rows.row<v1::Conversation>(key(id));
  if (!row || row->node_id() == node_id)
    return std::nullopt;
  return forbid("The conversation " + id + " is on node " + row->node_id() + "; only that node reports about it");
}

constexpr const char* other_host = "Conversations are used on the host that is the home of their scope. Run this there.";

/// Decided here: what the agent of a conversation waits for.
bool is_of_conversation(const v1::Command& cmd, const rows_view& rows) {
  const auto row = cmd.has_decide_approval() ? rows.row<v1::Approval>(key(cmd.decide_approval().approval_id())) : std::nullopt;
  return row && !row->conversation_id().empty();
}

/// A session acts as itself; what else could not be told from it acts as nobody.
std::optional<v1::Refusal> authorize_actor(const command_spec& spec, const v1::Command& cmd) {
  const auto& who = cmd.principal();
  if (who.kind() != v1::Principal::SESSION)
    return cmd.actor().empty() ? std::nullopt : may(who, operation::act_as_session);
  if (who.id().empty())
    return forbid("A session principal needs an id");
  if (!cmd.actor().empty() && cmd.actor() != who.id())
    return forbid("A session may only act as itself");
  if (spec.from.get().own.has(who.kind()) && !spec.about.id(cmd).empty() && spec.about.id(cmd) != who.id())
    return forbid(spec.about.own_only);
  return std::nullopt;
}

} // namespace

std::optional<v1::Refusal> authorize(const v1::Command& cmd) {
  const auto* spec = spec_of(cmd);
  if (!spec)
    return forbid("Nobody may send a command that this version does not know");
  const auto& who = cmd.principal();
  if (who.kind() == v1::Principal::NODE) {
    // Another node reports what happens to its own processes; this one also looks after the scope.
    if (!who.node().empty() && !spec->from_other_nodes)
      return forbid("Another node only reports what becomes of its processes and sessions");
    return may(who, &spec->from.get());
  }
  if (is_of_node(*spec, cmd))
    return forbid("Only the node itself reports processes and expiries");
  if (auto refused = may(who, &spec->from.get()))
    return refused;
  return authorize_actor(*spec, cmd);
}

std::optional<v1::Refusal> authorize_place(const v1::Command& cmd, const rows_view& rows) {
  const auto& who = cmd.principal();
  if (who.node().empty())
    return std::nullopt;
  const auto* spec = spec_of(cmd);
  if ((spec && spec->here_only) || is_of_conversation(cmd, rows))
    return forbid(other_host);
  if (who.kind() == v1::Principal::SESSION)
    return session_elsewhere(rows, who.id(), who.node());
  if (who.kind() != v1::Principal::NODE)
    return std::nullopt;
  if (!spec || !spec->about.id)
    return std::nullopt;
  switch (spec->about.kind) {
    case subject::session: return session_elsewhere(rows, spec->about.id(cmd), who.node());
    case subject::worker: return spawn_elsewhere(rows, spec->about.id(cmd), who.node());
    case subject::conversation: return conversation_elsewhere(rows, spec->about.id(cmd), who.node());
    case subject::task:
    case subject::nothing: break;
  }
  return std::nullopt;
}

std::optional<v1::Refusal> authorize_place(const v1::Query& query, const rows_view& rows) {
  const auto& who = query.principal();
  if (who.node().empty())
    return std::nullopt;
  if (who.kind() != v1::Principal::NODE && (query.has_list_conversations() || query.has_list_prompts() || query.has_list_usage()))
    return forbid(other_host);
  if (who.kind() != v1::Principal::SESSION)
    return std::nullopt;
  return session_elsewhere(rows, who.id(), who.node());
}

std::optional<v1::Refusal> authorize(const v1::Query& query) {
  const auto& who = query.principal();
  if (auto refused = may(who, right_to(query.body_case())))
    return refused;
  switch (who.kind()) {
    case v1::Principal::OPERATOR:
    case v1::Principal::ORPHAN: // it sees no more with a session's eyes than with its own
    case v1::Principal::NODE: return std::nullopt;
    case v1::Principal::SESSION:
      if (who.id().empty())
        return forbid("A session principal needs an id");
      if (!query.viewer().empty() && query.viewer() != who.id())
        return forbid("A session may only look with its own eyes");
      return std::nullopt;
    default: return query.viewer().empty() ? std::nullopt : may(who, operation::act_as_session);
  }
}

} // namespace swarm::domain
