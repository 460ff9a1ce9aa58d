// What the files of the task and spawn families share among themselves. Other families use rules.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/domain/rules.hpp"

namespace swarm::domain {

/// Statuses that are not terminal, in the order of the enumeration.
const std::vector<v1::TaskStatus>& unfinished_statuses();

/// The task of this scope, or nullopt.
std::optional<v1::Task> find_task(const transaction&, std::string_view id);
/// The task that owns this idempotency key in the scope, or nullopt; an empty key owns nothing.
std::optional<v1::Task> find_task_by_key(const transaction&, const std::string& idempotency_key);
/// The one made last of the tasks that have this key, or this key with a colon and more, or nullopt.
std::optional<v1::Task> newest_task_of_key(const transaction&, const std::string& idempotency_key);
/// Stores a changed task with fresh times.
void put_changed(transaction&, v1::Task&);
/// Forgets what was reported about the work on it.
void clear_progress(v1::Task&);
/// What follows from the end of a task for its dependants (task_cascade.cpp): those that fit the batch now, the others by
/// continue_cascades. Tasks it has made claimed are listed in the reply; `told_by` as in finish_task.
void cascade(transaction&, const v1::Task& ended, std::string_view told_by, v1::TaskReply&);

/// The status of a task with these dependencies once it needs no approval.
struct readiness {
  v1::TaskStatus status = v1::OPEN; // OPEN, CLAIMED, BLOCKED or CANCELLED
  std::string failed_dependency;    // with CANCELLED
  std::string failed_how;           // "failed" or "cancelled"
};
/// The first dependency that failed or was cancelled decides, in the order they are listed, even if an earlier one is merely not done.
readiness evaluate(const transaction&, const v1::Task&);

/// insert_task for a task that runs a command when harness is "exec".
v1::Task insert_task_for(transaction&, const v1::TaskSpec&, int batch_index, std::string_view harness);
/// The first relation that does not exist in the scope, as a refusal with swarm-mcp's text.
std::optional<v1::Reply> check_relations(const transaction&, const v1::TaskSpec&);
/// Refuses when a dependency has its full number of dependants, or the requester its full number of open tasks.
std::optional<v1::Reply> check_bounds(const transaction&, const v1::TaskSpec&);

/// A work tracker as it is configured (as in swarm-mcp).
struct tracker_config {
  std::string provider;          // never empty, at most limits::id_bytes_max
  std::string identity;          // name of the identity that uses it, empty = any
  std::string default_promotion; // always, explicit-only or medium-or-larger; empty or anything else = as medium-or-larger
};
/// By the scope's key config/work_tracker/<identity>, else config/work_tracker/default, else by the caller's own environment. Whose
/// keys they are does not matter: they are settings.
std::optional<tracker_config> configured_tracker(const transaction&, std::string_view identity_token);
/// Sets tracker_required and its provider when the text names a ticket and a tracker is configured for the caller.
void detect_tracker(v1::TaskSpec&, const transaction&);
/// The ticket patterns of swarm-mcp on key, title and description.
bool names_ticket(std::string_view idempotency_key, std::string_view title, std::string_view description);
/// The first word such as VUH-36 in the text, at most limits::id_bytes_max long, or empty (as in swarm-mcp).
std::string_view first_ticket(std::string_view text);

/// Makes an open task CLAIMED by the session; a waiting one only gets its assignee. Emits task.reserved.
void reserve_task(transaction&, v1::Task, std::string_view session_id);
/// Tells the requester, unless it is the actor or no session.
v1::PromptResult notify_requester(transaction&, const v1::Task&, std::string_view sender, std::string text);
/// Turns the unblocked tasks that finish_task listed into prompts for those they are assigned to.
void notify_unblocked(transaction&, v1::TaskReply&, std::string_view sender);
/// "[auto] Task … is now …. Result: …", the result cut so that the message stays small.
std::string finished_text(const v1::Task&, std::string_view label, std::string_view result);

/// Gets a task that was waiting and has become open to the worker it was dispatched for, if it was (spawn_order.cpp).
void release_deferred_spawn(transaction&, const v1::Task&);
/// A spawn whose task is over before its process began is not needed any more (spawn_order.cpp).
void drop_unstarted_spawns(transaction&, const v1::Task&);

/// A granted command about one task; `prior` where swarm-mcp tells the status before.
v1::Reply task_reply(v1::Task task, v1::TaskStatus prior = v1::TASK_STATUS_UNSPECIFIED);

} // namespace swarm::domain
