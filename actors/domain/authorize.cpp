#include "actors/domain/decide.hpp"

namespace swarm::domain {

namespace {

using body = v1::Command;

v1::Refusal forbid(std::string text) {
  v1::Refusal r;
  r.set_code(v1::Refusal::FORBIDDEN);
  r.set_text(std::move(text));
  return r;
}

bool is_node_report(const v1::Command& cmd) {
  switch (cmd.body_case()) {
    case body::kExpireSession:
    case body::kSpawnStarting:
    case body::kSpawnRunning:
    case body::kSpawnEnded:
    case body::kDeliverMessages: return true;
    case body::kSweep: return cmd.sweep().mode() != "manual";
    default: return false;
  }
}

/// Phones, browsers and messaging gateways talk, watch and decide; they own nothing in a scope.
bool open_to_doors(const v1::Command& cmd) {
  switch (cmd.body_case()) {
    case body::kSendMessage:
    case body::kBroadcast:
    case body::kSubscribe:
    case body::kAckSubscription:
    case body::kUnsubscribe:
    case body::kRequestApproval:
    case body::kDecideApproval: return true;
    default: return false;
  }
}

template <class Row>
std::optional<v1::Refusal> elsewhere(const std::optional<Row>& row, const std::string& node_id, const char* what) {
  if (!row || row->node_id() == node_id)
    return std::nullopt;
  return forbid(std::string{"This "} + what + " lives on another node than the one that speaks for it");
}

std::optional<v1::Refusal> session_elsewhere(const rows_view& rows, const std::string& id, const std::string& node_id) {
  return elsewhere(rows.row<v1::Session>(key(id)), node_id, "session");
}

std::optional<v1::Refusal> spawn_elsewhere(const rows_view& rows, const std::string& id, const std::string& node_id) {
  return elsewhere(rows.row<v1::Spawn>(key(id)), node_id, "worker");
}

std::optional<v1::Refusal> authorize_session(const v1::Command& cmd) {
  const auto& self = cmd.principal().id();
  if (self.empty())
    return forbid("A session principal needs an id");
  if (!cmd.actor().empty() && cmd.actor() != self)
    return forbid("A session may only act as itself");
  if (cmd.body_case() == body::kSweep)
    return forbid("Only the operator may clean up by hand");
  auto other = [&](const std::string& id) { return !id.empty() && id != self; };
  if (cmd.body_case() == body::kDeregisterSession && other(cmd.deregister_session().session_id()))
    return forbid("A session may only deregister itself. Use remove_instance for another one.");
  if (cmd.body_case() == body::kHeartbeat && other(cmd.heartbeat().session_id()))
    return forbid("A session may only keep itself alive");
  if (cmd.body_case() == body::kReportAgent && other(cmd.report_agent().session_id()))
    return forbid("A session may only report what it does itself");
  return std::nullopt;
}

} // namespace

std::optional<v1::Refusal> authorize(const v1::Command& cmd) {
  auto kind = cmd.principal().kind();
  if (kind == v1::Principal::NODE) {
    // Another node reports what happens to its own processes; this one also looks after the scope.
    auto about_its_own = (is_node_report(cmd) && !cmd.has_sweep()) || cmd.has_report_agent();
    if (!cmd.principal().node().empty() && !about_its_own)
      return forbid("Another node only reports what becomes of its processes and sessions");
    return std::nullopt;
  }
  if (is_node_report(cmd))
    return forbid("Only the node itself reports processes and expiries");
  switch (kind) {
    case v1::Principal::OPERATOR: return std::nullopt;
    case v1::Principal::SESSION: return authorize_session(cmd);
    case v1::Principal::DEVICE:
    case v1::Principal::GATEWAY:
      if (!cmd.actor().empty())
        return forbid("A device or gateway may not act as a session");
      if (!open_to_doors(cmd))
        return forbid("A device or gateway may not send this command");
      return std::nullopt;
    default: return forbid("The caller is not known");
  }
}

std::optional<v1::Refusal> authorize_place(const v1::Command& cmd, const rows_view& rows) {
  const auto& who = cmd.principal();
  if (who.node().empty())
    return std::nullopt;
  if (who.kind() == v1::Principal::SESSION)
    return session_elsewhere(rows, who.id(), who.node());
  if (who.kind() != v1::Principal::NODE)
    return std::nullopt;
  switch (cmd.body_case()) {
    case body::kExpireSession: return session_elsewhere(rows, cmd.expire_session().session_id(), who.node());
    case body::kDeliverMessages: return session_elsewhere(rows, cmd.deliver_messages().session_id(), who.node());
    case body::kReportAgent: return session_elsewhere(rows, cmd.report_agent().session_id(), who.node());
    case body::kSpawnStarting: return spawn_elsewhere(rows, cmd.spawn_starting().spawn_id(), who.node());
    case body::kSpawnRunning: return spawn_elsewhere(rows, cmd.spawn_running().spawn_id(), who.node());
    case body::kSpawnEnded: return spawn_elsewhere(rows, cmd.spawn_ended().spawn_id(), who.node());
    default: return std::nullopt;
  }
}

std::optional<v1::Refusal> authorize_place(const v1::Query& query, const rows_view& rows) {
  const auto& who = query.principal();
  if (who.node().empty() || who.kind() != v1::Principal::SESSION)
    return std::nullopt;
  return session_elsewhere(rows, who.id(), who.node());
}

std::optional<v1::Refusal> authorize(const v1::Query& query) {
  const auto& who = query.principal();
  if (who.kind() == v1::Principal::KIND_UNSPECIFIED)
    return forbid("The caller is not known");
  if (who.kind() != v1::Principal::SESSION)
    return std::nullopt;
  if (who.id().empty())
    return forbid("A session principal needs an id");
  if (!query.viewer().empty() && query.viewer() != who.id())
    return forbid("A session may only look with its own eyes");
  return std::nullopt;
}

} // namespace swarm::domain
