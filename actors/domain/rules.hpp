// The rules: one function for each command, in the source of its family. decide.cpp calls them; they call each other across families
// through the helpers at the end. The comments in command.proto say what a command means, its bounds and its refusals.
#pragma once

#include "actors/domain/rights.hpp"
#include "actors/domain/transaction.hpp"
#include "swarm/v1/query.pb.h"

namespace swarm::domain {

/// The reasons of a program's end that is the fabric's loss. What became of the program is not known, and its retries are used.
inline constexpr const char* node_restarted = "node_restarted";        // it went with its node or with the keeper there
inline constexpr const char* log_trouble = "its log cannot be used: "; // of a conversation; why follows
inline constexpr const char* host_lost = "host_lost";                  // its host was not heard of for too long, or is out of the cluster
bool is_loss(std::string_view reason) noexcept;

// session.cpp
v1::Reply register_session(transaction&, const v1::RegisterSession&);
v1::Reply deregister_session(transaction&, const v1::DeregisterSession&);
v1::Reply remove_session(transaction&, const v1::RemoveSession&);
v1::Reply heartbeat(transaction&, const v1::Heartbeat&);
v1::Reply report_agent(transaction&, const v1::ReportAgent&);
v1::Reply expire_session(transaction&, const v1::ExpireSession&);
// message.cpp
v1::Reply send_message(transaction&, const v1::SendMessage&);
v1::Reply deliver_messages(transaction&, const v1::DeliverMessages&);
v1::Reply broadcast(transaction&, const v1::Broadcast&);
v1::Reply consume_messages(transaction&, const v1::ConsumeMessages&);
// task_create.cpp, task_claim.cpp, task_update.cpp
v1::Reply create_tasks(transaction&, const v1::CreateTasks&);
v1::Reply claim_task(transaction&, const v1::ClaimTask&);
v1::Reply claim_next_task(transaction&, const v1::ClaimNextTask&);
v1::Reply update_task(transaction&, const v1::UpdateTask&);
v1::Reply complete_task(transaction&, const v1::CompleteTask&);
v1::Reply report_progress(transaction&, const v1::ReportProgress&);
v1::Reply approve_task(transaction&, const v1::ApproveTask&);
// lock.cpp
v1::Reply acquire_lock(transaction&, const v1::AcquireLock&);
v1::Reply release_lock(transaction&, const v1::ReleaseLock&);
v1::Reply cancel_lock_wait(transaction&, const v1::CancelLockWait&);
// kv.cpp
v1::Reply set_kv(transaction&, const v1::SetKv&);
v1::Reply append_kv(transaction&, const v1::AppendKv&);
v1::Reply delete_kv(transaction&, const v1::DeleteKv&);
// dispatch.cpp, spawn.cpp
v1::Reply dispatch(transaction&, const v1::Dispatch&);
v1::Reply request_spawn(transaction&, const v1::RequestSpawn&);
v1::Reply spawn_starting(transaction&, const v1::SpawnStarting&);
v1::Reply spawn_running(transaction&, const v1::SpawnRunning&);
v1::Reply spawn_ended(transaction&, const v1::SpawnEnded&);
// subscription.cpp, approval.cpp
v1::Reply subscribe(transaction&, const v1::Subscribe&);
v1::Reply ack_subscription(transaction&, const v1::AckSubscription&);
v1::Reply unsubscribe(transaction&, const v1::Unsubscribe&);
v1::Reply request_approval(transaction&, const v1::RequestApproval&);
v1::Reply decide_approval(transaction&, const v1::DecideApproval&);
v1::Reply withdraw_approval(transaction&, const v1::WithdrawApproval&);
v1::Reply report_delivery(transaction&, const v1::ReportDelivery&);
// conversation/
v1::Reply start_conversation(transaction&, const v1::StartConversation&);
v1::Reply send_prompt(transaction&, const v1::SendPrompt&);
v1::Reply interrupt_conversation(transaction&, const v1::InterruptConversation&);
v1::Reply resume_conversation(transaction&, const v1::ResumeConversation&);
v1::Reply stop_conversation(transaction&, const v1::StopConversation&);
v1::Reply rename_conversation(transaction&, const v1::RenameConversation&);
v1::Reply set_conversation(transaction&, const v1::SetConversation&);
v1::Reply delete_conversation(transaction&, const v1::DeleteConversation&);
v1::Reply report_conversation(transaction&, const v1::ReportConversation&);
// sweep.cpp
v1::Reply sweep(transaction&, const v1::Sweep&);

// -- helpers shared between the families ------------------------------------------------

/// First whitespace token of a label that starts with `identity:`, or empty.
std::string identity_token(std::string_view label);
/// Rest of the first non-empty `role:` token, or empty.
std::string role_of(std::string_view label);
/// One of the label's whitespace-separated tokens is exactly this one.
bool has_token(std::string_view label, std::string_view token);
/// The label has that token, or one that ends in ":" and that word: "ann" of "name:ann".
bool has_word(std::string_view label, std::string_view word);
/// The word is enough of the id to mean it: at least four characters.
bool begins_id(std::string_view id, std::string_view word);
/// Label of the sessions that may start workers and decide approvals.
inline constexpr std::string_view gateway_token = "mode:gateway";
/// Identity token of a person who acts as no session: the process identity (AGENT_IDENTITY) as a label would say it, or empty.
std::string caller_identity_token(const transaction&);
/// Identity token of the caller: of the session's label, else caller_identity_token.
std::string actor_identity_token(const transaction&);
/// Letters, digits, '_', '.' and '-' only, and not empty: names of identities and trackers become parts of keys and file names.
bool is_name(std::string_view) noexcept;
/// The name in `identity:work` or `work`; empty when that is not a valid name.
std::string identity_name(std::string_view identity);
/// What a work tracker is called whose settings do not say.
inline constexpr std::string_view default_tracker_provider = "linear";
/// The identity a session counts as: its label's token, else the node user's.
std::string effective_identity(std::string_view label, const inputs&);

/// The identity boundary, as in swarm-mcp: why `sender` may not coordinate with `target`, or nullopt. Sessions without a label share their user's
/// identity.
std::optional<v1::Reply> identity_boundary(const transaction&, const v1::Session& sender, const v1::Session& target);
/// May the caller reach across identities? Its own override, which a session needs the grant "cross_identity" for.
bool may_cross_identity(const v1::Command&);
bool may_cross_identity(const v1::Query&);

using grant_time_list = google::protobuf::RepeatedPtrField<v1::GrantTime>;
/// Refuses grants that no session can have, and those named twice (INVALID), and any from who may not give them (FORBIDDEN): nobody gives itself
/// rights.
std::optional<v1::Reply> check_grants(const transaction&, const grant_list&, const grant_time_list&);
/// When grants end that are given for a time now.
grant_end_list grant_ends(const grant_time_list&, std::int64_t now_ms);
/// True when the node's user acts in person and not as one of the sessions.
bool acts_as_operator(const transaction&);
/// In whose name the command comes: the session's, also when the operator acts as it.
v1::Principal speaker(const transaction&);
/// The two are the same, or this caller may reach across.
bool same_identity(const transaction&, std::string_view identity_a, std::string_view identity_b);
/// Does `viewer` (nullptr = sees everything) see the task? Requester, assignee, or the same identity; everybody when it has none.
bool task_visible(const v1::Task&, const v1::Session* viewer, bool allow_cross_identity);

/// `Not registered. Call register first.`
v1::Reply not_registered();
/// The name of a session in texts, as in swarm-mcp: its label, else its id.
std::string display_name(const v1::Session&);
/// True if a process or an attachment stream holds the session now.
bool is_held(const v1::Session&) noexcept;
/// Stores the row of a session that is new, or was taken over by another process, and announces it. `actor` as of an event.
void put_registered(transaction&, const v1::Session&, bool adopted_existing, std::string_view actor = {});
/// Makes the session the scope's planner if its label says so and the scope has none.
void claim_planner(transaction&, const v1::Session&);
/// Passes the planner role on after the row of `session_id` has gone.
void pass_planner_on(transaction&, std::string_view session_id);

/// TASK for an approval of an older store.
v1::Approval::Kind approval_kind(const v1::Approval&) noexcept;
const char* to_text(v1::Approval::Kind) noexcept; // "question"
/// A session sees what it has asked for, a coordinator also what it may decide.
bool approval_visible(const v1::Approval&, const v1::Session& viewer);
/// Withdraws what the session asks a person. False = something is left for the next command.
bool withdraw_questions(transaction&, const v1::Session&);

bool is_permission(v1::Approval::Kind) noexcept;
/// What is said beside the option has somebody to read it, and says what the agent can take: an answer that the driver refuses would be spent.
std::optional<v1::Reply> check_words_for_agent(const transaction&, const v1::Approval&, const v1::DecideApproval&);
/// Withdraws what the agent of a conversation waits for; without a driver, what was decided and has not reached it is unknown. What has no room in
/// the batch waits for a sweep.
void withdraw_agent_requests(transaction&, const std::string& conversation_id, const std::string& why, bool driver_is_gone);
/// Removes what was said in the approvals of a conversation that is gone.
void forget_agent_requests(transaction&, const std::string& conversation_id);
/// For a sweep: ends the approval, or its delivery, if the driver that it is about is gone. True = it was.
bool settle_agent_request(transaction&, v1::Approval&);

/// The conversation of this scope, or nullopt.
std::optional<v1::Conversation> find_conversation(const transaction&, const std::string& id);
v1::Reply no_conversation(const std::string& id);
/// Its driver was asked for in this generation and has not ended.
bool has_driver(const transaction&, const v1::Conversation&);
/// The conversation whose agent acts as this session; empty = none.
std::string conversation_of(const rows_view&, const v1::Session&);
/// Makes the conversation BLOCKED, or not any more, after an approval of it was asked for or has ended.
void follow_agent_requests(transaction&, const std::string& conversation_id);
/// The conversation of a driver's spawn takes no process any more.
bool wants_no_driver(const transaction&, const v1::Spawn&);
/// After a driver's spawn has ended. Its next attempt is asked for when prompts wait.
void driver_ended(transaction&, const v1::Spawn&, bool has_run, const std::string& reason, const std::string& how);

/// The conversation that acts as the session now and takes prompts; empty = none.
std::string conversation_at(const transaction&, const std::string& session_id);
/// Makes the message a prompt and marks it read, when its recipient is a conversation's agent. False = it is mail. The row is the caller's to store.
bool mail_becomes_prompt(transaction&, v1::Message&);

struct operators_mail {
  std::string recipient, content;
  std::int64_t sent_at_ms = 0;
};
/// Its recipient knows it from elsewhere: it counts as read, and as a prompt that waits as taken. Nothing once the recipient has got it.
void take_mail_back(transaction&, const operators_mail&);
/// Whether it may go into the turn that is open. When too much in a row was said by agents alone, theirs wait, and with them none keeps a turn open
/// before a person's words.
bool joins_turns(const v1::Conversation&, const v1::Prompt&) noexcept;

/// Only people let a new conversation do something unasked.
std::optional<v1::Reply> check_loosening(const transaction&, v1::Conversation::Permissions);
/// The permissions, counted from now; ASK for unspecified ones.
void put_permissions(const transaction&, v1::Conversation&, v1::Conversation::Permissions, std::int64_t for_ms);
/// ASK, once the time of AUTO is over. True = it was.
bool end_bypass(v1::Conversation&, std::int64_t now_ms);
/// For a sweep: end_bypass, stored and announced.
bool settle_permissions(transaction&, v1::Conversation&);
/// For a sweep: the row is a copy, of a conversation that another node has with its log and its agent. It is lost here.
bool settle_foreign(transaction&, v1::Conversation&);
/// For a sweep: a task that has waited long enough for what its agent runs beside its turns is done with the last words.
bool settle_background(transaction&, v1::Conversation&);
/// After "always": the approval's pattern is allowed from now on. Refuses when no more patterns fit.
std::optional<v1::Reply> allow_always(transaction&, const v1::Approval&);

/// A conversation that does the task, whose driver is described: its first prompt is the instruction. `deferred`: the task is not open yet.
v1::Spawn order_conversation(transaction&, v1::Spawn, const v1::Task&, const std::string& message, v1::Conversation::Permissions, bool deferred);
/// Why no conversation can be ordered.
std::optional<v1::Reply> check_conversation_order(const transaction&, const v1::Spawn&);
/// The task of a deferred driver is open, and the driver was asked for.
void deferred_driver_ordered(transaction&, const v1::Spawn&);
/// The driver's order was dropped, because its task is over.
void driver_dropped(transaction&, const v1::Spawn&);
/// The driver runs: its session takes the conversation's task, if nobody has it.
void driver_takes_task(transaction&, const v1::Spawn&);
/// It has done its task and waits for another: it takes one as a prompt that is to be done with these permissions.
bool waits_for_task(const transaction&, const std::string& conversation_id, v1::Conversation::Permissions);
/// Gives it the task, which is its agent's session's, with those permissions or the ones that it has.
void instruct_conversation(transaction&, const std::string& conversation_id, const v1::Task&, const std::string& message,
                           std::optional<v1::Conversation::Permissions>);
/// The conversation that was started for the task and has not been stopped, or nothing: a task never has two.
std::optional<v1::Conversation> conversation_for_task(const transaction&, const v1::Task&);
/// The task is over: what was given for it ends, and its conversation stops working on one that somebody has cancelled.
void leave_task(transaction&, const v1::Task&);
/// What the agent of this conversation asks waits no longer than this; 0 = as long as it takes.
std::int64_t patience_ms(const transaction&, const std::string& conversation_id);

/// Ends a session: its claimed tasks reopen with the attempt counted, its locks pass on, its mail, line places, credentials
/// and instance keys go, the planner role moves. `event_type` is instance.deregistered or instance.stale_reclaimed.
/// With announce, swarm-mcp's "[auto] Agent … went offline" message goes to the remaining sessions. `report` may be null.
/// What does not fit one batch (limits::batch_encoded_bytes_max) stays with the row, which is then an ended lease that the next
/// sweep goes on with.
void end_session(transaction&, const v1::Session&, std::string_view event_type, bool announce, v1::SweepReport* report);

/// The source of what the node itself sees at an agent's terminal: it is used when no other report is valid.
inline constexpr const char* output_source = "output";
/// The source of what the program says of itself on its terminal, which the node reads there.
inline constexpr const char* program_source = "program";
/// The report says that the agent asks its user, and nobody has answered at its terminal since.
bool is_question(const v1::AgentReport&) noexcept;
/// Whether one of its reports does. Then no report counts but one that ends its turn, and one of a person.
bool asks_person(const v1::Session&) noexcept;
/// What the agent does, by the latest report that is still valid; UNKNOWN when there is none. While it asks its user it is BLOCKED, and UNKNOWN when
/// that report's time is over.
v1::AgentReport::State agent_state(const v1::Session&, std::int64_t now_ms);
const char* to_text(v1::AgentReport::State) noexcept;      // "working"
v1::AgentReport::State agent_state_from(std::string_view); // STATE_UNSPECIFIED if unknown
/// May a text be typed into its terminal unasked? Not in the middle of a turn, nor into a question: there an Enter is an answer. Nor where nobody
/// knows what it does.
bool takes_typed_text(v1::AgentReport::State) noexcept;
/// Publishes the session's terminal under the key that swarm-mcp uses.
void publish_terminal(transaction&, const v1::Session&, const std::string& handle);
/// What asks for another worker like this one, in a dispatch that says nothing else yet. The server chooses its node again.
v1::Dispatch dispatch_like(const v1::Spawn&, std::int64_t now_ms);
/// The live spawn whose terminal the session has, or nothing.
std::optional<v1::Spawn> terminal_of(const transaction&, const v1::Session&);

/// Puts a message row and wakes nobody (waking is by event). Sender may be "system" or "operator". No row, and id 0, when the
/// recipient is "operator" or "system" or has limits::session_unread_messages_max() unread messages: what rules tell the operator would
/// bury what somebody has written.
v1::Message post_message(transaction&, std::string_view sender, std::string_view recipient, std::string content);
enum class waking { at_idle, never, at_once };
/// post_message with the prompt path's `[task:<id>] ` prefix and its event; says whether the recipient's terminal will be woken now. With
/// `wants_news` its reading is told as well, when the recipient takes it before it is woken.
v1::PromptResult prompt(transaction&, std::string_view sender, std::string_view recipient, std::string text, std::string_view task_id,
                        waking = waking::at_idle, bool wants_news = false);

/// Takes the place in line away and answers the request that held it.
void end_wait(transaction&, const v1::LockWaiter&, v1::Reply answer);
/// The answer when its deadline has passed.
v1::Reply waited_too_long(const std::string& path);
/// Grants every lock around `path` whose turn has come: on the path, above it and below it. Call it after a lock or a waiter there has gone. What
/// does not fit the batch is granted by the next sweep, for which it marks the scope.
void hand_over(transaction&, const std::string& path);
/// For a sweep: goes on with what did not fit a batch, as far as this one has room.
void continue_lines(transaction&);
/// The lock row at the path, or nothing when it is free or its time is over.
std::optional<v1::Lock> live_lock(const transaction&, const std::string& path);
/// True when the lock's time to live is over.
bool has_lapsed(const v1::Lock&, const inputs&);
/// True when the entry's time to live is over.
bool has_expired(const v1::KvEntry&, std::int64_t now_ms) noexcept;
/// Does `viewer` (nullptr = sees everything) see the entry? Its own identity's, and everybody's own.
bool kv_visible(const v1::KvEntry&, const v1::Session* viewer, bool allow_cross_identity);
/// The entry, or nothing when it is missing or its time is over.
std::optional<v1::KvEntry> live_kv(const transaction&, const std::string& kv_key);
/// Frees the lock for those in line and records why. Returns the session that holds the path's lock now, or empty.
std::string release(transaction&, const v1::Lock&, std::string_view reason);
/// As in swarm-mcp, the three-stage release for a task's assignee when the task becomes terminal.
void release_task_locks(transaction&, const v1::Task&);
/// What get_file_lock shows: holder, its tasks, hidden across identities.
v1::LockView lock_view(const rows_view&, const v1::Lock&, const v1::Session* viewer, bool allow_cross_identity, std::int64_t now_ms);
/// A process, a connection or a lease that has not run out vouches for the session.
bool is_attended(const v1::Session&, std::int64_t now_ms) noexcept;
/// The last sign of life as others are told it: now, while the session is attended. Its row is not rewritten for that.
std::int64_t shown_heartbeat_ms(const v1::Session&, std::int64_t now_ms);

/// Creates one task after its relations were checked (status rule of swarm-mcp) and emits task.created.
v1::Task insert_task(transaction&, const v1::TaskSpec&, int batch_index = -1);
/// Moves a task to a terminal status: clears progress, stores the result, releases locks, cascades. The reply lists tasks that are now
/// claimed; those of a cascade that goes on later are told so in the name of `told_by`, by nobody when it is empty.
v1::TaskReply finish_task(transaction&, v1::Task, v1::TaskStatus, std::optional<std::string> result, std::string_view told_by);
/// Goes on with cascades that were too large for one command, as far as the batch has room. Returns how many tasks it changed.
std::uint32_t continue_cascades(transaction&);
/// claimed|in_progress → open with the attempt counted; the old fence is dead.
void reopen_task(transaction&, v1::Task, std::string_view reason);
/// Makes the task in_progress for that session under a new fence and attempt.
v1::Task start_task(transaction&, v1::Task, std::string_view session_id, bool claim_next);

/// The hash of a dispatch, as in swarm-mcp: the first 16 hex digits of SHA-256 over the parts joined by NUL.
std::string dispatch_hash(const std::vector<std::string>& parts);

/// All counters of swarm-mcp's cleanup for what is due now, without doing it.
v1::SweepReport preview_sweep(const rows_view&, const std::string& scope, const inputs&);

/// swarm-mcp's texts and enumerations.
const char* to_text(v1::TaskStatus) noexcept;      // "in_progress"
v1::TaskStatus task_status_from(std::string_view); // TASK_STATUS_UNSPECIFIED if unknown
bool valid_task_type(std::string_view) noexcept;
/// The types as a text shows them.
inline constexpr const char* task_types_text = "review, implement, fix, test, research, other";
/// The sentence that refuses an unknown type of task, as swarm-mcp writes it.
std::string invalid_task_type(std::string_view);

} // namespace swarm::domain
