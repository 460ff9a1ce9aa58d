#include "actors/base/limits_config.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <utility>

#include "actors/base/config.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

struct configurable {
  limit_setting shown;
  const char* unit;
  std::function<bool(std::uint64_t)> set;
};

template <class T>
std::uint64_t number(T value) {
  if constexpr (std::is_integral_v<T>)
    return value;
  else
    return static_cast<std::uint64_t>(value.count());
}

template <class T>
configurable setting(std::string_view name, limits::bound<T>& which) {
  const auto* unit = !std::is_integral_v<T> ? "ms" : name.find("bytes") != name.npos ? "bytes" : "count";
  return {{name, number(which()), number(which.lowest()), number(which.highest())}, unit, [&which](std::uint64_t v) { return which.set(T(v)); }};
}

std::vector<configurable> all() {
  std::vector<configurable> out;
  auto add = [&out](auto... settings) { (out.push_back(std::move(settings)), ...); };
  add(setting("message_bytes_max", limits::message_bytes_max), setting("kv_value_bytes_max", limits::kv_value_bytes_max),
      setting("kv_key_bytes_max", limits::kv_key_bytes_max), setting("description_bytes_max", limits::description_bytes_max),
      setting("result_bytes_max", limits::result_bytes_max), setting("title_bytes_max", limits::title_bytes_max),
      setting("note_bytes_max", limits::note_bytes_max), setting("path_bytes_max", limits::path_bytes_max),
      setting("label_bytes_max", limits::label_bytes_max), setting("idempotency_key_bytes_max", limits::idempotency_key_bytes_max),
      setting("event_payload_bytes_max", limits::event_payload_bytes_max), setting("output_tail_bytes_max", limits::output_tail_bytes_max),
      setting("argv_bytes_max", limits::argv_bytes_max), setting("argv_count_max", limits::argv_count_max),
      setting("environment_bytes_max", limits::environment_bytes_max), setting("batch_tasks_max", limits::batch_tasks_max),
      setting("task_files_max", limits::task_files_max), setting("task_dependencies_max", limits::task_dependencies_max),
      setting("task_dependants_max", limits::task_dependants_max), setting("session_locks_max", limits::session_locks_max),
      setting("lock_waiters_max", limits::lock_waiters_max), setting("scope_sessions_max", limits::scope_sessions_max),
      setting("principal_open_tasks_max", limits::principal_open_tasks_max), setting("scope_kv_keys_max", limits::scope_kv_keys_max),
      setting("session_unread_messages_max", limits::session_unread_messages_max),
      setting("principal_spawns_per_minute_max", limits::principal_spawns_per_minute_max), setting("node_ptys_max", limits::node_ptys_max),
      setting("subscriptions_per_principal_max", limits::subscriptions_per_principal_max), setting("approvals_open_max", limits::approvals_open_max),
      setting("cascades_pending_max", limits::cascades_pending_max), setting("claim_next_candidates_max", limits::claim_next_candidates_max),
      setting("principal_spawns_live_max", limits::principal_spawns_live_max), setting("scope_kv_bytes_max", limits::scope_kv_bytes_max),
      setting("commit_log_bytes_max", limits::commit_log_bytes_max), setting("scope_sweep_pause", limits::scope_sweep_pause),
      setting("mcp_finish_deadline", limits::mcp_finish_deadline), setting("mcp_restart_wait", limits::mcp_restart_wait),
      setting("agent_report_ttl_max", limits::agent_report_ttl_max), setting("agent_silence", limits::agent_silence),
      setting("agent_enter_delay", limits::agent_enter_delay), setting("agent_wake_grace", limits::agent_wake_grace),
      setting("agent_wakes_max", limits::agent_wakes_max), setting("agent_line_wait", limits::agent_line_wait),
      setting("nudge_wait", limits::nudge_wait), setting("peek_lines_max", limits::peek_lines_max),
      setting("hook_call_deadline", limits::hook_call_deadline), setting("hook_lock_ttl", limits::hook_lock_ttl),
      setting("hook_report_ttl", limits::hook_report_ttl), setting("hook_session_lease", limits::hook_session_lease),
      setting("routine_session_lease", limits::routine_session_lease), setting("git_deadline", limits::git_deadline),
      setting("pty_person_hold", limits::pty_person_hold), setting("calls_in_flight_max", limits::calls_in_flight_max),
      setting("calls_in_flight_per_principal_max", limits::calls_in_flight_per_principal_max),
      setting("calls_in_flight_per_caller_max", limits::calls_in_flight_per_caller_max), setting("connections_max", limits::connections_max),
      setting("connections_per_caller_max", limits::connections_per_caller_max), setting("callers_per_request_max", limits::callers_per_request_max),
      setting("pipeline_outstanding_max", limits::pipeline_outstanding_max), setting("writer_batch_commands_max", limits::writer_batch_commands_max),
      setting("writer_rows_known_max", limits::writer_rows_known_max), setting("writer_late_rows_max", limits::writer_late_rows_max),
      setting("writer_line_commands_max", limits::writer_line_commands_max), setting("watch_buffer_events_max", limits::watch_buffer_events_max),
      setting("watch_buffers_events_max", limits::watch_buffers_events_max), setting("watch_page_events_max", limits::watch_page_events_max),
      setting("watchers_max", limits::watchers_max), setting("awake_actors_max", limits::awake_actors_max),
      setting("scopes_awake_max", limits::scopes_awake_max), setting("directory_waiting_per_key_max", limits::directory_waiting_per_key_max),
      setting("directory_waiting_max", limits::directory_waiting_max),
      setting("directory_passivations_per_tick_max", limits::directory_passivations_per_tick_max),
      setting("directory_crashes_remembered_max", limits::directory_crashes_remembered_max),
      setting("supervisor_children_max", limits::supervisor_children_max), setting("registry_dead_names_max", limits::registry_dead_names_max),
      setting("tree_rows_max", limits::tree_rows_max), setting("session_heartbeat", limits::session_heartbeat),
      setting("session_stale", limits::session_stale), setting("session_reclaim", limits::session_reclaim),
      setting("restart_grace", limits::restart_grace), setting("call_deadline_default", limits::call_deadline_default),
      setting("server_wait_max", limits::server_wait_max), setting("lock_wait_max", limits::lock_wait_max),
      setting("lock_ttl_max", limits::lock_ttl_max), setting("kv_ttl_max", limits::kv_ttl_max), setting("lease_max", limits::lease_max),
      setting("spawn_key_retention", limits::spawn_key_retention), setting("spawn_session_lease", limits::spawn_session_lease),
      setting("spawn_retries_max", limits::spawn_retries_max), setting("row_retention", limits::row_retention),
      setting("orphan_kv_retention", limits::orphan_kv_retention), setting("subscription_retention", limits::subscription_retention),
      setting("events_rows_max", limits::events_rows_max), setting("actor_idle", limits::actor_idle),
      setting("passivation_patience", limits::passivation_patience), setting("child_stop_grace", limits::child_stop_grace),
      setting("tree_patience", limits::tree_patience), setting("retention_sweep", limits::retention_sweep),
      setting("scope_reload_pause", limits::scope_reload_pause), setting("reply_clients_known_max", limits::reply_clients_known_max),
      setting("resolved_tokens_max", limits::resolved_tokens_max), setting("reply_retention", limits::reply_retention),
      setting("replies_per_principal_max", limits::replies_per_principal_max), setting("pty_ring_bytes", limits::pty_ring_bytes),
      setting("ended_terminals_max", limits::ended_terminals_max), setting("pty_segment_bytes", limits::pty_segment_bytes),
      setting("pty_segments_total_bytes", limits::pty_segments_total_bytes), setting("pty_retention", limits::pty_retention),
      setting("kill_grace", limits::kill_grace), setting("keeper_input_staging_bytes", limits::keeper_input_staging_bytes),
      setting("keeper_input_tickets_max", limits::keeper_input_tickets_max), setting("keeper_queue_bytes_max", limits::keeper_queue_bytes_max),
      setting("keeper_log_bytes_max", limits::keeper_log_bytes_max), setting("keeper_idle_exit", limits::keeper_idle_exit),
      setting("keeper_status_retention", limits::keeper_status_retention), setting("keeper_start_deadline", limits::keeper_start_deadline),
      setting("keeper_output_hold", limits::keeper_output_hold), setting("hook_question_deadline", limits::hook_question_deadline),
      setting("delta_join", limits::delta_join), setting("conversation_silence", limits::conversation_silence),
      setting("resting_driver_max", limits::resting_driver_max), setting("resting_drivers_max", limits::resting_drivers_max),
      setting("conversation_task_approval", limits::conversation_task_approval), setting("conversation_background", limits::conversation_background),
      setting("conversation_blob_bytes_max", limits::conversation_blob_bytes_max),
      setting("conversation_blobs_bytes_max", limits::conversation_blobs_bytes_max),
      setting("conversation_blob_unnamed", limits::conversation_blob_unnamed), setting("conversation_idle", limits::conversation_idle),
      setting("conversation_log_bytes_max", limits::conversation_log_bytes_max),
      setting("conversation_segment_bytes", limits::conversation_segment_bytes),
      setting("conversation_log_retention", limits::conversation_log_retention), setting("usage_retention", limits::usage_retention),
      setting("conversations_open_max", limits::conversations_open_max),
      setting("conversation_approvals_open_max", limits::conversation_approvals_open_max), setting("disk_low_bytes", limits::disk_low_bytes),
      setting("disk_critical_bytes", limits::disk_critical_bytes), setting("link_window_bytes", limits::link_window_bytes),
      setting("link_outbox_messages_max", limits::link_outbox_messages_max), setting("link_outbox_bytes_max", limits::link_outbox_bytes_max),
      setting("link_requests_max", limits::link_requests_max), setting("link_heartbeat", limits::link_heartbeat),
      setting("link_silence", limits::link_silence), setting("link_redial_min", limits::link_redial_min),
      setting("link_redial_max", limits::link_redial_max), setting("home_away_after", limits::home_away_after),
      setting("host_lease", limits::host_lease), setting("node_certificate_lifetime", limits::node_certificate_lifetime),
      setting("node_certificate_renewal", limits::node_certificate_renewal),
      setting("node_certificate_renewal_retry", limits::node_certificate_renewal_retry));
  return out;
}

