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
  if (kind == v1::Principal::NODE)
    return std::nullopt;
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
