#include "gateway/json/shapes.hpp"

#include <chrono>

#include "actors/base/limits.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"

namespace swarm::mcp {

namespace {

json texts(const google::protobuf::RepeatedPtrField<std::string>& list) {
  auto out = json::array();
  for (const auto& text : list)
    out.push_back(text);
  return out;
}

json parsed_or_text(const std::string& text) {
  auto value = domain::parse_json(text);
  return value ? std::move(*value) : json(text);
}

template <class Rows, class Shape>
json list(const Rows& rows, Shape shape) {
  auto out = json::array();
  for (const auto& row : rows)
    out.push_back(shape(row));
  return out;
}

void add_prompt(json& out, const v1::PromptResult& result) {
  if (result.message_id() != 0)
    out["prompt"] = prompt(result);
}

void add_prompts(json& out, const v1::TaskReply& reply) {
  add_prompt(out, reply.prompt());
  if (reply.unblocked().empty())
    return;
  auto& list = out["unblocked_prompts"] = json::array();
  for (const auto& u : reply.unblocked())
    list.push_back({{"task_id", u.task_id()}, {"recipient", u.prompt().recipient()}, {"prompt", prompt(u.prompt())}});
}

json hidden(std::string_view file) { return {{"hidden", true}, {"reason", "cross_identity"}, {"file", file}}; }

} // namespace

std::string dump(const json& value, int indent) { return value.dump(indent, ' ', false, json::error_handler_t::replace); }

json text_or_null(std::string_view text) { return text.empty() ? json(nullptr) : json(text); }

std::int64_t seconds(std::int64_t ms) { return ms / 1000; }

json seconds_or_null(std::int64_t ms) { return ms == 0 ? json(nullptr) : json(seconds(ms)); }

namespace {

/// The keys an instance and a peer begin with.
json who_and_where(const v1::Session& s) {
  return {{"id", s.id()},
          {"scope", s.scope()},
          {"directory", s.directory()},
          {"root", s.root()},
          {"file_root", s.file_root()},
          {"pid", s.pid()},
          {"label", text_or_null(s.label())}};
}

} // namespace

json instance(const v1::Session& s) {
  auto out = who_and_where(s);
  out["adopted"] = s.adopted();
  out["lease_until"] = seconds_or_null(s.lease_until_ms());
  return out;
}

json peer(const v1::Session& s) {
  auto out = who_and_where(s);
  out["registered_at"] = seconds(s.registered_at_ms());
  out["heartbeat"] = seconds(s.heartbeat_ms());
  out["adopted"] = s.adopted() ? 1 : 0;
  out["lease_until"] = seconds_or_null(s.lease_until_ms());
  return out;
}

json located_peer(const v1::Session& s) {
  auto out = peer(s);
  add_located(out, s);
  return out;
}

void add_located(json& out, const v1::Session& s) {
  if (!s.has_workspace())
    return;
  const auto& w = s.workspace();
  out["workspace_backend"] = w.backend();
  out["workspace_handle"] = w.handle();
  out["handle_kind"] = w.handle_kind();
  out["pane_id"] = text_or_null(w.pane_id());
}

void add_grants(json& out, const v1::Session& s, std::int64_t now_ms) {
  const auto held = domain::grants_at(s.grants(), s.grant_ends(), now_ms);
  if (held.empty())
    return;
  out["grants"] = texts(held);
  auto ends = json::object();
  for (const auto& e : s.grant_ends())
    if (now_ms < e.until_ms())
      ends[e.grant()] = seconds(e.until_ms());
  if (!ends.empty())
    out["grant_ends"] = std::move(ends);
}

void add_place(json& out, const v1::Workspace& w) {
  out["workspace_backend"] = w.backend();
  out["workspace_handle"] = w.handle();
  if (!w.pane_id().empty())
    out["pane_id"] = w.pane_id();
}

json workspace(const v1::Workspace& w) {
  json out = {{"key", w.key()}, {"backend", w.backend()}, {"handle_kind", w.handle_kind()}, {"handle", w.handle()}, {"workspace_handle", w.handle()}};
  for (const auto& [name, value] : {std::pair{"pane_id", &w.pane_id()}, {"workspace_id", &w.workspace_id()}, {"tab_id", &w.tab_id()}})
    if (!value->empty())
      out[name] = *value;
  return out;
}

json message(const v1::Message& m) {
  return {{"id", m.id()}, {"sender", m.sender()}, {"content", m.content()}, {"created_at", seconds(m.created_at_ms())}};
}

json prompt(const v1::PromptResult& p, const std::string& nudge_error) {
  json out = {{"message_sent", p.message_id() != 0},
              {"sender", p.sender()},
              {"recipient", p.recipient()},
              {"nudged", p.skipped().empty() && nudge_error.empty()}};
  if (!p.skipped().empty())
    out["nudge_skipped"] = p.skipped();
  else if (!nudge_error.empty())
    out["nudge_error"] = nudge_error;
  if (!p.handle().empty()) {
    out["workspace_backend"] = p.backend();
    out["workspace_handle"] = p.handle();
    out["handle_kind"] = p.backend();
    out["agent_status"] = domain::to_text(p.agent_status());
  }
  return out;
}

const char* agent_status(const v1::Session& s) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return domain::to_text(domain::agent_state(s, std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

json task(const v1::Task& t) {
  return {{"id", t.id()},
          {"scope", t.scope()},
          {"type", t.type()},
          {"title", t.title()},
          {"description", text_or_null(t.description())},
          {"requester", t.requester()},
          {"assignee", text_or_null(t.assignee())},
          {"status", domain::to_text(t.status())},
          {"files", t.has_files() ? texts(t.files()) : json(nullptr)},
          {"result", t.has_result() ? json(t.result()) : json(nullptr)},
          {"created_at", seconds(t.created_at_ms())},
          {"updated_at", seconds(t.updated_at_ms())},
          {"changed_at", t.changed_at_ms()},
          {"priority", t.priority()},
          {"depends_on", t.depends_on().empty() ? json(nullptr) : texts(t.depends_on())},
          {"idempotency_key", text_or_null(t.idempotency_key())},
          {"parent_task_id", text_or_null(t.parent_task_id())},
          {"review_of_task_id", text_or_null(t.review_of_task_id())},
          {"fixes_task_id", text_or_null(t.fixes_task_id())},
          {"progress_summary", text_or_null(t.progress_summary())},
          {"progress_updated_at", seconds_or_null(t.progress_updated_at_ms())},
          {"blocked_reason", text_or_null(t.blocked_reason())},
          {"expected_next_update_at", seconds_or_null(t.expected_next_update_at_ms())},
          {"tracker_required", t.tracker_required() ? 1 : 0},
          {"tracker_provider", text_or_null(t.tracker_provider())}};
}

json task_summary(const v1::Task& t) {
  return {{"id", t.id()},
          {"type", t.type()},
          {"title", t.title()},
          {"status", domain::to_text(t.status())},
          {"assignee", text_or_null(t.assignee())},
          {"requester", t.requester()},
          {"priority", t.priority()},
          {"files", texts(t.files())},
          {"depends_on", texts(t.depends_on())},
          {"parent_task_id", text_or_null(t.parent_task_id())},
          {"review_of_task_id", text_or_null(t.review_of_task_id())},
          {"fixes_task_id", text_or_null(t.fixes_task_id())},
          {"progress_summary", text_or_null(t.progress_summary())},
          {"progress_updated_at", seconds_or_null(t.progress_updated_at_ms())},
          {"blocked_reason", text_or_null(t.blocked_reason())},
          {"expected_next_update_at", seconds_or_null(t.expected_next_update_at_ms())}};
}

json snapshot(const v1::Snapshot& s, bool terminal) {
  json out = json::object();
  for (auto status : {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::DONE, v1::FAILED, v1::CANCELLED, v1::BLOCKED, v1::APPROVAL_REQUIRED}) {
    bool ended = status == v1::DONE || status == v1::FAILED || status == v1::CANCELLED;
    if (terminal || !ended)
      out[domain::to_text(status)] = json::array();
  }
  for (const auto& t : s.tasks())
    if (auto i = out.find(domain::to_text(t.status())); i != out.end())
      i->push_back(task(t));
  out["terminal_counts"] = {{"done", s.done()}, {"failed", s.failed()}, {"cancelled", s.cancelled()}};
  if (s.truncated())
    out["truncated"] = true;
  return out;
}

json task_requested(const v1::TasksCreated& reply) {
  const auto& created = reply.tasks(0);
  json out = {{"task_id", created.task().id()}, {"status", domain::to_text(created.task().status())}};
  if (created.existing())
    out["existing"] = true;
  if (!reply.prompts().empty())
    add_prompt(out, reply.prompts(0));
  return out;
}

json tasks_requested(const v1::TasksCreated& reply) {
  auto ids = json::array();
  auto tasks = json::array();
  int existing = 0;
  for (const auto& c : reply.tasks()) {
    ids.push_back(c.task().id());
    existing += c.existing();
    json row = {{"id", c.task().id()}, {"status", domain::to_text(c.task().status())}};
    if (!c.task().idempotency_key().empty())
      row["idempotency_key"] = c.task().idempotency_key();
    row["new"] = !c.existing();
    tasks.push_back(std::move(row));
  }
  json out = {{"task_ids", ids}, {"created", reply.tasks_size() - existing}, {"existing", existing}, {"tasks", tasks}};
  if (!reply.prompts().empty())
    out["prompts"] = list(reply.prompts(), [](const auto& p) { return json{{"recipient", p.recipient()}, {"prompt", prompt(p)}}; });
  return out;
}

json claimed_next(const v1::TaskReply& reply) {
  return {{"ok", true}, {"task_id", reply.task().id()}, {"prior_status", domain::to_text(reply.prior_status())}, {"task", task(reply.task())}};
}

json task_updated(const v1::TaskReply& reply) {
  json out = {{"ok", true}};
  add_prompts(out, reply);
  return out;
}

json task_completed(const v1::TaskReply& reply) {
  json out = {{"ok", true}, {"status", domain::to_text(reply.task().status())}, {"result", parsed_or_text(reply.task().result())}};
  add_prompts(out, reply);
  return out;
}

json progress(const v1::TaskReply& reply) {
  const auto& t = reply.task();
  return {{"ok", true},
          {"progress_summary", t.progress_summary()},
          {"progress_updated_at", seconds(t.progress_updated_at_ms())},
          {"blocked_reason", text_or_null(t.blocked_reason())},
          {"expected_next_update_at", seconds_or_null(t.expected_next_update_at_ms())}};
}

json approved(const v1::TaskReply& reply) {
  json out = {{"ok", true}, {"status", domain::to_text(reply.task().status())}};
  if (!reply.reason().empty())
    out["reason"] = reply.reason();
  add_prompt(out, reply.prompt());
  return out;
}

json lock_row(const v1::LockView& view, std::int64_t now_ms) {
  const auto& l = view.lock();
  if (view.hidden())
    return hidden(l.path());
  const auto& o = view.owner();
  json owner = {{"id", o.id()}, {"label", text_or_null(o.label())}};
  bool known = o.heartbeat_ms() != 0;
  auto age_ms = std::max<std::int64_t>(0, now_ms - o.heartbeat_ms());
  owner["heartbeat"] = seconds_or_null(o.heartbeat_ms());
  owner["heartbeat_age_seconds"] = known ? json(seconds(age_ms)) : json(nullptr);
  owner["stale"] = !known || seconds(age_ms) > seconds(limits::session_stale().count());
  owner["reclaimable"] = !known || seconds(age_ms) > seconds(limits::session_reclaim().count());
  owner["active"] = o.active();
  if (o.has_workspace())
    add_place(owner, o.workspace());
  json out = {{"id", l.id()},   {"instance_id", l.session_id()}, {"file", l.path()},
              {"type", "lock"}, {"content", l.note()},           {"created_at", seconds(l.created_at_ms())},
              {"owner", owner}};
  if (o.has_workspace())
    out["workspace"] = workspace(o.workspace());
  if (view.in_line())
    out["in_line"] = true;
  out["active_tasks"] = list(view.active_tasks(), [](const auto& t) {
    return json{{"id", t.id()}, {"type", t.type()}, {"title", t.title()}, {"status", domain::to_text(t.status())}};
  });
  return out;
}

json file_lock(const v1::LockAnswer& answer, std::int64_t now_ms) {
  return {{"file", answer.path()}, {"active", answer.has_active() ? lock_row(answer.active(), now_ms) : json(nullptr)}};
}

json lock_reply(const v1::Reply& reply, std::int64_t now_ms) {
  if (!reply.has_refusal())
    return {{"ok", true}, {"id", reply.lock().lock().id()}};
  json out = {{"error", reply.refusal().text()}};
  if (reply.lock().has_active())
    out["active"] = lock_row(reply.lock().active(), now_ms);
  else if (reply.refusal().code() == v1::Refusal::CROSS_IDENTITY)
    out["active"] = hidden(reply.refusal().subject());
  if (!reply.refusal().explanation().empty())
    out["explanation"] = reply.refusal().explanation();
  return out;
}

json kv_value(const v1::KvEntry& e) {
  return {{"value", e.value()}, {"updated_at", seconds(e.updated_at_ms())}, {"owner_identity", text_or_null(e.owner_identity())}};
}

json kv_row(const v1::KvEntry& e) { return {{"key", e.key()}, {"updated_at", seconds(e.updated_at_ms())}}; }

namespace {

json planner(const v1::Status& s) {
  if (s.planner_session_id().empty())
    return nullptr;
  return {{"instance_id", s.planner_session_id()},
          {"label", text_or_null(s.planner_label())},
          {"assigned_at", s.planner_assigned_at_ms()},
          {"is_me", s.planner_session_id() == s.session().id()}};
}

json held_lock(const v1::Lock& l) {
  return {{"id", l.id()},        {"instance_id", l.session_id()},        {"file", l.path()},
          {"content", l.note()}, {"task_id", text_or_null(l.task_id())}, {"created_at", seconds(l.created_at_ms())}};
}

json warning(const v1::StatusWarning& w) {
  json out = {{"code", w.code()}, {"severity", w.severity()}};
  if (!w.task_id().empty())
    out["task_id"] = w.task_id();
  if (!w.file().empty())
    out["file"] = w.file();
  if (!w.session_id().empty())
    out["instance_id"] = w.session_id();
  out["message"] = w.message();
  return out;
}

json task_counts(const v1::Status& s) {
  json out = json::object();
  int i = 0;
  for (auto status : {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::DONE, v1::FAILED, v1::CANCELLED, v1::BLOCKED, v1::APPROVAL_REQUIRED}) {
    out[domain::to_text(status)] = i < s.task_counts_size() ? s.task_counts(i) : 0;
    ++i;
  }
  return out;
}

} // namespace

json status(const v1::Status& s) {
  const auto& me = s.session();
  json next = {{"tool", s.next_tool()}, {"reason", s.next_reason()}};
  if (!s.next_task_id().empty())
    next["task_id"] = s.next_task_id();
  return {{"instance",
           {{"id", me.id()},
            {"label", text_or_null(me.label())},
            {"role", text_or_null(domain::role_of(me.label()))},
            {"scope", me.scope()},
            {"directory", me.directory()},
            {"file_root", me.file_root()}}},
          {"peers", list(s.peers(), peer)},
          {"planner_owner", planner(s)},
          {"unread_messages", list(s.unread_messages(), message)},
          {"task_counts", task_counts(s)},
          {"assigned_tasks", list(s.assigned_tasks(), task_summary)},
          {"claimable_tasks", list(s.claimable_tasks(), task_summary)},
          {"active_peer_tasks", list(s.active_peer_tasks(), task_summary)},
          {"held_locks", list(s.held_locks(), held_lock)},
          {"blocking_locks", list(s.blocking_locks(), held_lock)},
          {"warnings", list(s.warnings(), warning)},
          {"next_action", next}};
}

namespace {

std::string kind_name(v1::Principal::Kind kind) {
  const auto name = domain::name_of(kind);
  return name.empty() ? "unknown" : std::string{name};
}

} // namespace

json event(const v1::Event& e) {
  auto payload = domain::parse_json(e.payload());
  return {{"scope", e.scope()},
          {"revision", e.revision()},
          {"at_ms", e.at_ms()},
          {"type", e.type()},
          {"actor", text_or_null(e.actor())},
          {"subject", text_or_null(e.subject())},
          {"payload", payload ? std::move(*payload) : json(nullptr)},
          {"principal", {{"kind", kind_name(e.principal().kind())}, {"id", text_or_null(e.principal().id())}}}};
}

json activity(const v1::Activity& a) {
  if (a.timed_out())
    return {{"changes", json::array()}, {"timeout", true}, {"message", "No new activity within timeout."}};
  json out = {{"changes", texts(a.changes())}};
  if (!a.messages().empty())
    out["messages"] = list(a.messages(), message);
  if (a.has_tasks())
    out["tasks"] = snapshot(a.tasks());
  if (!a.sessions().empty())
    out["instances"] = list(a.sessions(), peer);
  return out;
}

namespace {

json ticket(const v1::Promotion& p) {
  json out = {{"identifier", p.identifier()}};
  if (!p.url().empty())
    out["url"] = p.url();
  return out;
}

json decision(const v1::Promotion& p) {
  if (!p.promote())
    return {{"promote", false}, {"reason", p.reason()}, {"identity", text_or_null(p.identity())}, {"provider", text_or_null(p.provider())}};
  json out = {{"promote", true}, {"mode", p.mode()}, {"reason", p.reason()}, {"identity", p.identity()}, {"provider", p.provider()}};
  if (!p.identifier().empty())
    out.update(ticket(p));
  // Only new tasks are decided on, and nothing can be tied to those before.
  out["existing_binding"] = nullptr;
  out["precedence"] = p.precedence();
  return out;
}

json promotion(const v1::Promotion& p) {
  json out = {{"decision", decision(p)}};
  if (p.linked_at_ms() != 0) {
    out["binding_written"] = ticket(p);
    out["binding_written"]["linked_at"] = p.linked_at_ms();
  } else if (!p.link_error().empty()) {
    out["binding_error"] = p.link_error();
  }
  return out;
}

void add_promotion(json& out, const v1::DispatchReply& d) {
  if (d.has_promotion())
    out["promotion"] = promotion(d.promotion());
}

json spawn_payload(const v1::DispatchReply& d) {
  json out = {{"task_id", d.task().id()}, {"task", task(d.task())}, {"spawner", "pty"}, {"spawn_lock", d.spawn_lock()}};
  add_promotion(out, d);
  out["status"] = "spawn_in_flight";
  return out;
}

json in_flight_lock(const v1::DispatchReply& d) {
  json note = {{"task_id", d.task().id()}, {"intent_hash", d.intent_hash()}, {"role", d.role()}, {"spawner", "pty"}};
  return {{"id", d.spawn().id()}, {"instance_id", d.task().requester()}, {"file", d.spawn_lock()}, {"content", dump(note, -1)}};
}

} // namespace

json dispatch(const v1::DispatchReply& d) {
  if (d.status() == v1::DispatchReply::SPAWNING)
    return spawn_payload(d);
  const char* name = "no_worker";
  if (d.status() == v1::DispatchReply::DISPATCHED)
    name = "dispatched";
  else if (d.status() == v1::DispatchReply::SPAWN_IN_FLIGHT)
    name = "spawn_in_flight";
  else if (d.status() == v1::DispatchReply::ALREADY_TERMINAL)
    name = "already_terminal";
  json out = {{"status", name}, {"task_id", d.task().id()}, {"task", task(d.task())}};
  if (d.status() == v1::DispatchReply::DISPATCHED) {
    out["recipient"] = d.recipient();
    out["prompt"] = prompt(d.prompt());
  } else if (d.status() == v1::DispatchReply::SPAWN_IN_FLIGHT) {
    out["lock"] = in_flight_lock(d);
  } else if (d.status() == v1::DispatchReply::NO_WORKER) {
    out["role"] = d.role();
  }
  add_promotion(out, d);
  return out;
}

json pty(const v1::PtyInfo& p) {
  auto argv = json::array();
  for (const auto& word : p.argv())
    argv.push_back(word);
  bool exited = !p.running();
  return {{"id", p.id()},
          {"scope", p.scope()},
          {"name", text_or_null(p.name())},
          {"argv", argv},
          {"directory", p.directory()},
          {"pid", p.pid()},
          {"running", p.running()},
          {"exit_status", exited && p.signal() == 0 ? json(p.exit_status()) : json(nullptr)},
          {"signal", exited && p.signal() != 0 ? json(p.signal()) : json(nullptr)},
          {"columns", p.size().columns()},
          {"rows", p.size().rows()},
          {"pipes", p.pipes()},
          {"start", p.start()},
          {"end", p.end()},
          {"created_at", seconds(p.created_at_ms())},
          {"instance_id", text_or_null(p.session_id())},
          {"harness", text_or_null(p.harness())}};
}

const char* spawn_status(v1::Spawn::Status status) noexcept {
  switch (status) {
    case v1::Spawn::REQUESTED: return "requested";
    case v1::Spawn::STARTING: return "starting";
    case v1::Spawn::RUNNING: return "running";
    case v1::Spawn::ENDED: return "ended";
    case v1::Spawn::FAILED: return "failed";
    default: return "unknown";
  }
}

json cleanup(const v1::SweepReport& r, std::string_view scope, std::string_view mode, std::int64_t at_ms) {
  return {{"dry_run", r.dry_run()},
          {"mode", mode},
          {"scope", text_or_null(scope)},
          {"at", seconds(at_ms)},
          {"instances_reclaimed", r.sessions_reclaimed()},
          {"tasks_reopened", r.tasks_reopened()},
          {"task_assignees_cleared", r.task_assignees_cleared()},
          {"locks_deleted", r.locks_deleted()},
          {"terminal_spawn_locks_deleted", r.terminal_spawn_locks_deleted()},
          {"messages_deleted", r.messages_deleted()},
          {"terminal_tasks_deleted", r.terminal_tasks_deleted()},
          {"non_lock_context_rows_deleted", 0},
          {"events_deleted", r.events_deleted()},
          {"kv_deleted", r.kv_deleted()},
          {"kv_keys_deleted", texts(r.kv_keys_deleted())},
          {"identity_rows_deleted", r.identity_rows_deleted()}};
}

json error(const v1::Reply& reply) {
  const auto& refusal = reply.refusal();
  json out = {{"error", refusal.text()}};
  if (!refusal.details().empty())
    out["details"] = list(refusal.details(), [](const auto& d) {
      return json{{"task_index", d.task_index()}, {"field", d.field()}, {"message", d.message()}};
    });
  if (refusal.code() == v1::Refusal::UNREAD) {
    out["unread_message_count"] = reply.task().unread_messages();
    out["latest_message_id"] = reply.task().latest_message_id();
    out["latest_message_sender"] = reply.task().latest_message_sender();
  }
  return out;
}

} // namespace swarm::mcp