/// The first must not be above the second.
constexpr std::pair<std::string_view, std::string_view> pairs[] = {
  {"session_heartbeat", "session_stale"},
  {"session_stale", "session_reclaim"},
  {"link_heartbeat", "link_silence"},
  {"link_silence", "host_lease"},
  {"node_certificate_renewal", "node_certificate_lifetime"},
  {"link_redial_min", "link_redial_max"},
  {"disk_critical_bytes", "disk_low_bytes"},
  {"pty_segment_bytes", "pty_segments_total_bytes"},
  {"watch_page_events_max", "watch_buffer_events_max"},
  {"calls_in_flight_per_principal_max", "calls_in_flight_max"},
};

struct limit_now {
  std::uint64_t value = 0;
  std::size_t line = 0; // 0 = the default
};

limit_now value_of(const config_document& document, std::string_view name) {
  static const auto defaults = limit_settings();
  if (const auto* e = document.find("limits", name))
    return {std::get<std::uint64_t>(e->value), e->line};
  auto i = std::find_if(defaults.begin(), defaults.end(), [&](const limit_setting& s) { return s.name == name; });
  return {i->value, 0};
}

void check_pairs(config_document& document) {
  for (const auto& [low, high] : pairs) {
    const auto a = value_of(document, low), b = value_of(document, high);
    if (a.value > b.value)
      document.faults.push_back({std::max(a.line, b.line), concat({"limits.", low}),
                                 concat({low, " must not be above ", high, ", and they are ", a.value, " and ", b.value})});
  }
}

