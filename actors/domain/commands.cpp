#include "actors/domain/commands.hpp"

#include <algorithm>
#include <array>

#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

using c = v1::Command;

/// The rule of a body, and an id in it.
template <auto Body, auto Rule>
v1::Reply run(transaction& tx, const v1::Command& cmd) {
  return Rule(tx, (cmd.*Body)());
}
template <auto Body, auto Id>
const std::string& id_in(const v1::Command& cmd) {
  return ((cmd.*Body)().*Id)();
}

constexpr std::array specs{
  command_spec{.body = c::kRegisterSession, .run = run<&c::register_session, register_session>, .unregistered = true, .grows_store = true},
  command_spec{.body = c::kDeregisterSession,
               .run = run<&c::deregister_session, deregister_session>,
               .unregistered = true,
               .about = subject::session,
               .id = id_in<&c::deregister_session, &v1::DeregisterSession::session_id>,
               .own_only = "A session may only deregister itself. Use remove_instance for another one."},
  command_spec{.body = c::kRemoveSession,
               .run = run<&c::remove_session, remove_session>,
               .about = subject::session,
               .id = id_in<&c::remove_session, &v1::RemoveSession::session_id>},
  command_spec{.body = c::kHeartbeat,
               .run = run<&c::heartbeat, heartbeat>,
               .unregistered = true,
               .about = subject::session,
               .id = id_in<&c::heartbeat, &v1::Heartbeat::session_id>,
               .own_only = "A session may only keep itself alive"},
  command_spec{.body = c::kExpireSession,
               .run = run<&c::expire_session, expire_session>,
               .from = sent_by::node,
               .unregistered = true,
               .about = subject::session,
               .id = id_in<&c::expire_session, &v1::ExpireSession::session_id>,
               .from_other_nodes = true},
  command_spec{.body = c::kReportAgent,
               .run = run<&c::report_agent, report_agent>,
               .about = subject::session,
               .id = id_in<&c::report_agent, &v1::ReportAgent::session_id>,
               .own_only = "A session may only report what it does itself",
               .from_other_nodes = true},
  command_spec{.body = c::kSendMessage, .run = run<&c::send_message, send_message>, .from = sent_by::members_and_edge, .grows_store = true},
  command_spec{.body = c::kBroadcast, .run = run<&c::broadcast, broadcast>, .from = sent_by::members_and_edge, .grows_store = true},
  command_spec{.body = c::kConsumeMessages, .run = run<&c::consume_messages, consume_messages>},
  command_spec{.body = c::kDeliverMessages,
               .run = run<&c::deliver_messages, deliver_messages>,
               .from = sent_by::node,
               .unregistered = true,
               .about = subject::session,
               .id = id_in<&c::deliver_messages, &v1::DeliverMessages::session_id>,
               .from_other_nodes = true},
  command_spec{.body = c::kCreateTasks, .run = run<&c::create_tasks, create_tasks>, .grows_store = true},
  command_spec{
    .body = c::kClaimTask, .run = run<&c::claim_task, claim_task>, .about = subject::task, .id = id_in<&c::claim_task, &v1::ClaimTask::task_id>},
  command_spec{.body = c::kClaimNextTask, .run = run<&c::claim_next_task, claim_next_task>},
  command_spec{
    .body = c::kUpdateTask, .run = run<&c::update_task, update_task>, .about = subject::task, .id = id_in<&c::update_task, &v1::UpdateTask::task_id>},
  command_spec{.body = c::kCompleteTask,
               .run = run<&c::complete_task, complete_task>,
               .about = subject::task,
               .id = id_in<&c::complete_task, &v1::CompleteTask::task_id>},
  command_spec{.body = c::kReportProgress,
               .run = run<&c::report_progress, report_progress>,
               .about = subject::task,
               .id = id_in<&c::report_progress, &v1::ReportProgress::task_id>},
  command_spec{.body = c::kApproveTask,
               .run = run<&c::approve_task, approve_task>,
               .about = subject::task,
               .id = id_in<&c::approve_task, &v1::ApproveTask::task_id>},
  command_spec{.body = c::kAcquireLock, .run = run<&c::acquire_lock, acquire_lock>, .grows_store = true},
  command_spec{.body = c::kReleaseLock, .run = run<&c::release_lock, release_lock>},
  command_spec{.body = c::kCancelLockWait, .run = run<&c::cancel_lock_wait, cancel_lock_wait>},
  command_spec{.body = c::kSetKv, .run = run<&c::set_kv, set_kv>, .grows_store = true},
  command_spec{.body = c::kAppendKv, .run = run<&c::append_kv, append_kv>, .grows_store = true},
  command_spec{.body = c::kDeleteKv, .run = run<&c::delete_kv, delete_kv>},
  command_spec{.body = c::kDispatch, .run = run<&c::dispatch, dispatch>, .grows_store = true},
  command_spec{.body = c::kRequestSpawn, .run = run<&c::request_spawn, request_spawn>, .grows_store = true},
  command_spec{.body = c::kSpawnStarting,
               .run = run<&c::spawn_starting, spawn_starting>,
               .from = sent_by::node,
               .unregistered = true,
               .about = subject::worker,
               .id = id_in<&c::spawn_starting, &v1::SpawnStarting::spawn_id>,
               .from_other_nodes = true},
  command_spec{.body = c::kSpawnRunning,
               .run = run<&c::spawn_running, spawn_running>,
               .from = sent_by::node,
               .unregistered = true,
               .about = subject::worker,
               .id = id_in<&c::spawn_running, &v1::SpawnRunning::spawn_id>,
               .from_other_nodes = true},
  command_spec{.body = c::kSpawnEnded,
               .run = run<&c::spawn_ended, spawn_ended>,
               .from = sent_by::node,
               .unregistered = true,
               .about = subject::worker,
               .id = id_in<&c::spawn_ended, &v1::SpawnEnded::spawn_id>,
               .from_other_nodes = true},
  command_spec{.body = c::kSubscribe, .run = run<&c::subscribe, subscribe>, .from = sent_by::members_and_edge, .grows_store = true},
  command_spec{.body = c::kAckSubscription, .run = run<&c::ack_subscription, ack_subscription>, .from = sent_by::members_and_edge},
  command_spec{.body = c::kUnsubscribe, .run = run<&c::unsubscribe, unsubscribe>, .from = sent_by::members_and_edge},
  command_spec{
    .body = c::kRequestApproval, .run = run<&c::request_approval, request_approval>, .from = sent_by::members_and_edge, .grows_store = true},
  command_spec{.body = c::kDecideApproval, .run = run<&c::decide_approval, decide_approval>, .from = sent_by::members_and_edge},
  command_spec{.body = c::kSweep, .run = run<&c::sweep, sweep>, .from = sent_by::operator_or_node, .unregistered = true},
};

/// The specs by the number of their body: every command looks up its spec several times.
constexpr std::size_t bodies = 128;
constexpr auto by_number = [] {
  std::array<const command_spec*, bodies> out{};
  for (const auto& s : specs)
    out[static_cast<std::size_t>(s.body)] = &s; // out of bounds: does not compile
  return out;
}();

} // namespace

std::span<const command_spec> commands() noexcept { return specs; }

const command_spec* spec_of(const v1::Command& cmd) noexcept {
  auto n = static_cast<std::size_t>(cmd.body_case());
  return n < by_number.size() ? by_number[n] : nullptr;
}

} // namespace swarm::domain
