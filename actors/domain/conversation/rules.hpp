// What the files about conversations share among themselves. Other families use rules.hpp.
#pragma once

#include "actors/base/limits.hpp"
#include "actors/domain/permissions.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::domain {

using conversation_state = v1::Conversation::State;

/// Room that a row, its key and its event take besides its texts.
inline constexpr std::size_t row_bytes = 1 * limits::kib;

/// Stores a changed row with fresh times; `queued` is counted.
void put_changed(transaction&, v1::Conversation&);
v1::Reply conversation_reply(v1::Conversation, std::optional<v1::Prompt> = std::nullopt);

/// Whether the session that says it is the agent of this conversation, also when the operator acts as it.
bool is_itself(const transaction&, const v1::Conversation&);
/// Nobody's program.
bool is_persons(const v1::Principal&) noexcept;

// -- permissions.cpp ------------------------------------------------------------------------

/// "ask", "auto-edit", "auto", "plan", "deny".
const char* to_text(v1::Conversation::Permissions) noexcept;
/// Puts what a new conversation begins with, or says why not.
std::optional<v1::Reply> put_first_permissions(const transaction&, v1::Conversation&, const v1::StartConversation&);

/// What lets its agent act unasked was given for its task, and ends with it. True = there was something; the caller stores the row.
bool end_task_permissions(transaction&, v1::Conversation&);

// -- patterns.cpp ---------------------------------------------------------------------------

using pattern_list = google::protobuf::RepeatedPtrField<std::string>;

/// Refuses those that can never match, whatever its agent does. One that "always" adds comes from the driver and is not asked about.
std::optional<v1::Reply> check_new_patterns(const pattern_list&, const std::string& harness);
/// Each once; the number of those that were new.
int add_patterns(v1::Conversation&, const pattern_list&);
/// The patterns are not too many for a conversation, nor for the frame in which its driver is told of them.
std::optional<v1::Reply> check_patterns(const v1::Conversation&);

// -- prompt.cpp -----------------------------------------------------------------------------

/// The prompts that have not been taken, and are not lost.
std::vector<v1::Prompt> underway(const transaction&, const v1::Conversation&);
bool is_queue_full(const transaction&, const v1::Conversation&);
/// Stores words for the agent as the last of its queue: text, steer, attachments and message_id are the caller's.
v1::Prompt queue_prompt(transaction&, v1::Conversation&, v1::Prompt said);
/// The queue goes on, and the agent is started if none runs, as often as for a new one. One that waits for a person waits on without one; a task
/// counts as a person's wish.
void go_on(transaction&, v1::Conversation&, bool for_person);
/// Moves a prompt on, and stores it. Nothing when the prompt has come as far already.
bool move_prompt(transaction&, v1::Prompt&, v1::Prompt::State, const std::string& reason = {});
/// The agent has taken it: counts what no person and no task has asked for, turns and what joins one, and holds the queue after too much.
void note_taken(transaction&, v1::Conversation&, const v1::Prompt&, bool is_of_task);
/// Unread mail of its agent becomes prompts, as far as there is room.
void take_mail(transaction&, v1::Conversation&);

// -- report.cpp -----------------------------------------------------------------------------

/// IDLE, RUNNING or BLOCKED, by its turn and what its agent asks.
conversation_state state_of_agent(const transaction&, const v1::Conversation&);

/// Asks for its driver: the spawn's next attempt is the next generation. Not while the one before is there.
void start_driver(transaction&, v1::Conversation&);
/// The conversation has a driver now that was asked for.
void follow_driver(v1::Conversation&, const v1::Spawn&);

/// Ends the turn that is open as failed, if one is.
void fail_turn(transaction&, v1::Conversation&, const std::string& why);
/// What the driver was given and has not told about is unknown.
void lose_driver(transaction&, v1::Conversation&, const std::string& why);

// -- work.cpp -------------------------------------------------------------------------------

/// The task that it works on: its agent's session has it, and it has not ended.
std::optional<v1::Task> task_at_work(const transaction&, const v1::Conversation&);
/// The agent has taken the instruction: the task is under way.
void begin_task(transaction&, const v1::Conversation&);
/// How its agent left off. A task ends with the turn that leaves nothing to do, also beside it, or that fails.
enum class turn_end { finished, interrupted, failed };
void settle_task(transaction&, v1::Conversation&, turn_end, const std::string& text);
/// The last turn has left its task nothing to do but what is still to come: a further prompt, or what runs beside the turns.
bool waits_on(const v1::Conversation&) noexcept;
/// Its agent never gets the prompt, or nobody knows whether it has it.
void settle_lost_prompt(transaction&, v1::Conversation&, const v1::Prompt&);
/// So many tasks run beside the turns.
void take_background(transaction&, v1::Conversation&, std::uint32_t running);
/// None does any more, for the agent has ended.
void end_background(transaction&, v1::Conversation&, const std::string& why);
/// Whether it is the instruction of its task.
bool is_instruction(const v1::Conversation&, const v1::Prompt&);

// -- conversation.cpp -----------------------------------------------------------------------

/// Its log and its agent are on this node.
bool is_here(const transaction&, const v1::Conversation&);
/// Refuses what would need them where they are not.
std::optional<v1::Reply> check_here(const transaction&, const v1::Conversation&);
std::optional<v1::Reply> check_room_for_conversation(const transaction&);
/// There is a driver for this agent.
std::optional<v1::Reply> check_driven(const std::string& harness);
/// Stores a conversation of a driver that was ordered, and says so. `asked_for` false = its driver comes later.
void put_started(transaction&, v1::Conversation&, const v1::Spawn&, bool asked_for, const std::optional<v1::Prompt>& first);
/// Of a task, why it failed.
inline constexpr auto conversation_stopped = "its conversation was stopped";
/// Stops it: what waits is given back, what its agent asks is withdrawn, and its task fails.
void end_conversation(transaction&, v1::Conversation&, const std::string& reason);
/// Ends the driver's order that no process has come of.
void end_driver_unstarted(transaction&, const v1::Conversation&, const std::string& reason);

} // namespace swarm::domain
