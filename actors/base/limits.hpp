// Every bound of the system, with its unit in the name (times are milliseconds). docs/limits.md explains them. A `bound` can be
// set to another value within its own bounds by the configuration (limits_config.hpp); a constant belongs to the wire, to a
// format or to other bounds, and cannot.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace swarm::limits {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

/// A limit with the range it may be configured to: unless stated, from an eighth of its default to eight times of it. Set while
/// the process starts, before there is a second thread; only read afterwards.
template <class T>
class bound {
public:
  constexpr explicit bound(T value) : bound(value, value < T{8} ? T{1} : value / 8, value * 8) {}
  constexpr bound(T value, T lowest, T highest) : value_(value), lowest_(lowest), highest_(highest) {}
  bound(const bound&) = delete;
  bound& operator=(const bound&) = delete;

  constexpr T operator()() const noexcept { return value_; }
  constexpr T lowest() const noexcept { return lowest_; }
  constexpr T highest() const noexcept { return highest_; }
  /// False, and nothing changed, outside of the range.
  bool set(T value) noexcept {
    auto fits = value >= lowest_ && value <= highest_;
    if (fits)
      value_ = value;
    return fits;
  }

private:
  T value_, lowest_, highest_;
};

// -- sizes of what people and agents write ----------------------------------------
inline constinit bound<std::size_t> message_bytes_max{128 * kib, 1 * kib, 192 * kib};
inline constinit bound<std::size_t> kv_value_bytes_max{128 * kib, 1 * kib, 192 * kib};
inline constinit bound<std::size_t> kv_key_bytes_max{1 * kib};
inline constinit bound<std::size_t> description_bytes_max{128 * kib, 1 * kib, 192 * kib};
inline constinit bound<std::size_t> result_bytes_max{128 * kib, 1 * kib, 192 * kib};
inline constinit bound<std::size_t> title_bytes_max{1 * kib};
inline constinit bound<std::size_t> note_bytes_max{8 * kib};
inline constinit bound<std::size_t> path_bytes_max{4 * kib};
inline constinit bound<std::size_t> label_bytes_max{1 * kib};
inline constexpr std::size_t id_bytes_max = 128;
inline constinit bound<std::size_t> idempotency_key_bytes_max{512};
inline constexpr std::size_t request_client_bytes_max = 64;
inline constinit bound<std::size_t> event_payload_bytes_max{8 * kib};
inline constinit bound<std::size_t> output_tail_bytes_max{8 * kib};
inline constinit bound<std::size_t> argv_bytes_max{128 * kib, 1 * kib, 192 * kib};
inline constinit bound<std::size_t> argv_count_max{1024};
inline constinit bound<std::size_t> environment_bytes_max{256 * kib, 4 * kib, 512 * kib};
inline constexpr int json_depth_max = 256;
inline constexpr std::size_t json_members_max = 1'024; // of one object; its keys are searched one by one

