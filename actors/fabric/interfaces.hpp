// EVERY actor interface of the fabric, one comment per signature. The best picture of how the parts talk to each other.
//
//   node (supervisor, rest_for_one)
//     watch       watch_hub_actor     hears every commit first; serves followers and forwards to the front
//     writer      writer_actor        the only one that writes (actors/store)
//     reader-N    reader_actor        queries (actors/store)
//     pty-log     pty_log_actor       segment files of terminals
//     conversation-logs  conversation_logs_actor  logs of conversations
//     conversation-blobs conversation_blobs_actor their blobs, and what of their files goes with time
//     resting-drivers    resting_drivers_actor    drivers of conversations without an agent
//     lock-judge         lock_judge_actor         whether an agent may write what others hold
//     processes   processes_actor     the keeper's children; parent of the pty actors
//     federation  federation_actor    the other nodes of the cluster; parent of the links
//       <node>    link_actor          one per other node: the link to it
//     scopes      front_actor         routes by scope; parent of the scopes
//       <scope>   scope_actor         one per scope in use; parent of its families
//         session/… task/… lock/… mailbox/… spawn/… conversation/…
//     short-calls short_calls_actor   asks on behalf of calls that are over soon
//
// Services talk to the short calls, the front, the processes, the logs and blobs of conversations and the watch hub only. Payloads are shared and
// immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/typed_actor.hpp>

#include "actors/fabric/messages/type_ids.hpp"

