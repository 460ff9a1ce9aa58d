#include "actors/base/limits_config.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <type_traits>
#include <utility>

// toml++ 3.3 asserts what a malformed file can break ("[=") and refuses it a few lines below: without assertions every build
// answers as the release does.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/limits.hpp"

namespace swarm {

namespace {

struct configurable {
  limit_setting shown;
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
  return {{name, number(which()), number(which.lowest()), number(which.highest())}, [&which](std::uint64_t v) { return which.set(T(v)); }};
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
      setting("conversation_idle", limits::conversation_idle), setting("conversation_log_bytes_max", limits::conversation_log_bytes_max),
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

/// Pairs of which the first must not be above the second.
std::optional<std::string> contradiction() {
  auto above = [](std::string_view low, auto a, std::string_view high, auto b) -> std::optional<std::string> {
    if (a <= b)
      return std::nullopt;
    return std::string{low} + " must not be above " + std::string{high};
  };
  using namespace limits;
  for (auto wrong :
       {above("session_heartbeat", session_heartbeat(), "session_stale", session_stale()),
        above("session_stale", session_stale(), "session_reclaim", session_reclaim()),
        above("link_heartbeat", link_heartbeat(), "link_silence", link_silence()), above("link_silence", link_silence(), "host_lease", host_lease()),
        above("node_certificate_renewal", node_certificate_renewal(), "node_certificate_lifetime", node_certificate_lifetime()),
        above("link_redial_min", link_redial_min(), "link_redial_max", link_redial_max()),
        above("disk_critical_bytes", disk_critical_bytes(), "disk_low_bytes", disk_low_bytes()),
        above("pty_segment_bytes", pty_segment_bytes(), "pty_segments_total_bytes", pty_segments_total_bytes()),
        above("watch_page_events_max", watch_page_events_max(), "watch_buffer_events_max", watch_buffer_events_max()),
        above("calls_in_flight_per_principal_max", calls_in_flight_per_principal_max(), "calls_in_flight_max", calls_in_flight_max())})
    if (wrong)
      return wrong;
  return std::nullopt;
}

constexpr std::array<std::string_view, 5> tables{"limits", "labels", "accept", "identity", "terminal"};

/// "[limits], [labels] and …"
std::string table_names() {
  std::string out;
  for (const auto& name : tables)
    out += (name == tables.front() ? "[" : name == tables.back() ? " and [" : ", [") + std::string{name} + "]";
  return out;
}

std::optional<std::string> take_over(const toml::table& file) {
  for (const auto& [key, value] : file)
    if (std::find(tables.begin(), tables.end(), key.str()) == tables.end() || !value.is_table())
      return "unknown table or key \"" + std::string{key.str()} + "\"; there are " + table_names();
  const auto* given = file["limits"].as_table();
  if (!given)
    return std::nullopt;
  auto known = all();
  for (const auto& [key, value] : *given) {
    auto i = std::find_if(known.begin(), known.end(), [&, name = key.str()](const auto& k) { return k.shown.name == name; });
    if (i == known.end())
      return "unknown limit \"" + std::string{key.str()} + "\"; docs/limits.md lists those that can be set";
    auto n = value.value_exact<std::int64_t>();
    if (!n || *n < 0 || !i->set(static_cast<std::uint64_t>(*n)))
      return std::string{i->shown.name} + " must be a whole number from " + std::to_string(i->shown.lowest) + " to " +
             std::to_string(i->shown.highest);
  }
  return contradiction();
}

/// toml++ 3.3 is undefined for some letters where white space may stand. What we read is ASCII, so the parser gets nothing else:
/// in comments such bytes are overwritten, elsewhere they are refused.
std::optional<std::string> leave_ascii(std::string& text) {
  int line = 1;
  bool comment = false;
  for (char& c : text) {
    if (c == '\n') {
      ++line;
      comment = false;
    } else if (c == '#') {
      comment = true;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      if (!comment)
        return "line " + std::to_string(line) + ": only comments may hold characters beyond ASCII";
      c = '?';
    }
  }
  return std::nullopt;
}

std::optional<std::string> parse_and_take_over(std::string text) {
  if (auto wrong = leave_ascii(text))
    return wrong;
  try {
    return take_over(toml::parse(text));
  } catch (const toml::parse_error& e) {
    return "line " + std::to_string(e.source().begin.line) + ": " + std::string{e.description()};
  }
}

} // namespace

std::span<const std::string_view> configuration_tables() noexcept { return tables; }

std::vector<limit_setting> limit_settings() {
  std::vector<limit_setting> out;
  for (auto& c : all())
    out.push_back(c.shown);
  return out;
}

std::optional<std::string> configure_limits(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable) && !unreadable)
    return std::nullopt;
  std::string text(limits::configuration_bytes_max + 1, '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    return file.string() + ": cannot be read";
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > limits::configuration_bytes_max)
    return file.string() + ": is larger than " + std::to_string(limits::configuration_bytes_max / limits::kib) + " KiB";
  auto wrong = configure_limits_from(text);
  return wrong ? std::optional{file.string() + ": " + *wrong} : std::nullopt;
}

std::optional<std::string> configure_limits_from(std::string_view text) {
  auto before = all();
  auto wrong = parse_and_take_over(std::string{text});
  if (wrong)
    for (auto& c : before)
      c.set(c.shown.value);
  return wrong;
}

} // namespace swarm
