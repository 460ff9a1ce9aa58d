// Every bound of the system, with its unit in the name. docs/limits.md explains them; limits_config overrides some within
// the stated bounds.
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

// -- sizes of what people and agents write ----------------------------------------
inline constexpr std::size_t message_bytes_max = 128 * kib;
inline constexpr std::size_t kv_value_bytes_max = 128 * kib;
inline constexpr std::size_t kv_key_bytes_max = 1 * kib;
inline constexpr std::size_t description_bytes_max = 128 * kib;
inline constexpr std::size_t result_bytes_max = 128 * kib;
inline constexpr std::size_t title_bytes_max = 1 * kib;
inline constexpr std::size_t note_bytes_max = 8 * kib;
inline constexpr std::size_t path_bytes_max = 4 * kib;
inline constexpr std::size_t label_bytes_max = 1 * kib;
inline constexpr std::size_t id_bytes_max = 128;
inline constexpr std::size_t idempotency_key_bytes_max = 512;
inline constexpr std::size_t request_client_bytes_max = 64;
inline constexpr std::size_t event_payload_bytes_max = 8 * kib;
inline constexpr std::size_t output_tail_bytes_max = 8 * kib;
inline constexpr std::size_t argv_bytes_max = 128 * kib;
inline constexpr std::size_t argv_count_max = 1024;
inline constexpr std::size_t environment_bytes_max = 256 * kib;

// -- counts --------------------------------------------------------------------------
inline constexpr std::size_t batch_tasks_max = 50;
inline constexpr std::size_t task_files_max = 256;
inline constexpr std::size_t task_dependencies_max = 256;
inline constexpr std::size_t task_dependants_max = 256;
inline constexpr std::size_t session_locks_max = 1024;
inline constexpr std::size_t lock_waiters_max = 256;
inline constexpr std::size_t scope_sessions_max = 10'000;
inline constexpr std::size_t principal_open_tasks_max = 200'000;
inline constexpr std::size_t scope_kv_keys_max = 1'000'000;
inline constexpr std::size_t session_unread_messages_max = 10'000;
inline constexpr std::size_t principal_spawns_per_minute_max = 600;
inline constexpr std::size_t node_ptys_max = 1'024;
inline constexpr std::size_t subscriptions_per_principal_max = 64;
inline constexpr std::size_t approvals_open_max = 1'024;

// -- effects of a command, lists ---------------------------------------------------
inline constexpr std::size_t batch_encoded_bytes_max = 512 * kib;
inline constexpr std::size_t command_encoded_bytes_max = 256 * kib;
inline constexpr std::size_t grpc_message_bytes_max = 4 * mib;
inline constexpr std::size_t page_rows_max = 1'000;
/// A page also ends when it has grown to this size, so that it always fits a gRPC message.
inline constexpr std::size_t page_encoded_bytes_max = 2 * mib;
inline constexpr std::size_t claim_next_candidates_max = 200;

// -- queues --------------------------------------------------------------------------
inline constexpr std::size_t calls_in_flight_max = 4'096;
inline constexpr std::size_t calls_in_flight_per_principal_max = 1'024;
inline constexpr std::size_t connections_max = 4'096;
inline constexpr std::size_t pipeline_outstanding_max = 256;
inline constexpr std::size_t writer_batch_commands_max = 1'024;
inline constexpr std::size_t writer_line_commands_max = 16'384; // waiting for the writer; then errc::overloaded
inline constexpr std::size_t watch_buffer_events_max = 1'024;
inline constexpr std::size_t watch_page_events_max = 256;
inline constexpr std::size_t watchers_max = 4'096;
inline constexpr std::size_t awake_actors_max = 10'000;
inline constexpr std::size_t scopes_awake_max = 1'024;
inline constexpr std::size_t directory_waiting_per_key_max = 1'024;
inline constexpr std::size_t directory_waiting_max = 4'096;
inline constexpr std::size_t directory_passivations_per_tick_max = 256;
inline constexpr std::size_t directory_crashes_remembered_max = 1'024;
inline constexpr std::size_t supervisor_children_max = 4'096;
inline constexpr std::size_t registry_dead_names_max = 4'096;
inline constexpr std::size_t tree_rows_max = 10'000;
inline constexpr std::size_t quota_keys_max = 16'384;

