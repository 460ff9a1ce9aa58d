#include "actors/domain/decide.hpp"

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/commands.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

v1::Reply as_reply(v1::Refusal refusal) {
  v1::Reply reply;
  *reply.mutable_refusal() = std::move(refusal);
  return reply;
}

/// An agent whose session has ended, or has not begun, is told what everybody without a session is told: its hooks register then.
v1::Refusal to_caller(v1::Refusal refusal, const v1::Command& cmd) {
  if (cmd.principal().kind() != v1::Principal::AGENT || cmd.has_register_session())
    return refusal;
  auto out = not_registered().refusal();
  out.set_explanation(std::move(*refusal.mutable_text()));
  return out;
}

bool acts_as_session(const v1::Command& cmd) { return !cmd.actor().empty() || cmd.principal().kind() == v1::Principal::SESSION; }

/// Updates the session's heartbeat at most once per limits::session_heartbeat, so that not every command writes the session's row. Replaces one
/// that lies far in the future as well: the clock was set back.
void keep_alive(transaction& tx, v1::Session session) {
  const auto age = tx.in().now_ms - session.heartbeat_ms();
  if (age <= limits::session_heartbeat().count() && age >= -limits::session_stale().count())
    return;
  session.set_heartbeat_ms(tx.in().now_ms);
  tx.put(std::move(session));
}

} // namespace

v1::Batch decide(const v1::Command& cmd, const rows_view& rows, const inputs& in, bool valid) {
  transaction tx(rows, cmd, in);
  if (auto refusal = valid ? std::nullopt : validate(cmd))
    return tx.take(as_reply(std::move(*refusal)));
  const auto* spec = spec_of(cmd);
  if (!spec)
    return tx.take(refuse(v1::Refusal::INVALID, "The command is empty or not known to this version"));
  if (auto refusal = authorize(cmd))
    return tx.take(as_reply(to_caller(std::move(*refusal), cmd)));
  if (auto refusal = authorize_place(cmd, rows))
    return tx.take(as_reply(std::move(*refusal)));
  if (acts_as_session(cmd)) {
    if (auto session = tx.acting_session())
      keep_alive(tx, std::move(*session));
    else if (!spec->unregistered)
      return tx.take(not_registered());
  }
  return tx.take(spec->run(tx, cmd));
}

std::string digest_of(v1::Command sent) {
  sent.clear_principal();
  if (sent.has_register_session()) {
    sent.mutable_register_session()->clear_node_id();
    sent.mutable_register_session()->clear_agent();
  }
  const auto clear = [](auto& body) {
    body.clear_node_id();
    body.clear_order();
  };
  if (sent.has_dispatch())
    clear(*sent.mutable_dispatch());
  if (sent.has_request_spawn())
    clear(*sent.mutable_request_spawn());
  if (sent.has_start_conversation())
    sent.mutable_start_conversation()->clear_node_id();
  return sha256(sent.SerializeAsString());
}

bool grows_store(const v1::Command& cmd) {
  const auto* spec = spec_of(cmd);
  return spec && spec->store == effect_on_store::grows;
}

} // namespace swarm::domain
