#include "actors/domain/commands.hpp"

#include <algorithm>
#include <array>

#include "actors/domain/rules.hpp"

namespace swarm::domain {

namespace {

using c = v1::Command;

/// The rule of a body.
template <auto Body, auto Rule>
v1::Reply run(transaction& tx, const v1::Command& cmd) {
  return Rule(tx, (cmd.*Body)());
}

/// What a body is about.
template <auto Body>
constexpr topic task_of() {
  return {subject::task, [](const v1::Command& cmd) -> const std::string& { return (cmd.*Body)().task_id(); }};
}
template <auto Body>
constexpr topic worker_of() {
  return {subject::worker, [](const v1::Command& cmd) -> const std::string& { return (cmd.*Body)().spawn_id(); }};
}
template <auto Body>
constexpr topic conversation_of() {
  return {subject::conversation, [](const v1::Command& cmd) -> const std::string& { return (cmd.*Body)().conversation_id(); }};
}
/// `own_only` has no default: it is what keeps one session from acting on another.
template <auto Body>
constexpr topic session_of(const char* own_only) {
  return {subject::session, [](const v1::Command& cmd) -> const std::string& { return (cmd.*Body)().session_id(); }, own_only};
}
constexpr const char* any_session = nullptr;

using namespace rights;
using enum effect_on_store;

constexpr std::array specs{
  command_spec{
    .body = c::kRegisterSession, .run = run<&c::register_session, register_session>, .from = whoever_registers, .store = grows, .unregistered = true},
  command_spec{.body = c::kDeregisterSession,
               .run = run<&c::deregister_session, deregister_session>,
               .from = member_itself,
               .store = does_not_grow,
               .unregistered = true,
               .about = session_of<&c::deregister_session>("A session may only deregister itself. Use remove_instance for another one.")},
  command_spec{.body = c::kRemoveSession,
               .run = run<&c::remove_session, remove_session>,
               .from = members,
               .store = does_not_grow,
               .about = session_of<&c::remove_session>(any_session)},
  command_spec{.body = c::kHeartbeat,
               .run = run<&c::heartbeat, heartbeat>,
               .from = member_itself,
               .store = does_not_grow,
               .unregistered = true,
               .about = session_of<&c::heartbeat>("A session may only keep itself alive")},
  command_spec{.body = c::kExpireSession,
               .run = run<&c::expire_session, expire_session>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = session_of<&c::expire_session>(any_session),
               .from_other_nodes = true},
  command_spec{.body = c::kReportAgent,
               .run = run<&c::report_agent, report_agent>,
               .from = member_itself_and_node,
               .store = does_not_grow,
               .about = session_of<&c::report_agent>("A session may only report what it does itself"),
               .from_other_nodes = true},
  command_spec{.body = c::kSendMessage, .run = run<&c::send_message, send_message>, .from = members, .store = grows},
  command_spec{.body = c::kBroadcast, .run = run<&c::broadcast, broadcast>, .from = members, .store = grows},
  command_spec{.body = c::kConsumeMessages, .run = run<&c::consume_messages, consume_messages>, .from = members, .store = does_not_grow},
  command_spec{.body = c::kDeliverMessages,
               .run = run<&c::deliver_messages, deliver_messages>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = session_of<&c::deliver_messages>(any_session),
               .from_other_nodes = true},
  command_spec{.body = c::kCreateTasks, .run = run<&c::create_tasks, create_tasks>, .from = members, .store = grows},
  command_spec{
    .body = c::kClaimTask, .run = run<&c::claim_task, claim_task>, .from = members, .store = does_not_grow, .about = task_of<&c::claim_task>()},
  command_spec{.body = c::kClaimNextTask, .run = run<&c::claim_next_task, claim_next_task>, .from = members, .store = does_not_grow},
  command_spec{
    .body = c::kUpdateTask, .run = run<&c::update_task, update_task>, .from = members, .store = does_not_grow, .about = task_of<&c::update_task>()},
  command_spec{.body = c::kCompleteTask,
               .run = run<&c::complete_task, complete_task>,
               .from = members,
               .store = does_not_grow,
               .about = task_of<&c::complete_task>()},
  command_spec{.body = c::kReportProgress,
               .run = run<&c::report_progress, report_progress>,
               .from = members,
               .store = does_not_grow,
               .about = task_of<&c::report_progress>()},
  command_spec{.body = c::kApproveTask,
               .run = run<&c::approve_task, approve_task>,
               .from = members,
               .store = does_not_grow,
               .about = task_of<&c::approve_task>()},
  command_spec{.body = c::kAcquireLock, .run = run<&c::acquire_lock, acquire_lock>, .from = members, .store = grows},
  command_spec{.body = c::kReleaseLock, .run = run<&c::release_lock, release_lock>, .from = members_and_node, .store = does_not_grow},
  command_spec{.body = c::kCancelLockWait, .run = run<&c::cancel_lock_wait, cancel_lock_wait>, .from = members_and_node, .store = does_not_grow},
  command_spec{.body = c::kSetKv, .run = run<&c::set_kv, set_kv>, .from = members, .store = grows},
  command_spec{.body = c::kAppendKv, .run = run<&c::append_kv, append_kv>, .from = members, .store = grows},
  command_spec{.body = c::kDeleteKv, .run = run<&c::delete_kv, delete_kv>, .from = members, .store = does_not_grow},
  command_spec{.body = c::kDispatch, .run = run<&c::dispatch, dispatch>, .from = who_starts_workers, .store = grows},
  command_spec{.body = c::kRequestSpawn, .run = run<&c::request_spawn, request_spawn>, .from = who_starts_workers, .store = grows},
  command_spec{.body = c::kSpawnStarting,
               .run = run<&c::spawn_starting, spawn_starting>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = worker_of<&c::spawn_starting>(),
               .from_other_nodes = true},
  command_spec{.body = c::kSpawnRunning,
               .run = run<&c::spawn_running, spawn_running>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = worker_of<&c::spawn_running>(),
               .from_other_nodes = true},
  command_spec{.body = c::kSpawnEnded,
               .run = run<&c::spawn_ended, spawn_ended>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = worker_of<&c::spawn_ended>(),
               .from_other_nodes = true},
  command_spec{.body = c::kSubscribe, .run = run<&c::subscribe, subscribe>, .from = members, .store = grows},
  command_spec{.body = c::kAckSubscription, .run = run<&c::ack_subscription, ack_subscription>, .from = members, .store = does_not_grow},
  command_spec{.body = c::kUnsubscribe, .run = run<&c::unsubscribe, unsubscribe>, .from = members, .store = does_not_grow},
  command_spec{.body = c::kRequestApproval, .run = run<&c::request_approval, request_approval>, .from = members_and_node, .store = grows},
  command_spec{.body = c::kDecideApproval, .run = run<&c::decide_approval, decide_approval>, .from = who_decides, .store = does_not_grow},
  command_spec{.body = c::kWithdrawApproval, .run = run<&c::withdraw_approval, withdraw_approval>, .from = members_and_node, .store = does_not_grow},
  command_spec{.body = c::kStartConversation,
               .run = run<&c::start_conversation, start_conversation>,
               .from = who_starts_workers,
               .store = grows,
               .here_only = true},
  command_spec{.body = c::kSendPrompt, .run = run<&c::send_prompt, send_prompt>, .from = who_chats, .store = grows, .here_only = true},
  command_spec{.body = c::kInterruptConversation,
               .run = run<&c::interrupt_conversation, interrupt_conversation>,
               .from = who_chats,
               .store = does_not_grow,
               .here_only = true},
  command_spec{.body = c::kResumeConversation,
               .run = run<&c::resume_conversation, resume_conversation>,
               .from = who_chats,
               .store = does_not_grow,
               .here_only = true},
  command_spec{
    .body = c::kStopConversation, .run = run<&c::stop_conversation, stop_conversation>, .from = who_chats, .store = does_not_grow, .here_only = true},
  command_spec{.body = c::kRenameConversation,
               .run = run<&c::rename_conversation, rename_conversation>,
               .from = who_chats,
               .store = does_not_grow,
               .here_only = true},
  command_spec{.body = c::kDeleteConversation,
               .run = run<&c::delete_conversation, delete_conversation>,
               .from = who_chats,
               .store = does_not_grow,
               .here_only = true},
  command_spec{.body = c::kReportConversation,
               .run = run<&c::report_conversation, report_conversation>,
               .from = node,
               .store = does_not_grow,
               .unregistered = true,
               .about = conversation_of<&c::report_conversation>(),
               .from_other_nodes = true},
  command_spec{
    .body = c::kSetConversation, .run = run<&c::set_conversation, set_conversation>, .from = who_chats, .store = does_not_grow, .here_only = true},
  command_spec{
    .body = c::kReportDelivery, .run = run<&c::report_delivery, report_delivery>, .from = node, .store = does_not_grow, .unregistered = true},
  command_spec{.body = c::kSweep, .run = run<&c::sweep, sweep>, .from = operator_or_node, .store = does_not_grow, .unregistered = true},
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
