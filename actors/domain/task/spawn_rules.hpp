// Asking for worker processes: what dispatch and request_spawn share.
#pragma once

#include "actors/domain/task/rules.hpp"

namespace swarm::domain {

/// The row of a worker as the command describes it. What the two commands decide differently is left to the caller: role, key, intent,
/// directory, label and task.
v1::Spawn described_worker(const v1::RequestSpawn&);
v1::Spawn described_worker(const v1::Dispatch&);

/// Completes and stores the row of a described worker; an empty node means this one. Emits spawn.requested and stores the worker's session
/// row, unless `deferred`: the worker's task is not open yet, and both are done by release_deferred_spawn. A row without a harness starts
/// nobody: a live worker is told when the task opens, if there is one.
v1::Spawn order_worker(transaction&, v1::Spawn, bool deferred = false);

/// Gives a spawn row a new session row to run as and (again) asks the node for the process of its current attempt.
void issue_spawn(transaction&, v1::Spawn&);

/// Makes the row that of the next attempt, which is not asked for yet.
void next_attempt(v1::Spawn&);

/// The row of the session as which a worker runs, without its holder. A request for the worker makes it; it is made again if its lease ends
/// before the process exists.
v1::Session worker_session(const transaction&, const v1::Spawn&, std::string id);

/// Only the operator in person, coordinators and sessions with the right `spawn` may start workers. `verb` begins the refusal.
std::optional<v1::Reply> check_spawn_authority(const transaction&, std::string_view verb);
/// limits::principal_spawns_per_minute_max() and principal_spawns_live_max().
std::optional<v1::Reply> check_spawn_quota(const transaction&);
/// The harness, argv, retries and directory of a described worker are usable in the scope.
std::optional<v1::Reply> check_worker(const v1::Spawn&, std::string_view scope);
/// The id that the client's node has given the described worker is free; asked only when one is really ordered.
std::optional<v1::Reply> check_order(const transaction&, const v1::Spawn&);
/// A node was found for the worker; asked only when one is really ordered.
std::optional<v1::Reply> check_place(const v1::Spawn&);

/// Label of a worker: the requester's identity token, role, provider, launch token and the extra tokens, each once. Refuses
/// another identity than the requester's.
struct worker_label {
  std::string text;
  std::optional<v1::Reply> refusal;
};
worker_label make_worker_label(const transaction&, std::string_view role, std::string_view harness, std::string_view launch, std::string_view name,
                               std::string_view extra);

/// Whether a task that is about to be made belongs into the work tracker as well, decided as in swarm-mcp. `label`: the one its worker would get.
v1::Promotion decide_promotion(const transaction&, const v1::Dispatch&, const v1::TaskSpec&, std::string_view label);
/// Writes the key that ties the task to its linked ticket, and notes in the promotion when, or why not. Does nothing for other promotions:
/// the one that creates the ticket ties it.
void bind_to_ticket(transaction&, const std::string& task_id, v1::Promotion&);

/// The instruction a worker gets: three paragraphs.
std::string instruction(const v1::Task&, std::string_view message);
/// What it says when the task itself is all there is: its description, else its title.
const std::string& message_of(const v1::Task&);
/// What a live worker has to be for a task.
struct worker_wish {
  std::string_view role;
  std::string_view identity;                                                        // a token that it must have, or empty
  std::string_view requester;                                                       // is never the worker
  std::string_view node_id = {};                                                    // where it must be, or empty
  std::optional<v1::Conversation::Permissions> permissions = v1::Conversation::ASK; // of a conversation; nullopt = none will do
  const v1::Spawn* described = nullptr; // a conversation's driver must have been started like this one; null = any
};
/// The live worker for a task, as in swarm-mcp: role first, then a generalist, both in order of registration; whether it is busy does not matter,
/// but for conversations. Other than there, a coordinator without a role is no generalist.
std::optional<v1::Session> live_worker(const transaction&, const worker_wish&);
/// The live orders of a task, also one without a harness.
std::vector<v1::Spawn> live_orders_of(const transaction&, const std::string& task_id);

} // namespace swarm::domain