namespace swarm {

/// Hears commits, keeps the newest events of each scope, and answers followers.
using watch_hub_actor = caf::typed_actor<
  // From the writer, in commit order.
  caf::reacts_to<commit_ptr>,
  // Events after a revision; parked until there are some (or answered at once if not `wait`). Errors: errc::overloaded.
  caf::replies_to<watch_poll_ptr>::with<watch_page_ptr>,
  // The asker no longer waits for this poll, which is answered errc::unavailable if it is still parked.
  caf::reacts_to<forget_atom, watch_poll_ptr>,
  // From the front and the federation: send me every commit from now on.
  caf::reacts_to<attach_atom, commit_sink_actor>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// What every entity of a scope understands.
using entity_actor = caf::typed_actor<
  // Decides one command concerning the entity (through the writer). Errors: as writer_actor, errc::deadline.
  caf::replies_to<execution_ptr>::with<reply_ptr>,
  // Something about the entity was committed.
  caf::reacts_to<batch_ptr>,
  // Leave if you have nothing alive to look after: true "I quit now", false "I am busy" (see runtime::directory).
  caf::replies_to<passivate_atom>::with<bool>,
  // Its own row of the graph (path, age and restarts are filled in by its parent).
  caf::replies_to<tree_atom>::with<runtime::tree_entry>>;

/// A task somebody is working on: commands about it pass in order. Live part: what it has heard of the task, for the graph.
using task_actor = entity_actor;

/// A lock with a line. Live part: the callers standing in it; their places are rows.
using lock_actor = entity_actor::extend_with<caf::typed_actor<
  // The sender of this command has gone without an answer: it gives up its place in line.
  caf::reacts_to<abort_atom, execution_ptr>,
  // The sender of this command hears no answer on the way it came, and asks again: the place in line stays.
  caf::reacts_to<forget_atom, execution_ptr>,
  // These places are older than the node's start, and have had the time to be asked for again: those for which nobody stands are given up.
  caf::reacts_to<lock_places_ptr>,
  // The grant with this fence, for which nobody stood, has had its time.
  caf::reacts_to<tick_atom, std::uint64_t>>>;

/// A session's mail with somebody waiting for it. Live part: waiters for activity.
using mailbox_actor = entity_actor::extend_with<caf::typed_actor<
  // wait_for_activity: answers when something concerning the session changes, or at the timeout.
  caf::replies_to<wait_request_ptr>::with<activity_ptr>,
  // The wait with this number has timed out.
  caf::reacts_to<tick_atom, std::uint64_t>>>;

/// A session that lives with a process or a connection. Live part: the pidfd, the attached streams.
using session_actor = entity_actor::extend_with<caf::typed_actor<
  // A stream attached (true) or ended (false). The number tells streams apart.
  caf::reacts_to<attach_atom, std::uint64_t, bool>,
  // The process the session was adopted by is gone.
  caf::reacts_to<gone_atom, std::int64_t, std::uint64_t>,
  // Restart grace is over.
  caf::reacts_to<tick_atom, std::uint64_t>>>;

/// One worker from request to end. Live part: the child at the keeper.
using spawn_actor = entity_actor::extend_with<caf::typed_actor<
  // News of its child, from the processes actor.
  caf::reacts_to<keeper_news_ptr>,
  // The home of its scope does not know this attempt as live any more: the program ends.
  caf::reacts_to<gone_atom>,
  // The end of the worker, for which there was no space on the disk, is to be recorded again.
  caf::reacts_to<tick_atom, execution_ptr>,
  // It is a conversation's driver that has ended, and its conversation has had the time to hear it out.
  caf::reacts_to<tick_atom>>>;

/// A conversation whose driver lives, or that somebody follows. Live part: the driver's frames on their way, the item that is not final, the
/// followers.
using conversation_actor = entity_actor::extend_with<caf::typed_actor<
  // What is new; parked until there is something. Errors: errc::not_found, errc::overloaded.
  caf::replies_to<conversation_poll_ptr>::with<conversation_news_ptr>,
  // The locks of its scope have changed to these.
  caf::reacts_to<scope_locks_ptr>,
  // Too many drivers rest: this one ends.
  caf::reacts_to<gone_atom>,
  // A timer of its own.
  caf::reacts_to<tick_atom, std::uint64_t>>>;

/// The logs of conversations (blocking I/O, hence detached). Errors of all: errc::not_found when the conversation is deleted.
using conversation_logs_actor = caf::typed_actor<
  // Makes what the log holds durable, and says what that is. Errors: errc::low_disk, errc::store_failed.
  caf::replies_to<log_question_ptr>::with<log_state_ptr>,
  // Appends. Errors: errc::low_disk (nothing was appended), errc::store_failed (likewise), errc::unavailable (what was is to be asked for).
  caf::replies_to<log_frames_ptr>::with<log_state_ptr>,
  // The next frames for a reader. Errors: errc::store_failed.
  caf::replies_to<log_reading_ptr>::with<log_pages_ptr>,
  // Drops what is too old.
  caf::reacts_to<log_ageing_ptr>,
  // Keeps the nonce, durable. Errors: errc::low_disk, errc::store_failed.
  caf::replies_to<log_hello_ptr>::with<bool>,
  // The conversation is deleted: closes its log and refuses it from now on.
  caf::reacts_to<forget_atom, std::string>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// The blobs of conversations, and what of their files goes with time (blocking I/O of megabytes, hence detached and apart from the logs). Errors of
/// all: errc::not_found when the conversation is deleted, errc::store_failed.
using conversation_blobs_actor = caf::typed_actor<
  // Keeps these bytes; durable when answered. Errors: errc::invalid (too large), errc::overloaded (its blobs have no room), errc::low_disk.
  caf::replies_to<blob_keeping_ptr>::with<blob_kept_ptr>,
  // The same in parts; the last is answered with what is kept. Nothing is left after an error: as above, and errc::unavailable (begin again).
  caf::replies_to<blob_upload_ptr>::with<blob_kept_ptr>,
  // The upload's caller has gone without an answer to its last part: nothing is left of it.
  caf::reacts_to<abort_atom, std::string>,
  // The next bytes. At offset 0 all of it is checked first. Errors: errc::not_found.
  caf::replies_to<blob_reading_ptr>::with<blob_page_ptr>,
  // The conversation is deleted, and all of its files with it.
  caf::reacts_to<forget_atom, std::string>,
  // Its own timer: the next round through all directories.
  caf::reacts_to<tick_atom>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Bounds the drivers without an agent.
using resting_drivers_actor = caf::typed_actor<
  // The sender's driver has no agent from now on, or has one again, or has ended.
  caf::reacts_to<attach_atom, bool>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Looks at files for the conversations (blocking I/O, hence detached). One that hangs is silent.
using lock_looker_actor = caf::typed_actor<caf::replies_to<lock_case_ptr>::with<lock_verdict_ptr>,
                                           // Its own row; the judge hears by it that one which was silent is there again.
                                           caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Hands cases to lookers.
using lock_judge_actor = caf::typed_actor<
  // Of one sender the newest case. Errors: errc::unavailable (it has asked again).
  caf::replies_to<lock_case_ptr>::with<lock_verdict_ptr>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Routes the commands of one scope, wakes and rests its entities, owns its deadlines.
using scope_actor = caf::typed_actor<
  // Any command of the scope.
  caf::replies_to<call_ptr>::with<reply_ptr>,
  // The sender of this command has gone without an answer: it leaves the line it stands in, and is not put to another node any more.
  caf::reacts_to<abort_atom, call_ptr>,
  // The sender of this command, which may wait in line for a lock, asks again on another way.
  caf::reacts_to<forget_atom, call_ptr>,
  // Any query of the scope.
  caf::replies_to<query_ptr>::with<answer_ptr>,
  // wait_for_activity.
  caf::replies_to<wait_request_ptr>::with<activity_ptr>,
  // A follower of a conversation.
  caf::replies_to<conversation_poll_ptr>::with<conversation_news_ptr>,
  // A committed batch of the scope.
  caf::reacts_to<batch_ptr>,
  // The time is over in which these places in line, older than the node's start, were to be asked for again.
  caf::reacts_to<lock_places_ptr>,
  // A stream of this session attached or ended.
  caf::reacts_to<attach_atom, std::string, std::uint64_t, bool>,
  // What lives here is read again: the link to the scope's home was reset.
  caf::reacts_to<reload_atom>,
  // The conversation of this driver, spawn and attempt, has heard it out.
  caf::reacts_to<gone_atom, std::string, std::uint32_t>,
  // This host has gone: what it held of the scope ends. Answers when it has.
  caf::replies_to<gone_atom, std::string>::with<bool>,
  // A timer of the scope or of one of its directories.
  caf::reacts_to<tick_atom, std::uint64_t>,
  // Rows are loaded, live sessions and spawns have their actors.
  caf::replies_to<boot_atom>::with<bool>,
  // Subtree for the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>,
  // Kill one entity, for drills: "lock/<path>" and so on. Errors: errc::not_found.
  caf::reacts_to<kill_atom, std::string>,
  // True "I quit now" when nothing of the scope is alive and nothing is due.
  caf::replies_to<passivate_atom>::with<bool>>;

/// Entrance of the services: finds or wakes the scope.
using front_actor =
  caf::typed_actor<caf::replies_to<call_ptr>::with<reply_ptr>,
                   // The sender of this command has gone without an answer, or asks again on another way.
                   caf::reacts_to<abort_atom, call_ptr>, caf::reacts_to<forget_atom, call_ptr>,
                   // Queries with an empty scope (list_scopes, resolve_token) are answered by a reader directly.
                   caf::replies_to<query_ptr>::with<answer_ptr>,
                   // The same by somebody who does not wait for another node longer than that.
                   caf::replies_to<query_ptr, caf::timespan>::with<answer_ptr>, caf::replies_to<wait_request_ptr>::with<activity_ptr>,
                   caf::replies_to<conversation_poll_ptr>::with<conversation_news_ptr>,
                   caf::reacts_to<attach_atom, std::string, std::string, std::uint64_t, bool>, caf::reacts_to<commit_ptr>,
                   // The link to this node was reset: its scopes are woken, or read again, where something of them lives here.
                   caf::reacts_to<reload_atom, std::string>,
                   // This node has not been heard from for limits::host_lease(): what it held in our scopes ends. Answers when it has.
                   caf::replies_to<gone_atom, std::string>::with<bool>,
                   // All scopes with something alive have been woken.
                   caf::replies_to<boot_atom>::with<bool>,
                   // A timer of its directory, or the next page of scopes to wake.
                   caf::reacts_to<tick_atom, std::uint64_t>, caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>,
                   // Kill a scope ("<scope>") or one entity below it, for drills. Errors: errc::not_found.
                   caf::reacts_to<kill_atom, std::string>>;

/// Where calls from outside that are over soon ask their questions: an actor for each of them would cost more than the call itself.
using short_calls_actor = caf::typed_actor<
  // A call: begins, and answers itself when it knows.
  caf::reacts_to<any_short_call_ptr>,
  // Nobody waits for this call any more; it has ended or ends now.
  caf::reacts_to<abort_atom, any_short_call_ptr>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// Segment files of terminals (blocking I/O, hence detached).
using pty_log_actor = caf::typed_actor<
  // Append at the slice's offset (a hole is kept as a gap). Answers true when it has been dealt with, kept or not.
  caf::replies_to<log_atom, log_slice_ptr>::with<bool>,
  // Read from an offset at most so many bytes; start and end say what is kept. Errors: errc::not_found.
  caf::replies_to<log_atom, std::string, std::uint64_t, std::uint64_t>::with<log_slice_ptr>,
  // The program of this terminal has started or has ended: keep what it is and how it ended beside its output.
  caf::reacts_to<log_atom, pty_info_ptr>,
  // It is not in the list any more; its output stays.
  caf::reacts_to<forget_atom, std::string>,
  // Terminals as kept: those whose end was never told, as running, then those that have ended, the newest limits::ended_terminals_max of them,
  // oldest first.
  caf::replies_to<list_atom>::with<std::vector<pty_info_ptr>>,
  // Delete logs past their age.
  caf::reacts_to<tick_atom>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

/// One terminal: its output log, its input, its size.
using pty_actor = caf::typed_actor<
  // A chunk from an offset; parked until there is one. The last chunk says `ended`.
  caf::replies_to<pty_read_ptr>::with<pty_chunk_ptr>,
  // Bytes for the program; replies how many were accepted. Errors: errc::overloaded, errc::not_found (ended), errc::forbidden,
  // errc::stale.
  caf::replies_to<pty_input_ptr>::with<std::uint64_t>, caf::replies_to<resize_atom, std::uint32_t, std::uint32_t>::with<pty_info_ptr>,
  // Signal (0 = hang up, terminate, kill after the grace).
  caf::replies_to<kill_atom, std::int32_t>::with<pty_info_ptr>, caf::replies_to<status_atom>::with<pty_info_ptr>,
  // Its program has ended: it goes out of the list. Errors: errc::invalid (it runs), errc::unavailable (its end is being noted).
  caf::replies_to<forget_atom>::with<pty_info_ptr>,
  // From the agent's actor: what the agent does (v1::AgentReport::State), which decides who may type. UNKNOWN again when that actor ends.
  caf::reacts_to<gate_atom, std::int32_t>,
  // From the agent's actor: the first change after this number; parked until there is one. One waits; a later one takes its place.
  caf::replies_to<attach_atom, std::uint64_t>::with<pty_change_ptr>,
  // News of its child.
  caf::reacts_to<keeper_news_ptr>, caf::replies_to<tree_atom>::with<runtime::tree_entry>>;

/// The keeper's side of the node: all children, all terminals.
using processes_actor = caf::typed_actor<
  // From the keeper link.
  caf::reacts_to<keeper_news_ptr>,
  // What is known of this child, once the keeper's list is complete; news of it go to that spawn actor from now on.
  caf::replies_to<child_atom, spawn_ptr, spawn_actor>::with<child_info_ptr>,
  // Start a child (again: the existing one). Answers at the gate. Errors: errc::keeper_failed with the reason.
  caf::replies_to<start_request_ptr, spawn_actor, spawn_ptr>::with<child_info_ptr>,
  // Open the gate / kill at the gate / the end was committed.
  caf::reacts_to<gate_atom, std::string>, caf::reacts_to<abort_atom, std::string>, caf::reacts_to<forget_atom, std::string>,
  // Kill a child with its subtree.
  caf::reacts_to<kill_atom, std::string, std::int32_t>,
  // The terminal of this spawn. Errors: errc::not_found.
  caf::replies_to<pty_atom, std::string>::with<pty_actor>,
  // The pipes of this spawn, the driver of a conversation: nobody else reads or writes there. Errors: errc::not_found.
  caf::replies_to<pty_atom, child_atom, std::string>::with<pty_actor>,
  // All terminals of a scope (empty = all).
  caf::replies_to<list_atom, std::string>::with<std::vector<pty_info_ptr>>,
  // A terminal that has ended is listed no more. Errors: errc::not_found, errc::invalid (it runs), errc::unavailable.
  caf::replies_to<list_atom, forget_atom, std::string>::with<pty_info_ptr>,
  // The keeper has been told to end: answers when the end of each program is committed and kept, or nothing more can be learned.
  caf::replies_to<gone_atom>::with<bool>,
  // The front has woken everything that is alive: children nobody asked about are strays.
  caf::reacts_to<boot_atom>, caf::reacts_to<tick_atom, std::uint64_t>, caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>,
  // Kill one terminal's actor ("pty/<id>"), for drills; the program goes on. Errors: errc::not_found.
  caf::reacts_to<kill_atom, std::string>>;

/// One other node: the link to it, what it asks of us and we of it.
using link_actor = caf::typed_actor<
  // From the transport.
  caf::reacts_to<link_news_ptr>,
  // Asks the other node; waits for the link to come back until the request's timeout, or, with what a client asks of its home, until the home has
  // been away for limits::home_away_after. Errors: errc::unavailable, errc::away, errc::overloaded, or what the other node says.
  caf::replies_to<link_request_ptr>::with<link_response_ptr>,
  // Nobody waits for this request any more.
  caf::reacts_to<abort_atom, link_request_ptr>,
  // At a home: something was committed. It is passed on when it concerns a session or worker of the other node.
  caf::reacts_to<batch_ptr>,
  // The cluster as the home has it, for the other node to know.
  caf::reacts_to<cluster_view_ptr>,
  // The node's certificate has been revoked.
  caf::reacts_to<gone_atom>,
  // The front that its requests go to.
  caf::reacts_to<attach_atom, front_actor>,
  // How the link stands.
  caf::replies_to<status_atom>::with<cluster_node_ptr>,
  // A timer of its own.
  caf::reacts_to<tick_atom, std::uint64_t>,
  // Its own row of the graph.
  caf::replies_to<tree_atom>::with<runtime::tree_entry>>;

/// All other nodes.
using federation_actor = caf::typed_actor<
  // From the transport.
  caf::reacts_to<link_news_ptr>,
  // The cluster as this node's files have it, or as its home says: links come and go.
  caf::reacts_to<cluster_view_ptr>,
  // Asks this node, directly or by the home. Errors: as link_actor, errc::not_found for a node that is not of the cluster.
  caf::replies_to<std::string, link_request_ptr>::with<link_response_ptr>,
  // Nobody waits for this request to that node any more.
  caf::reacts_to<abort_atom, std::string, link_request_ptr>,
  // From the watch hub, in commit order.
  caf::reacts_to<commit_ptr>,
  // From the front, when it has been started.
  caf::reacts_to<attach_atom, front_actor>,
  // A terminal of another node, to be used like one of this node, by whom. Errors: errc::not_found, errc::unavailable.
  caf::replies_to<pty_atom, std::string, principal_ptr>::with<pty_actor>,
  // All terminals of a scope (empty = all) on the other nodes that are linked, for whom.
  caf::replies_to<list_atom, std::string, principal_ptr>::with<std::vector<pty_info_ptr>>,
  // The live trees of the other nodes, as far as they answer; only paths that contain this text (empty = all).
  caf::replies_to<tree_atom, std::string>::with<graph_ptr>,
  // The nodes and how the links to them stand.
  caf::replies_to<list_atom>::with<cluster_view_ptr>, caf::reacts_to<tick_atom, std::uint64_t>,
  caf::replies_to<tree_atom>::with<std::vector<runtime::tree_entry>>>;

} // namespace swarm

// Handles and lists travel inside the process only.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::commit_sink_actor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::spawn_actor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::pty_actor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(swarm::front_actor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::vector<swarm::pty_info_ptr>)