// -- counts --------------------------------------------------------------------------
inline constinit bound<std::size_t> batch_tasks_max{50};
inline constinit bound<std::size_t> task_files_max{256};
inline constinit bound<std::size_t> task_dependencies_max{256};
inline constinit bound<std::size_t> task_dependants_max{256};
inline constinit bound<std::size_t> session_locks_max{1024};
inline constinit bound<std::size_t> lock_waiters_max{256};
inline constinit bound<std::size_t> scope_sessions_max{10'000};
inline constinit bound<std::size_t> principal_open_tasks_max{200'000};
inline constinit bound<std::size_t> scope_kv_keys_max{1'000'000};
inline constinit bound<std::uint64_t> scope_kv_bytes_max{1'024 * mib};
inline constinit bound<std::size_t> session_unread_messages_max{10'000};
inline constinit bound<std::size_t> principal_spawns_per_minute_max{600};
inline constinit bound<std::size_t> principal_spawns_live_max{512};
inline constinit bound<std::size_t> node_ptys_max{1'024};
inline constinit bound<std::size_t> subscriptions_per_principal_max{64};
inline constinit bound<std::size_t> approvals_open_max{1'024};
inline constinit bound<std::size_t> cascades_pending_max{32};
inline constinit bound<std::size_t> conversations_open_max{1'024};
inline constinit bound<std::size_t> conversation_approvals_open_max{512};

// -- effects of a command, lists ---------------------------------------------------
inline constexpr std::size_t batch_encoded_bytes_max = 512 * kib;
inline constexpr std::size_t command_encoded_bytes_max = 256 * kib;
inline constexpr std::size_t grpc_message_bytes_max = 4 * mib;
inline constexpr std::size_t list_elements_max = 32;
inline constexpr std::size_t approval_choices_max = 8;
inline constexpr std::size_t approval_choice_bytes_max = 64;
inline constexpr std::size_t approval_action_bytes_max = 16 * kib;
inline constexpr std::size_t approvals_open_per_session_max = 32;
inline constexpr std::size_t approvals_ended_per_session_max = 256;
inline constexpr std::size_t prompts_open_max = 32;
/// Of a conversation: the newest prompts that keep their words though its agent never got them, and the newest that keep their rows.
inline constexpr std::size_t prompts_words_kept_max = 64;
inline constexpr std::size_t prompts_kept_max = 1'024;
inline constexpr std::size_t grants_max = 16;
inline constexpr milliseconds grant_time_max{hours{24 * 366}};
inline constexpr std::size_t consumed_messages_max = 200;
inline constexpr std::size_t page_token_bytes_max = 8 * kib;
inline constexpr std::size_t page_rows_max = 1'000;
/// A page also ends when it has grown to this size, so that it always fits a gRPC message.
inline constexpr std::size_t page_encoded_bytes_max = 2 * mib;
inline constinit bound<std::size_t> claim_next_candidates_max{200};
inline constexpr std::size_t sweep_rows_max = 500;
inline constexpr std::size_t sweep_events_max = 10'000;
inline constexpr std::size_t sweep_kv_pages_max = 20;
inline constexpr std::size_t announced_tasks_max = 20;
inline constexpr std::size_t session_end_rows_max = 256;
inline constexpr std::size_t session_end_messages_max = 2'000;
inline constexpr std::size_t claim_next_pages_max = 16;
inline constexpr std::size_t prompt_result_bytes_max = 16 * kib;
inline constexpr std::size_t status_unread_max = 50;
inline constexpr std::size_t status_assigned_max = 200;
inline constexpr std::size_t status_claimable_max = 10;
inline constexpr std::size_t status_peer_tasks_max = 20;
inline constexpr std::size_t status_warnings_max = 500;
inline constexpr std::size_t messages_listed_default = 50;
inline constexpr std::size_t messages_listed_max = 1'000;
inline constexpr std::size_t candidates_shown_max = 20;
inline constexpr std::size_t id_prefix_min = 4;
inline constexpr std::size_t recent_entries_max = 64;
inline constexpr std::size_t recent_files_max = 256;
inline constexpr std::size_t recent_file_bytes_max = 512 * kib;
inline constexpr std::uint64_t exact_count_rows_max = 5'000;
inline constexpr std::size_t page_chunk_rows = 256;
inline constexpr std::size_t page_examined_rows_max = 10'000;

// -- queues --------------------------------------------------------------------------
inline constinit bound<std::size_t> calls_in_flight_max{4'096};
inline constinit bound<std::size_t> calls_in_flight_per_principal_max{1'024};
/// A caller is a worker or an agent with every process below it, or one other process.
inline constinit bound<std::size_t> calls_in_flight_per_caller_max{1'024};
inline constexpr std::size_t calls_kept_for_operator = 64;
inline constinit bound<std::size_t> connections_max{4'096};
inline constinit bound<std::size_t> connections_per_caller_max{1'024};
inline constexpr std::size_t connections_kept_for_operator = 64;
inline constinit bound<std::size_t> callers_per_request_max{8};
inline constexpr std::size_t pipeline_message_requests_max = 256;
inline constinit bound<std::size_t> pipeline_outstanding_max{256};
inline constinit bound<std::size_t> writer_batch_commands_max{128};
inline constinit bound<std::size_t> writer_rows_known_max{2'048};
/// Commands that are durable in the commit log and not yet committed to the database; and for how long at most.
inline constexpr std::size_t writer_window_commands_max = 1'024;
inline constexpr milliseconds writer_window{250};
/// Rows of a table that is written late which may wait for that; every command that searches the table looks at each of them.
inline constinit bound<std::size_t> writer_late_rows_max{128, 1, 1'024};
inline constinit bound<std::size_t> commit_log_bytes_max{4 * mib, 64 * kib, 32 * mib};
inline constinit bound<std::size_t> writer_line_commands_max{16'384}; // waiting for the writer; then errc::overloaded
inline constinit bound<std::size_t> watch_buffer_events_max{1'024};
inline constinit bound<std::size_t> watch_buffers_events_max{65'536};
inline constinit bound<std::size_t> watch_page_events_max{256};
inline constinit bound<std::size_t> watchers_max{4'096};
inline constinit bound<std::size_t> awake_actors_max{10'000};
inline constinit bound<std::size_t> scopes_awake_max{1'024};
inline constinit bound<std::size_t> directory_waiting_per_key_max{1'024};
inline constinit bound<std::size_t> directory_waiting_max{4'096};
inline constinit bound<std::size_t> directory_passivations_per_tick_max{256};
inline constinit bound<std::size_t> directory_crashes_remembered_max{1'024};
inline constinit bound<std::size_t> supervisor_children_max{4'096};
inline constinit bound<std::size_t> registry_dead_names_max{4'096};
inline constinit bound<std::size_t> tree_rows_max{10'000};
inline constexpr std::size_t pipeline_packed_bytes_max = 256 * kib;
inline constexpr std::size_t writer_known_row_bytes_max = 2 * kib; // larger rows are read again
inline constinit bound<std::size_t> reply_clients_known_max{4'096};
inline constinit bound<std::size_t> resolved_tokens_max{10'000};
inline constexpr std::size_t sweep_deadlines_read_max = 64;
inline constexpr std::size_t scope_environments_bytes_max = 16 * mib;
inline constexpr std::size_t process_ancestors_max = 256;
inline constexpr std::size_t agent_roots_max = 1'024;
inline constexpr std::size_t agent_root_sessions_max = 16;
inline constexpr std::size_t agent_roots_file_bytes_max = 8 * mib;
inline constexpr std::size_t tree_rows_per_family_max = 500;
inline constexpr std::size_t statements_cached_max = 256;
inline constexpr std::size_t search_kept_rows_max = 16;
inline constexpr std::size_t stream_frames_queued_max = 4;
inline constexpr std::size_t mcp_line_bytes_max = 4 * mib;
inline constexpr std::size_t mcp_requests_queued_max = 256;
inline constexpr std::size_t mcp_waits_max = 32;
inline constexpr std::size_t mcp_listeners_max = 16;
inline constexpr std::size_t mcp_issues_max = 100;
inline constexpr std::size_t mcp_queued_bytes_max = 16 * mib;
inline constexpr std::size_t mcp_read_bytes = 64 * kib;
inline constinit bound<milliseconds> mcp_finish_deadline{milliseconds{2'000}};
inline constinit bound<milliseconds> mcp_restart_wait{milliseconds{10'000}};
inline constexpr std::size_t reader_cache_bytes = 16 * mib;

// -- time ------------------------------------------------------------------------------
inline constinit bound<milliseconds> session_heartbeat{milliseconds{10'000}};
inline constinit bound<milliseconds> session_stale{milliseconds{30'000}};
inline constinit bound<milliseconds> session_reclaim{milliseconds{60'000}};
inline constexpr milliseconds resolved_token_age{5'000};
inline constinit bound<milliseconds> restart_grace{milliseconds{15'000}};
inline constinit bound<milliseconds> call_deadline_default{milliseconds{30'000}};
inline constinit bound<milliseconds> server_wait_max{milliseconds{60'000}};
/// Deadline of each check of `swarmctl doctor`, so that one that hangs does not hide the others.
inline constexpr milliseconds doctor_check_timeout{5'000};
inline constinit bound<milliseconds> lock_wait_max{minutes{60}};
inline constinit bound<milliseconds> lock_ttl_max{hours{24 * 7}};
inline constinit bound<milliseconds> kv_ttl_max{hours{24 * 365}};
inline constinit bound<milliseconds> lease_max{hours{24 * 7}};
inline constinit bound<milliseconds> spawn_key_retention{hours{24}};
inline constinit bound<milliseconds> spawn_session_lease{milliseconds{120'000}}; // of a worker's row until its process has started
inline constinit bound<std::uint32_t> spawn_retries_max{16};
inline constinit bound<milliseconds> row_retention{hours{24 * 7}}; // unread messages, terminal tasks, events
inline constinit bound<milliseconds> orphan_kv_retention{hours{1}};
inline constinit bound<milliseconds> subscription_retention{hours{24 * 7}};
inline constinit bound<std::uint64_t> events_rows_max{1'000'000};
inline constinit bound<milliseconds> actor_idle{milliseconds{30'000}}; // then it is passivated
inline constinit bound<milliseconds> passivation_patience{milliseconds{10'000}};
inline constinit bound<milliseconds> child_stop_grace{milliseconds{5'000}};
inline constinit bound<milliseconds> tree_patience{milliseconds{500}};
inline constinit bound<milliseconds> retention_sweep{hours{1}};
inline constinit bound<milliseconds> scope_reload_pause{milliseconds{250}};
/// Before the next sweep of a scope when the last one found nothing to do although something was due.
inline constinit bound<milliseconds> scope_sweep_pause{milliseconds{250}};

// -- remembered replies ------------------------------------------------------------
inline constinit bound<milliseconds> reply_retention{hours{24}};
inline constinit bound<std::size_t> replies_per_principal_max{1'024};

// -- terminals -------------------------------------------------------------------------
inline constinit bound<std::size_t> pty_ring_bytes{1 * mib, 64 * kib, 16 * mib};
inline constinit bound<std::size_t> ended_terminals_max{256};
inline constinit bound<std::size_t> pty_segment_bytes{4 * mib};
inline constinit bound<std::size_t> pty_segments_total_bytes{64 * mib};
inline constinit bound<milliseconds> pty_retention{hours{24 * 7}};
inline constexpr std::size_t terminal_record_bytes_max = 1 * mib; // several times what its longest texts add up to
inline constexpr std::size_t pty_chunk_bytes_max = 64 * kib;
/// Of a terminal of another node: who asks for no more is answered on the control lane, so that an echo does not wait behind a flood.
inline constexpr std::size_t pty_interactive_bytes_max = 4 * kib;
/// After input for another node's terminal, larger reads wait this long, so that the echo finds the way free.
inline constexpr milliseconds link_bulk_hold{4};
inline constexpr std::size_t pty_input_bytes_max = 64 * kib;
inline constexpr std::size_t keeper_frame_bytes_max = 1 * mib;
inline constinit bound<milliseconds> kill_grace{milliseconds{5'000}};
/// How long agents' input to a terminal is refused after a person's key stroke there.
inline constinit bound<milliseconds> pty_person_hold{milliseconds{3'000}};
/// A reader whose stream was cut opens it again after a pause that doubles from the first of these to the second.
inline constexpr milliseconds pty_reopen_pause_min{20};
inline constexpr milliseconds pty_reopen_pause_max{1'000};
/// `pty attach` shows that the node is away when it does not return within this time: a restart is faster.
inline constexpr milliseconds pty_away_notice{1'000};
/// How long `dispatch` waits, after its worker has ended, for the rest of the output: the worker's node may be gone, and the output with it.
inline constexpr milliseconds worker_output_patience{10'000};
inline constexpr std::size_t pty_inputs_remembered_max = 256;
inline constexpr std::size_t pty_request_bytes_max = 256;
inline constexpr std::size_t pty_inputs_waiting_max = 64;
inline constexpr std::size_t pty_readers_max = 256;
inline constexpr std::size_t pty_logs_open_max = 64;
inline constexpr std::size_t pty_log_ahead_bytes_max = 1 * mib;
inline constexpr std::size_t keeper_strangers_max = 16;
inline constexpr std::size_t keeper_inputs_remembered_max = 16;
inline constexpr std::size_t keeper_drain_bytes_max = 2 * mib;
inline constexpr std::size_t keeper_log_line_bytes_max = 1 * kib;
inline constexpr std::size_t ring_bytes_min = 64 * kib;
inline constexpr std::size_t ring_bytes_max = 16 * mib;
/// Input of one terminal that its program has not taken yet.
inline constinit bound<std::size_t> keeper_input_staging_bytes{256 * kib};
inline constinit bound<std::size_t> keeper_input_tickets_max{1'024};
/// Frames waiting between swarmd and the keeper, each way; beyond it the sender is refused (swarmd) or the client disconnected (keeper).
inline constinit bound<std::size_t> keeper_queue_bytes_max{8 * mib};
inline constinit bound<std::size_t> keeper_log_bytes_max{1 * mib};
/// A keeper without client and programs ends after this.
inline constinit bound<milliseconds> keeper_idle_exit{milliseconds{60'000}};
/// Exit statuses nobody fetched keep it alive no longer than this.
inline constinit bound<milliseconds> keeper_status_retention{hours{24}};
/// Without a swarmd that takes its output, a program waits no longer than this for room in its ring.
inline constinit bound<milliseconds> keeper_output_hold{milliseconds{5'000}};
/// A swarmd that is there but takes nothing, because it is stopped or its disk hangs, has this many times keeper_output_hold.
inline constexpr int keeper_stuck_holds = 6;
inline constinit bound<milliseconds> keeper_start_deadline{milliseconds{5'000}};

// -- conversations ------------------------------------------------------------------------
/// Between swarmd and the driver of a conversation.
inline constexpr std::size_t driver_frame_bytes_max = 60 * kib;
inline constexpr std::size_t driver_part_bytes_max = 48 * kib;
inline constexpr std::size_t driver_ring_bytes = 2 * mib;
/// What the driver has said and the node has not stored: it then stops reading its agent.
inline constexpr std::size_t driver_unstored_bytes_max = 512 * kib;
inline constexpr std::size_t driver_stderr_bytes = 8 * kib;
inline constexpr std::size_t driver_locked_paths_max = 1'024;
/// The driver answers a hook question that nobody answers.
inline constinit bound<milliseconds> hook_question_deadline{milliseconds{8'000}};
/// For this long a driver joins pieces of a text before it sends them.
inline constinit bound<milliseconds> delta_join{milliseconds{20}};
/// After this long without a word of the agent outside of a tool, a notice says so.
inline constinit bound<milliseconds> conversation_silence{minutes{5}};
/// An agent without a turn ends after this; the next prompt starts it again.
inline constinit bound<milliseconds> conversation_idle{minutes{15}};
/// A driver whose agent has ended stays for resting_driver_max. A node keeps resting_drivers_max of them; the one that rests longest ends first.
inline constinit bound<milliseconds> resting_driver_max{hours{24}};
inline constinit bound<std::size_t> resting_drivers_max{64};
/// Starts of a conversation's driver in a row that no prompt has come through.
inline constexpr std::size_t conversation_starts_max = 3;
inline constexpr std::size_t conversation_last_text_bytes_max = 8 * kib;
/// Turns in a row that mail has begun, and no person and no task: two agents must not answer each other for ever.
inline constexpr std::size_t conversation_own_turns_max = 8;
/// An agent that works for a task is denied what no person has decided by then.
inline constinit bound<milliseconds> conversation_task_approval{minutes{30}};
/// How long a task whose turn has ended waits for the background tasks of its agent.
inline constinit bound<milliseconds> conversation_background{hours{1}};
/// Nobody is asked what an agent may do for at most this long.
inline constexpr milliseconds conversation_bypass_max = hours{8};
/// Conversations of a scope that were stopped; the oldest goes with what was said.
inline constexpr std::size_t conversations_ended_max = 1'024;
/// A driver that was told to end and does not is killed.
inline constexpr milliseconds driver_stop_max = seconds{30};
/// A driver that has not answered to hello is killed.
inline constexpr milliseconds driver_hello_max = seconds{30};
/// What a driver's agent has for its end before its process group is killed.
inline constexpr milliseconds driver_stop_grace = seconds{5};
/// Paths that an approval says its tool would write, and their bytes together; as many bytes for the question of a hook.
inline constexpr std::size_t approval_writes_max = 64;
inline constexpr std::size_t approval_writes_bytes_max = 16 * kib;
/// Pages of locks that are read before an agent writes: more locks than that and nothing is known of the rest.
inline constexpr std::size_t conversation_lock_pages_max = 4;
/// Patterns of one conversation together, so that its driver can be told of them in one frame.
inline constexpr std::size_t conversation_patterns_bytes_max = 48 * kib;
/// What an agent may do unasked.
inline constexpr std::size_t conversation_patterns_max = 64;
inline constexpr std::size_t conversation_pattern_bytes_max = 1 * kib;
inline constexpr std::size_t prompt_attachments_max = 16;
inline constexpr std::size_t attachment_name_bytes_max = 256;
inline constexpr std::size_t attachment_type_bytes_max = 128;
/// What is too large for a row or a frame of the log stands in a file of its own.
inline constinit bound<std::size_t> conversation_blob_bytes_max{16 * mib};
inline constinit bound<std::size_t> conversation_blobs_bytes_max{256 * mib};
/// What one counts for at least, so that their number has a bound as well.
inline constexpr std::size_t conversation_blob_counted_min = 64 * kib;
/// Uploads of a node at a time, and how long one may take.
inline constexpr std::size_t conversation_uploads_max = 64;
inline constexpr milliseconds conversation_upload_max = minutes{10};
/// How often what is left behind or too old is looked for.
inline constexpr milliseconds conversation_round_every = hours{1};
/// Of the log, when somebody attaches, and lines of that.
inline constexpr std::size_t chat_tail_bytes = 256 * kib;
inline constexpr std::size_t chat_past_lines_max = 400;
/// A blob that no prompt and no approval names.
inline constinit bound<milliseconds> conversation_blob_unnamed{hours{24}};
inline constexpr std::size_t conversation_frame_bytes_max = 256 * kib;
inline constexpr std::size_t open_item_bytes_max = 256 * kib;
inline constinit bound<std::size_t> conversation_log_bytes_max{256 * mib};
inline constinit bound<std::size_t> conversation_segment_bytes{4 * mib};
inline constexpr std::size_t conversation_segments_max = 256;
inline constinit bound<milliseconds> conversation_log_retention{hours{24 * 90}};
inline constinit bound<milliseconds> usage_retention{hours{24 * 400}};
/// A conversation's actor waits this long before it connects to its driver again, and before it asks the store or a reader again.
inline constexpr milliseconds conversation_again_soon{200};
inline constexpr milliseconds conversation_again_later{1'000};
/// One write to a conversation's log, and one read of it.
inline constexpr std::size_t conversation_write_bytes = 256 * kib;
inline constexpr std::size_t conversation_page_bytes = 256 * kib;
/// A node remembers the newest that were deleted while it runs: a read or write that comes late must not make their directories again.
inline constexpr std::size_t conversations_forgotten_max = 4'096;
/// Conversations that the round looks at together; between two such groups, others have their turn.
inline constexpr std::size_t conversation_round_rows = 64;
/// Conversations whose blobs the node knows without reading their directory. More are forgotten, except those with an upload under way.
inline constexpr std::size_t conversation_blob_places_max = 64;
/// Uploads that have ended and may still be undone: their callers may have gone before they heard of the end.
inline constexpr std::size_t conversation_blobs_answered_max = 64;
/// Prompts of a conversation that are read at once.
inline constexpr std::size_t prompts_page_rows = 64;
/// Unread mail that is searched at once for what becomes a prompt; older mail that never does may lie before it.
inline constexpr std::size_t conversation_mail_bytes_max = 8 * mib;
/// An agent that hears that nothing goes on beside its turns begins one more turn; one that has not by then has said everything.
inline constexpr milliseconds conversation_last_turn = seconds{10};
/// The node's judge of locks has one case of a conversation at a time: a second one would wait behind it.
inline constexpr milliseconds lock_judge_patience = minutes{1};
/// The node's lookers at locks' files, each a thread; of them of one scope: one that hangs does not keep the others.
inline constexpr std::size_t lock_lookers_max = 8;
inline constexpr std::size_t lock_lookers_of_scope_max = 2;
/// Scopes that are looked through for where a tool writes, in pages, and those of them whose locks are read.
inline constexpr std::size_t lock_scopes_looked_through_pages_max = 64;
inline constexpr std::size_t lock_other_scopes_max = 16;
/// More than the hook questions and answers that one driver may wait for.
inline constexpr std::size_t lock_questions_max = 128;

// -- drivers of conversations, and the agents that they drive -----------------------------
/// A prompt with its attachments, and its parts. One prompt that has more is refused when its turn comes.
inline constexpr std::size_t driver_prompt_bytes_max = 20 * mib;
inline constexpr std::size_t driver_prompt_parts_max = 64;
/// Ids of prompts, by which a driver knows one that comes again.
inline constexpr std::size_t driver_prompts_known_max = 65'536;
/// Interrupts, and answers, that a driver knows when they come again.
inline constexpr std::size_t driver_answers_remembered_max = 1'024;
/// Changes of model or mode that wait until the agent takes them.
inline constexpr std::size_t driver_options_held_max = 16;
/// Prompts that the agent has not taken.
inline constexpr std::size_t driver_waiting_bytes_max = 64 * mib;
/// With more frames that are not stored, what swarmd wishes waits until it stores some.
inline constexpr std::size_t driver_waiting_frames_max = 4'096;
/// What the agent is given beside prompts and has not read; with more, nothing is read of the agent.
inline constexpr std::size_t driver_unasked_bytes_max = 1 * mib;
/// Pieces of texts that wait for the pipe to swarmd, and other frames without a number that do.
inline constexpr std::size_t driver_passing_bytes_max = 256 * kib;
inline constexpr std::size_t driver_asking_bytes_max = 1 * mib;
/// Locks of peers in one frame, as a driver takes it.
inline constexpr std::size_t driver_locks_bytes_max = 8 * mib;
/// One read of a pipe.
inline constexpr std::size_t driver_read_bytes = 64 * kib;
/// Reads of the agent's standard error after its end: a pipe has at most 1 MiB, and somebody may still fill it.
inline constexpr std::size_t driver_complaint_reads_max = 16;
/// Processes that an agent has left behind: those whose ends are watched at once, and their time before SIGKILL.
inline constexpr std::size_t driver_others_max = 64;
inline constexpr milliseconds driver_others_grace = seconds{1};
/// The newest, and the one before it: the newest may have been kept and not said.
inline constexpr std::size_t driver_hellos_kept = 2;
/// An agent that has started and has not introduced itself by then cannot be driven.
inline constexpr milliseconds driver_introduction = seconds{60};
/// Between SIGTERM and SIGKILL of an agent's process group.
inline constexpr milliseconds driver_kill_after = seconds{2};
/// What a driver that ends waits for its last frames to be taken.
inline constexpr milliseconds driver_linger = seconds{10};
/// The longest grace that a driver takes from swarmd.
inline constexpr milliseconds driver_stop_grace_max = minutes{10};
/// Lines of an agent that is driven, and what of them is kept. With more, the line, the request or the item is cut or refused, and a notice says so.
inline constexpr std::size_t agent_line_bytes_max = 64 * mib;
inline constexpr std::size_t agent_request_part_bytes_max = 32 * kib;
inline constexpr std::size_t agent_streamed_bytes_max = 4 * mib;
inline constexpr std::size_t agent_requests_open_max = 32;
inline constexpr std::size_t agent_requests_bytes_max = 64 * mib;
inline constexpr std::size_t agent_request_id_bytes_max = 16 * kib;
/// Names of requests in all lives of an agent: it may use its own ids again.
inline constexpr std::size_t agent_requests_known_max = 65'536;
inline constexpr std::size_t agent_hook_questions_max = 64;
/// Prompts that no turn has yet, interrupts, and options that are not set yet, each.
inline constexpr std::size_t agent_wishes_waiting_max = 64;
/// Notices about lines that cannot be read.
inline constexpr std::size_t agent_notices_max = 64;
/// Calls of tools in one turn that have no result.
inline constexpr std::size_t agent_calls_open_max = 1'024;
/// Blocks of one message, messages that may be written at a time, and the end of what was said last.
inline constexpr std::size_t agent_blocks_max = 4'096;
inline constexpr std::size_t agent_messages_open_max = 32;
inline constexpr std::size_t agent_last_text_bytes_max = 16 * kib;
/// Background tasks, models and commands of which an agent tells; prompts that one interrupt ends; rules that it suggests.
inline constexpr std::size_t agent_tasks_max = 100'000;
inline constexpr std::size_t agent_models_max = 64;
inline constexpr std::size_t agent_commands_max = 256;
inline constexpr std::size_t agent_interrupted_max = 1'024;
inline constexpr std::size_t agent_suggestions_max = 64;
/// The name of a tool, a model or a mode; and a reason that an agent gives or is given.
inline constexpr std::size_t agent_name_bytes_max = 256;
inline constexpr std::size_t agent_reason_bytes_max = 8 * kib;
/// Claude Code's service takes 5 MiB of an image, as it counts them in base64; and a text that is part of the prompt.
inline constexpr std::size_t agent_image_bytes_max = 3'840 * kib;
inline constexpr std::size_t agent_text_file_bytes_max = 512 * kib;
/// An agent's question has as many parts as Claude Code asks at once. Longer texts are shortened where they are shown.
inline constexpr int question_parts_max = 4;
inline constexpr std::size_t question_choices_max = 8;
inline constexpr std::size_t question_part_bytes_max = 1 * kib;
inline constexpr std::size_t question_label_bytes_max = 256;
/// In what a tool is given, paths are looked for to this depth and in so many texts.
inline constexpr int tool_input_depth_max = 16;
inline constexpr std::size_t tool_input_texts_max = 4'096;
/// A key in a chat that was meant for a line which is being typed must not answer a question that has just come, nor one that begins a word.
inline constexpr milliseconds chat_key_pause{500};
/// A second Ctrl-C within this time leaves the chat.
inline constexpr milliseconds chat_leave_pause{1'000};

// -- secrets -----------------------------------------------------------------------------
inline constexpr std::size_t secret_bytes_max = 64 * kib;
inline constexpr std::size_t secrets_max = 256;
/// Shorter than keys are: one that was written where its name belongs is no name.
inline constexpr std::size_t secret_name_bytes_max = 32;

// -- agents, hooks, context --------------------------------------------------------------
inline constexpr std::size_t agent_sources_max = 4;
inline constinit bound<milliseconds> agent_report_ttl_max{hours{24}};
/// A pause of the output of this length means that the agent waits.
inline constinit bound<milliseconds> agent_silence{milliseconds{3'000}};
/// Between the text typed for an agent and its Enter: programs take a burst that ends in one for a paste.
inline constinit bound<milliseconds> agent_enter_delay{milliseconds{300}};
/// Claude Code, Gemini CLI and Codex show longer pastes as a mark, OpenCode one of more than 150 characters.
inline constexpr std::size_t agent_wake_line_bytes_max = 150;
/// How long the text may take to stand in the program's input line.
inline constinit bound<milliseconds> agent_line_wait{milliseconds{5'000}};
/// So much of what a terminal wrote before is read to know what stands on it.
inline constexpr std::size_t agent_screen_bytes = 1 * mib;
/// How long a session that is woken in another way has to take its mail first.
inline constinit bound<milliseconds> agent_wake_grace{milliseconds{300}};
inline constinit bound<std::uint32_t> agent_wakes_max{3};
/// How long a session that prompts a peer waits to hear that it was told.
inline constinit bound<milliseconds> nudge_wait{milliseconds{2'000}};
inline constexpr milliseconds ask_person_wait{seconds{50}};
inline constinit bound<std::size_t> peek_lines_max{400};
inline constexpr std::size_t hook_input_bytes_max = 16 * mib;
inline constexpr std::size_t hook_paths_max = 256;
inline constinit bound<milliseconds> hook_call_deadline{milliseconds{4'000}};
inline constinit bound<milliseconds> hook_lock_ttl{minutes{10}};
/// How long a hook's "working" report stays valid. No hook fires when a person interrupts a turn, so the report must expire.
inline constinit bound<milliseconds> hook_report_ttl{minutes{10}};
inline constinit bound<milliseconds> hook_session_lease{hours{24}};
inline constexpr std::size_t hook_script_bytes_max = 1 * mib;
inline constexpr std::size_t hook_script_words_max = 4'096;
inline constexpr int hook_script_depth_max = 8;
inline constexpr std::size_t hook_patch_bytes_max = 1 * mib;
inline constexpr std::size_t hook_note_bytes_max = 1 * kib;
inline constexpr std::size_t hook_record_bytes_max = 2 * mib;
inline constexpr std::size_t hook_records_max = 1'024;
inline constexpr std::size_t hook_calls_max = 32;
inline constexpr std::size_t ambient_bytes_max = 4 * kib;
inline constexpr std::size_t ambient_rows_max = 16;
inline constexpr std::size_t ambient_text_bytes_max = 160;
/// Somebody waits with a finger on the Tab key.
inline constexpr milliseconds completion_deadline{2'000};
/// A shell shows about as many at most; of more, the person types a letter first.
inline constexpr std::size_t completion_offers_max = 200;
inline constexpr std::size_t completion_remark_bytes_max = 80;
/// Of the tasks that have ended, the newest of each status.
inline constexpr std::size_t completion_ended_tasks_max = 50;

// -- worktrees, routines, set-up ---------------------------------------------------------
inline constinit bound<milliseconds> git_deadline{minutes{2}};
inline constexpr std::size_t git_output_bytes_max = 16 * mib;
inline constexpr std::size_t worktree_conflict_bytes_max = 64 * kib;
inline constexpr std::size_t worktree_record_bytes_max = 64 * kib;
inline constexpr std::size_t routine_bytes_max = 256 * kib;
inline constexpr std::size_t routines_max = 256;
inline constexpr std::size_t routine_parameters_max = 32;
inline constexpr std::size_t routine_problems_max = 20;
inline constexpr std::size_t routine_envelope_bytes_max = 16 * kib;
inline constexpr std::size_t routine_excerpt_bytes_max = 1 * kib;
inline constexpr int routine_begin_attempts_max = 16;
inline constinit bound<milliseconds> routine_session_lease{minutes{1}};
inline constexpr std::size_t agent_settings_bytes_max = 4 * mib;
inline constexpr std::size_t agent_settings_depth_max = 100;

// -- profiles ----------------------------------------------------------------------------
inline constexpr std::size_t profile_bytes_max = 64 * kib;
inline constexpr std::size_t profile_value_bytes_max = 8 * kib;
inline constexpr std::size_t profiles_max = 256;

// -- disk ------------------------------------------------------------------------------
/// Below the first mark nothing that grows the store is accepted; below the second nothing at all.
inline constinit bound<std::uint64_t> disk_low_bytes{256 * mib};
inline constinit bound<std::uint64_t> disk_critical_bytes{64 * mib};
/// Shorter than a stopping node waits for the ends of its programs to be recorded.
inline constexpr milliseconds low_disk_retry{1'000};
inline constexpr std::size_t node_log_bytes_max = 8 * mib;
inline constexpr std::size_t node_log_files_max = 3;
inline constexpr std::size_t configuration_bytes_max = 256 * kib;
inline constexpr std::size_t node_identity_bytes_max = 64 * kib;

// -- cluster ---------------------------------------------------------------------------
inline constexpr std::uint32_t link_protocol = 2;
inline constexpr std::uint32_t link_protocol_min = 1;
inline constexpr std::size_t nodes_max = 64;
inline constexpr std::size_t node_name_bytes_max = 64;
inline constexpr std::size_t node_labels_max = 64;
/// What a node says of itself is passed on to all, and kept: with the most nodes there may be it fits a message and the file.
inline constexpr std::size_t node_info_bytes_max = 8 * kib;
inline constexpr std::size_t link_message_bytes_max = 3 * mib;
/// What a node takes in of a link before somebody has dealt with it.
inline constinit bound<std::size_t> link_window_bytes{8 * mib, 4 * mib, 64 * mib};
/// Messages for another node that have not arrived yet: beyond it, errc::overloaded.
inline constinit bound<std::size_t> link_outbox_messages_max{4'096};
inline constinit bound<std::size_t> link_outbox_bytes_max{32 * mib, 4 * mib, 256 * mib};
inline constinit bound<std::size_t> link_requests_max{4'096};
inline constinit bound<milliseconds> link_heartbeat{milliseconds{5'000}};
/// Counted in credit with every message besides its own size: what it costs to hold it, also when it is tiny. Both sides must agree.
inline constexpr std::size_t link_message_overhead_bytes = 256;
/// A message is acknowledged with whatever is sent next, or alone after this pause or so many of them.
inline constexpr milliseconds link_ack_delay{5};
inline constexpr std::size_t link_unacknowledged_max = 32;
inline constexpr std::size_t link_close_text_bytes_max = 1 * kib;
/// A request up to this size gives its credit back at once: one that waits for long must not keep the other node from sending.
inline constexpr std::size_t link_small_request_bytes = 16 * kib;
inline constexpr std::size_t link_frames_queued_max = 4;
inline constexpr milliseconds link_connect_timeout{5'000};
inline constexpr milliseconds link_keepalive{10'000};
inline constexpr milliseconds link_keepalive_timeout{5'000};
/// A node that pings more often than this loses its connection.
inline constexpr milliseconds link_ping_pause_min{5'000};
/// Streams of one connection to a node: each lane has one, so the rest is for calls outside the link, such as Renew.
inline constexpr std::size_t link_streams_max = 8;
inline constexpr milliseconds link_stop_patience{2'000};
/// The same fault of a link is logged once, and again when it has not occurred for this long.
inline constexpr milliseconds complaint_quiet{hours{1}};
inline constexpr std::size_t complaint_reasons_max = 64;
/// A connection that is silent for this long is given up.
inline constinit bound<milliseconds> link_silence{milliseconds{15'000}};
inline constinit bound<milliseconds> link_redial_min{milliseconds{100}};
inline constinit bound<milliseconds> link_redial_max{milliseconds{10'000}};
/// Longer than a restart of the home takes. After it nobody need wait for an answer that only a home that comes back could give. A home that fell
/// silent was away for link_silence already.
inline constinit bound<milliseconds> home_away_after{milliseconds{3'000}};
/// The last try to reach a home that is away: by then it has failed, or the home is somewhere that answers nothing.
inline constexpr milliseconds home_away_dial{1'000};
/// A host that has been silent for this long is gone: its locks are released and its tasks open again.
inline constinit bound<milliseconds> host_lease{milliseconds{30'000}};
inline constexpr milliseconds clock_offset_warned{minutes{1}};
inline constexpr std::size_t cluster_file_bytes_max = 1 * mib;
inline constexpr std::size_t checkouts_max = 256;
inline constexpr std::size_t placement_text_bytes_max = 1 * kib;
inline constexpr std::size_t accept_list_max = 64;
inline constexpr milliseconds cluster_call_timeout{10'000};
inline constexpr milliseconds graph_of_others_patience{3'000};
/// A node whose join is under way when the listener closes gets its answer.
inline constexpr milliseconds join_grace{2'000};
/// Longer than a home takes to reopen its join listener, which cuts off a node that connects at that moment.
inline constexpr milliseconds join_retry_after{1'000};
inline constexpr std::size_t join_request_bytes_max = 16 * kib;
/// Calls at once on one connection to the join listener: a node that joins makes one.
inline constexpr std::size_t join_streams_max = 1;
/// The join listener replaces its certificate this long before it ends, if there is a newer one: no handshake takes longer.
inline constexpr milliseconds join_certificate_change{minutes{1}};
inline constexpr std::size_t join_token_bytes_max = 1 * kib;
inline constexpr std::size_t join_attempts_per_minute_max = 5;
inline constexpr std::size_t join_tokens_max = 16;
/// Those that were used or have expired are remembered for what they can tell who comes too late.
inline constexpr std::size_t join_tokens_remembered_max = 64;
/// Of a cluster's whole life; each is an act of a person.
inline constexpr std::size_t revoked_nodes_max = 8'192;
inline constexpr milliseconds join_token_lifetime{minutes{10}};
inline constexpr milliseconds join_token_lifetime_max{hours{24}};
inline constexpr std::size_t passphrase_bytes_max = 1 * kib;
inline constexpr milliseconds authority_unlocked{minutes{10}};
inline constinit bound<milliseconds> node_certificate_lifetime{hours{24 * 365}, seconds{5}, hours{24 * 3650}};
inline constinit bound<milliseconds> node_certificate_renewal{hours{24 * 30}, seconds{1}, hours{24 * 3650}};
inline constinit bound<milliseconds> node_certificate_renewal_retry{hours{1}, seconds{1}, hours{24}};
/// A node looks at its certificate at least this often, because somebody may set its clock.
inline constexpr milliseconds node_certificate_check{hours{24}};
inline constexpr milliseconds authority_lifetime{hours{24 * 3650}};
/// Certificates are valid from this long before they are made, because the clocks of hosts differ.
inline constexpr milliseconds certificate_backdate{hours{24}};

// -- login -------------------------------------------------------------------------------
inline constexpr milliseconds login_lifetime{hours{12}};
inline constexpr std::size_t login_passphrase_bytes_min = 8;
/// Wrong passphrases within a minute, from one terminal and from all together.
inline constexpr std::size_t login_wrong_per_terminal_max = 5;
inline constexpr std::size_t login_wrong_max = 30;
inline constexpr std::size_t logins_max = 256;

// -- fences and revisions ----------------------------------------------------------------
/// Values stay below 2^53 (exact in JSON): the epoch in the upper 17 bits, the counter in the lower 36.
inline constexpr unsigned epoch_shift = 36;

} // namespace swarm::limits