config_registry make_registry() {
  config_registry out;
  for (const auto& c : all())
    out.keys.push_back({.section = "limits",
                        .name = std::string{c.shown.name},
                        .kind = config_kind::number,
                        .fallback = std::to_string(c.shown.value),
                        .unit = c.unit,
                        .reader = "node, swarmctl",
                        .effect = "start of the node",
                        .help = "docs/limits.md says what it bounds",
                        .lowest = c.shown.lowest,
                        .highest = c.shown.highest});
  out.rules.push_back(check_pairs);
  return out;
}

std::optional<std::string> take_over(const config_document& document, const std::string& file) {
  if (!document.faults.empty())
    return document.faults.front().told(file);
  auto known = all();
  for (const auto& e : document.entries)
    for (auto& c : known)
      if (c.shown.name == e.name)
        c.set(std::get<std::uint64_t>(e.value));
  return std::nullopt;
}

} // namespace

const config_registry& limits_registry() {
  static const auto registry = make_registry();
  return registry;
}

std::vector<limit_setting> limit_settings() {
  std::vector<limit_setting> out;
  for (auto& c : all())
    out.push_back(c.shown);
  return out;
}

std::optional<std::string> configure_limits(const std::filesystem::path& file) {
  return take_over(read_config(file, limits_registry()), file.string());
}

std::optional<std::string> configure_limits_from(std::string_view text) { return take_over(parse_config(std::string{text}, limits_registry()), ""); }

} // namespace swarm
