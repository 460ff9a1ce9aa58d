#include "actors/domain/decide.hpp"

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

using body = v1::Command;

v1::Reply as_reply(v1::Refusal refusal) {
  v1::Reply reply;
  *reply.mutable_refusal() = std::move(refusal);
  return reply;
}

/// These make sense without a row of the one who acts: they make it, end it, or come from the node.
bool works_unregistered(const v1::Command& cmd) {
  switch (cmd.body_case()) {
    case body::kRegisterSession:
    case body::kDeregisterSession:
    case body::kHeartbeat:
    case body::kExpireSession:
    case body::kSpawnStarting:
    case body::kSpawnRunning:
    case body::kSpawnEnded:
    case body::kDeliverMessages:
    case body::kSweep: return true;
    default: return false;
  }
}

bool acts_as_session(const v1::Command& cmd) { return !cmd.actor().empty() || cmd.principal().kind() == v1::Principal::SESSION; }

/// Whoever sends a command is alive.
void keep_alive(transaction& tx, v1::Session session) {
  const auto age = tx.in().now_ms - session.heartbeat_ms();
  if (age <= limits::session_heartbeat().count() && age >= -limits::session_stale().count())
    return;
  session.set_heartbeat_ms(tx.in().now_ms);
  tx.put(std::move(session));
}

v1::Reply run(transaction& tx, const v1::Command& cmd) {
  switch (cmd.body_case()) {
    case body::kRegisterSession: return register_session(tx, cmd.register_session());
    case body::kDeregisterSession: return deregister_session(tx, cmd.deregister_session());
    case body::kRemoveSession: return remove_session(tx, cmd.remove_session());
    case body::kHeartbeat: return heartbeat(tx, cmd.heartbeat());
    case body::kExpireSession: return expire_session(tx, cmd.expire_session());
    case body::kReportAgent: return report_agent(tx, cmd.report_agent());
    case body::kSendMessage: return send_message(tx, cmd.send_message());
    case body::kBroadcast: return broadcast(tx, cmd.broadcast());
    case body::kConsumeMessages: return consume_messages(tx, cmd.consume_messages());
    case body::kDeliverMessages: return deliver_messages(tx, cmd.deliver_messages());
    case body::kCreateTasks: return create_tasks(tx, cmd.create_tasks());
    case body::kClaimTask: return claim_task(tx, cmd.claim_task());
    case body::kClaimNextTask: return claim_next_task(tx, cmd.claim_next_task());
    case body::kUpdateTask: return update_task(tx, cmd.update_task());
    case body::kCompleteTask: return complete_task(tx, cmd.complete_task());
    case body::kReportProgress: return report_progress(tx, cmd.report_progress());
    case body::kApproveTask: return approve_task(tx, cmd.approve_task());
    case body::kAcquireLock: return acquire_lock(tx, cmd.acquire_lock());
    case body::kReleaseLock: return release_lock(tx, cmd.release_lock());
    case body::kCancelLockWait: return cancel_lock_wait(tx, cmd.cancel_lock_wait());
    case body::kSetKv: return set_kv(tx, cmd.set_kv());
    case body::kAppendKv: return append_kv(tx, cmd.append_kv());
    case body::kDeleteKv: return delete_kv(tx, cmd.delete_kv());
    case body::kDispatch: return dispatch(tx, cmd.dispatch());
    case body::kRequestSpawn: return request_spawn(tx, cmd.request_spawn());
    case body::kSpawnStarting: return spawn_starting(tx, cmd.spawn_starting());
    case body::kSpawnRunning: return spawn_running(tx, cmd.spawn_running());
    case body::kSpawnEnded: return spawn_ended(tx, cmd.spawn_ended());
    case body::kSubscribe: return subscribe(tx, cmd.subscribe());
    case body::kAckSubscription: return ack_subscription(tx, cmd.ack_subscription());
    case body::kUnsubscribe: return unsubscribe(tx, cmd.unsubscribe());
    case body::kRequestApproval: return request_approval(tx, cmd.request_approval());
    case body::kDecideApproval: return decide_approval(tx, cmd.decide_approval());
    case body::kSweep: return sweep(tx, cmd.sweep());
    case body::BODY_NOT_SET: break;
  }
  return refuse(v1::Refusal::INVALID, "The command is empty or not known to this version");
}

} // namespace

v1::Batch decide(const v1::Command& cmd, const rows_view& rows, const inputs& in, bool valid) {
  transaction tx(rows, cmd, in);
  if (auto refusal = valid ? std::nullopt : validate(cmd))
    return tx.take(as_reply(std::move(*refusal)));
  if (auto refusal = authorize(cmd))
    return tx.take(as_reply(std::move(*refusal)));
  if (auto refusal = authorize_place(cmd, rows))
    return tx.take(as_reply(std::move(*refusal)));
  if (acts_as_session(cmd)) {
    if (auto session = tx.actor_session())
      keep_alive(tx, std::move(*session));
    else if (!works_unregistered(cmd))
      return tx.take(not_registered());
  }
  return tx.take(run(tx, cmd));
}

std::string digest_of(v1::Command sent) {
  sent.clear_principal();
  if (sent.has_register_session())
    sent.mutable_register_session()->clear_node_id();
  if (sent.has_dispatch())
    sent.mutable_dispatch()->clear_node_id();
  if (sent.has_request_spawn())
    sent.mutable_request_spawn()->clear_node_id();
  return sha256(sent.SerializeAsString());
}

bool grows_store(const v1::Command& cmd) {
  switch (cmd.body_case()) {
    case body::kRegisterSession:
    case body::kSendMessage:
    case body::kBroadcast:
    case body::kCreateTasks:
    case body::kAcquireLock:
    case body::kSetKv:
    case body::kAppendKv:
    case body::kDispatch:
    case body::kRequestSpawn:
    case body::kSubscribe:
    case body::kRequestApproval: return true;
    default: return false;
  }
}

} // namespace swarm::domain