// -- time ------------------------------------------------------------------------------
inline constexpr milliseconds session_heartbeat{10'000};
inline constexpr milliseconds session_stale{30'000};
inline constexpr milliseconds session_reclaim{60'000};
inline constexpr milliseconds restart_grace{15'000};
inline constexpr milliseconds call_deadline_default{30'000};
inline constexpr milliseconds server_wait_max{60'000};
inline constexpr milliseconds lock_wait_max = minutes{60};
inline constexpr milliseconds lock_ttl_max = hours{24 * 7};
inline constexpr milliseconds kv_ttl_max = hours{24 * 365};
inline constexpr milliseconds lease_max = hours{24 * 7};
inline constexpr milliseconds spawn_key_retention = hours{24};
inline constexpr milliseconds spawn_session_lease{120'000}; // of a worker's row until its process has started
inline constexpr std::uint32_t spawn_retries_max = 16;
inline constexpr milliseconds row_retention = hours{24 * 7}; // unread messages, terminal tasks, events
inline constexpr milliseconds orphan_kv_retention = hours{1};
inline constexpr milliseconds subscription_retention = hours{24 * 7};
inline constexpr std::uint64_t events_rows_max = 1'000'000;
inline constexpr milliseconds actor_idle{30'000}; // then it is passivated
inline constexpr milliseconds passivation_patience{10'000};
inline constexpr milliseconds child_stop_grace{5'000};
inline constexpr milliseconds tree_patience{500};

// -- remembered replies ------------------------------------------------------------
inline constexpr milliseconds reply_retention = hours{24};
inline constexpr std::size_t replies_per_principal_max = 1'024;

// -- terminals -------------------------------------------------------------------------
inline constexpr std::size_t pty_ring_bytes = 1 * mib;
inline constexpr std::size_t pty_segment_bytes = 4 * mib;
inline constexpr std::size_t pty_segments_total_bytes = 64 * mib;
inline constexpr milliseconds pty_retention = hours{24 * 7};
inline constexpr std::size_t pty_chunk_bytes_max = 64 * kib;
inline constexpr std::size_t pty_input_bytes_max = 64 * kib;
inline constexpr std::size_t keeper_frame_bytes_max = 1 * mib;
inline constexpr milliseconds kill_grace{5'000};
inline constexpr std::size_t ring_bytes_min = 64 * kib;
inline constexpr std::size_t ring_bytes_max = 16 * mib;
/// Input of one terminal that its program has not taken yet.
inline constexpr std::size_t keeper_input_staging_bytes = 256 * kib;
inline constexpr std::size_t keeper_input_tickets_max = 1'024;
/// Frames waiting between swarmd and the keeper, each way; beyond it the sender is refused (swarmd) or the peer dropped (keeper).
inline constexpr std::size_t keeper_queue_bytes_max = 8 * mib;
inline constexpr std::size_t keeper_log_bytes_max = 1 * mib;
/// A keeper without client and programs ends after this.
inline constexpr milliseconds keeper_idle_exit{60'000};
/// Exit statuses nobody fetched keep it alive no longer than this.
inline constexpr milliseconds keeper_status_retention = hours{24};
inline constexpr milliseconds keeper_start_deadline{5'000};

// -- disk ------------------------------------------------------------------------------
/// Below the first mark nothing that grows the store is accepted; below the second nothing at all.
inline constexpr std::uint64_t disk_low_bytes = 256 * mib;
inline constexpr std::uint64_t disk_critical_bytes = 64 * mib;

// -- fences and revisions ----------------------------------------------------------------
/// Values stay below 2^53 (exact in JSON): the epoch in the upper 17 bits, the counter in the lower 36.
inline constexpr unsigned epoch_shift = 36;

} // namespace swarm::limits
