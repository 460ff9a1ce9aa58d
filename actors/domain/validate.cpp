#include <unordered_map>

#include <google/protobuf/descriptor.h>

#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"

namespace swarm::domain {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct text_rule {
  std::size_t bytes_max;
  bool free_text; // may hold any character; everything else may become part of a key and must not hold NUL
};

/// Fields by full name; every other string is an id.
const std::unordered_map<std::string_view, text_rule>& text_rules() {
  using namespace limits;
  static const std::unordered_map<std::string_view, text_rule> rules = {
    {"swarm.v1.Command.scope", {path_bytes_max(), false}},
    {"swarm.v1.Query.scope", {path_bytes_max(), false}},
    {"swarm.v1.Caller.directory", {path_bytes_max(), false}},
    {"swarm.v1.RegisterSession.directory", {path_bytes_max(), false}},
    {"swarm.v1.RegisterSession.root", {path_bytes_max(), false}},
    {"swarm.v1.RegisterSession.file_root", {path_bytes_max(), false}},
    {"swarm.v1.RegisterSession.label", {label_bytes_max(), false}},
    {"swarm.v1.SendMessage.content", {message_bytes_max(), true}},
    {"swarm.v1.ReportAgent.note", {note_bytes_max(), true}},
    {"swarm.v1.Broadcast.content", {message_bytes_max(), true}},
    {"swarm.v1.TaskSpec.title", {title_bytes_max(), true}},
    {"swarm.v1.TaskSpec.description", {description_bytes_max(), true}},
    {"swarm.v1.TaskSpec.files", {path_bytes_max(), false}},
    {"swarm.v1.TaskSpec.idempotency_key", {idempotency_key_bytes_max(), false}},
    {"swarm.v1.ClaimNextTask.files", {path_bytes_max(), false}},
    {"swarm.v1.UpdateTask.result", {result_bytes_max(), true}},
    {"swarm.v1.CompleteTask.summary", {result_bytes_max(), true}},
    {"swarm.v1.CompleteTask.files_changed", {path_bytes_max(), false}},
    {"swarm.v1.CompleteTask.tracker_update", {result_bytes_max(), true}},
    {"swarm.v1.CompleteTask.tracker_update_skipped", {result_bytes_max(), true}},
    {"swarm.v1.CompleteTask.followups", {note_bytes_max(), true}},
    {"swarm.v1.TestOutcome.command", {note_bytes_max(), true}},
    {"swarm.v1.TestOutcome.notes", {note_bytes_max(), true}},
    {"swarm.v1.ReportProgress.summary", {note_bytes_max(), true}},
    {"swarm.v1.ReportProgress.blocked_reason", {note_bytes_max(), true}},
    {"swarm.v1.AcquireLock.path", {path_bytes_max(), false}},
    {"swarm.v1.AcquireLock.note", {note_bytes_max(), true}},
    {"swarm.v1.ReleaseLock.path", {path_bytes_max(), false}},
    {"swarm.v1.CancelLockWait.path", {path_bytes_max(), false}},
    {"swarm.v1.GetLock.path", {path_bytes_max(), false}},
    {"swarm.v1.VerifyLock.path", {path_bytes_max(), false}},
    {"swarm.v1.SetKv.key", {kv_key_bytes_max(), false}},
    {"swarm.v1.SetKv.value", {kv_value_bytes_max(), true}},
    {"swarm.v1.AppendKv.key", {kv_key_bytes_max(), false}},
    {"swarm.v1.AppendKv.json", {kv_value_bytes_max(), true}},
    {"swarm.v1.DeleteKv.key", {kv_key_bytes_max(), false}},
    {"swarm.v1.FenceGuard.path", {path_bytes_max(), false}},
    {"swarm.v1.GetKv.key", {kv_key_bytes_max(), false}},
    {"swarm.v1.ListKv.prefix", {kv_key_bytes_max(), false}},
    {"swarm.v1.ListSessions.label_contains", {label_bytes_max(), false}},
    {"swarm.v1.FindSession.who", {label_bytes_max(), false}},
    {"swarm.v1.ListEvents.subject", {path_bytes_max(), false}},
    {"swarm.v1.Page.token", {8 * kib, true}},
    {"swarm.v1.Dispatch.title", {title_bytes_max(), true}},
    {"swarm.v1.Dispatch.message", {message_bytes_max(), true}},
    {"swarm.v1.Dispatch.description", {description_bytes_max(), true}},
    {"swarm.v1.Dispatch.files", {path_bytes_max(), false}},
    {"swarm.v1.Dispatch.idempotency_key", {idempotency_key_bytes_max(), false}},
    {"swarm.v1.Dispatch.label", {label_bytes_max(), false}},
    {"swarm.v1.Dispatch.placement", {placement_text_bytes_max, false}},
    {"swarm.v1.RequestSpawn.placement", {placement_text_bytes_max, false}},
    {"swarm.v1.SpawnEnded.next_placement", {placement_text_bytes_max, false}},
    {"swarm.v1.Dispatch.directory", {path_bytes_max(), false}},
    {"swarm.v1.Dispatch.argv", {argv_bytes_max(), false}},
    {"swarm.v1.RequestSpawn.key", {idempotency_key_bytes_max(), false}},
    {"swarm.v1.RequestSpawn.intent", {note_bytes_max(), true}},
    {"swarm.v1.RequestSpawn.argv", {argv_bytes_max(), false}},
    {"swarm.v1.RequestSpawn.directory", {path_bytes_max(), false}},
    {"swarm.v1.RequestSpawn.label", {label_bytes_max(), false}},
    {"swarm.v1.SpawnEnded.reason", {note_bytes_max(), true}},
    {"swarm.v1.RequestApproval.subject", {path_bytes_max(), false}},
    {"swarm.v1.RequestApproval.options", {64, false}},
    {"swarm.v1.DecideApproval.option", {64, false}},
    {"swarm.v1.WatchRequest.scope", {path_bytes_max(), false}},
    {"swarm.v1.WatchRequest.subject", {path_bytes_max(), false}},
    {"swarm.v1.WaitRequest.scope", {path_bytes_max(), false}},
    {"swarm.v1.AttachRequest.scope", {path_bytes_max(), false}},
    {"swarm.v1.ListPtysRequest.scope", {path_bytes_max(), false}},
  };
  return rules;
}

struct count_rule {
  std::size_t max;
  std::size_t bytes_max; // of all elements together, 0 = only each one's
};

const std::unordered_map<std::string_view, count_rule>& count_rules() {
  using namespace limits;
  static const std::unordered_map<std::string_view, count_rule> rules = {
    {"swarm.v1.CreateTasks.tasks", {batch_tasks_max(), 0}},
    {"swarm.v1.TaskSpec.files", {task_files_max(), 0}},
    {"swarm.v1.TaskSpec.depends_on", {task_dependencies_max(), 0}},
    {"swarm.v1.ClaimNextTask.files", {task_files_max(), 0}},
    {"swarm.v1.CompleteTask.files_changed", {task_files_max(), 0}},
    {"swarm.v1.CompleteTask.tests", {task_files_max(), 0}},
    {"swarm.v1.CompleteTask.followups", {task_files_max(), 0}},
    {"swarm.v1.Dispatch.files", {task_files_max(), 0}},
    {"swarm.v1.Dispatch.depends_on", {task_dependencies_max(), 0}},
    {"swarm.v1.Dispatch.argv", {argv_count_max(), argv_bytes_max()}},
    {"swarm.v1.RequestSpawn.argv", {argv_count_max(), argv_bytes_max()}},
    {"swarm.v1.RequestApproval.options", {8, 0}},
  };
  return rules;
}

constexpr count_rule count_default{32, 0};

v1::Refusal invalid(std::string text) {
  v1::Refusal r;
  r.set_code(v1::Refusal::INVALID);
  r.set_text(std::move(text));
  return r;
}

using verdict = std::optional<v1::Refusal>;

verdict check_text(const FieldDescriptor& field, const std::string& text) {
  auto i = text_rules().find(field.full_name());
  auto rule = i == text_rules().end() ? text_rule{limits::id_bytes_max, false} : i->second;
  if (text.size() > rule.bytes_max)
    return invalid(field.name() + " is longer than " + std::to_string(rule.bytes_max) + " bytes");
  if (!rule.free_text && text.find('\0') != std::string::npos)
    return invalid(field.name() + " must not contain a NUL character");
  return std::nullopt;
}

/// Input of terminals, output of workers; everything else is a digest.
std::size_t bytes_max(const FieldDescriptor& field) {
  if (field.name() == "output_tail")
    return limits::output_tail_bytes_max();
  return field.full_name() == "swarm.v1.SendPtyRequest.data" || field.full_name() == "swarm.v1.AttachFrame.input" ? limits::pty_input_bytes_max : 32;
}

verdict check_bytes(const FieldDescriptor& field, const std::string& bytes) {
  auto max = bytes_max(field);
  if (bytes.size() > max)
    return invalid(field.name() + " is longer than " + std::to_string(max) + " bytes");
  if (field.name() == "token_hash" && !bytes.empty() && bytes.size() != 32)
    return invalid("token_hash must be a SHA-256 of 32 bytes");
  return std::nullopt;
}

verdict check_count(const FieldDescriptor& field, int count, std::size_t bytes) {
  auto i = count_rules().find(field.full_name());
  auto rule = i == count_rules().end() ? count_default : i->second;
  if (static_cast<std::size_t>(count) > rule.max)
    return invalid(field.name() + " has more than " + std::to_string(rule.max) + " elements");
  if (rule.bytes_max != 0 && bytes > rule.bytes_max)
    return invalid(field.name() + " is longer than " + std::to_string(rule.bytes_max) + " bytes together");
  return std::nullopt;
}

verdict check_fields(const Message& m);

verdict check_repeated(const Message& m, const FieldDescriptor& field) {
  const auto* reflection = m.GetReflection();
  auto n = reflection->FieldSize(m, &field);
  std::size_t bytes = 0;
  for (int i = 0; i < n; ++i) {
    verdict bad;
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      std::string scratch;
      const auto& text = reflection->GetRepeatedStringReference(m, &field, i, &scratch);
      bytes += text.size();
      bad = check_text(field, text);
    } else if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      bad = check_fields(reflection->GetRepeatedMessage(m, &field, i));
    }
    if (bad)
      return bad;
  }
  return check_count(field, n, bytes);
}

/// Lengths and counts of everything that is set, whatever the message.
verdict check_fields(const Message& m) {
  const auto* reflection = m.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(m, &set);
  for (const auto* field : set) {
    verdict bad;
    std::string scratch;
    if (field->is_repeated())
      bad = check_repeated(m, *field);
    else if (field->type() == FieldDescriptor::TYPE_STRING)
      bad = check_text(*field, reflection->GetStringReference(m, field, &scratch));
    else if (field->type() == FieldDescriptor::TYPE_BYTES)
      bad = check_bytes(*field, reflection->GetStringReference(m, field, &scratch));
    else if (field->type() == FieldDescriptor::TYPE_MESSAGE)
      bad = check_fields(reflection->GetMessage(m, field));
    if (bad)
      return bad;
  }
  return std::nullopt;
}

verdict need(bool given, const char* field) { return given ? std::nullopt : verdict(invalid(std::string(field) + " is missing")); }

verdict within(std::int64_t value, limits::milliseconds max, const char* field) {
  if (value >= 0 && value <= max.count())
    return std::nullopt;
  return invalid(std::string(field) + " must be between 0 and " + std::to_string(max.count()) + " ms");
}

verdict absolute(const std::string& path, const char* field) {
  if (!path.empty() && path.front() == '/')
    return std::nullopt;
  return invalid(std::string(field) + " must be an absolute path");
}

verdict first(std::initializer_list<verdict> all) {
  for (const auto& v : all)
    if (v)
      return v;
  return std::nullopt;
}

verdict check_register(const v1::RegisterSession& r) {
  if (r.pid() < 0)
    return invalid("pid must not be negative");
  return first({absolute(r.directory(), "directory"), within(r.lease_ms(), limits::lease_max(), "lease_ms")});
}

verdict check_tasks(const v1::CreateTasks& c) {
  if (c.tasks().empty())
    return invalid("tasks is empty");
  for (const auto& t : c.tasks())
    if (auto bad = first({need(!t.type().empty(), "type"), need(!t.title().empty(), "title")}))
      return bad;
  return std::nullopt;
}

/// A guard that checks nothing would be taken for one that does.
template <class Write>
verdict check_guard(const Write& w) {
  if (!w.has_guard())
    return std::nullopt;
  return first({need(!w.guard().path().empty(), "guard.path"), need(w.guard().fence() != 0, "guard.fence")});
}

verdict check_subscribe(const v1::Subscribe& s) { return need(!s.name().empty(), "name"); }

verdict check_body(const v1::Command& cmd) {
  using body = v1::Command;
  switch (cmd.body_case()) {
    case body::kRegisterSession: return check_register(cmd.register_session());
    case body::kRemoveSession: return need(!cmd.remove_session().session_id().empty(), "session_id");
    case body::kExpireSession: return need(!cmd.expire_session().session_id().empty(), "session_id");
    case body::kSendMessage: return need(!cmd.send_message().recipient().empty(), "recipient");
    case body::kConsumeMessages: return cmd.consume_messages().limit() > 200 ? verdict(invalid("limit must be between 1 and 200")) : std::nullopt;
    case body::kCreateTasks: return check_tasks(cmd.create_tasks());
    case body::kClaimTask: return need(!cmd.claim_task().task_id().empty(), "task_id");
    case body::kUpdateTask: return need(!cmd.update_task().task_id().empty(), "task_id");
    case body::kCompleteTask: return need(!cmd.complete_task().task_id().empty(), "task_id");
    case body::kReportProgress: return need(!cmd.report_progress().task_id().empty(), "task_id");
    case body::kApproveTask: return need(!cmd.approve_task().task_id().empty(), "task_id");
    case body::kAcquireLock:
      return first({need(!cmd.acquire_lock().path().empty(), "path"), within(cmd.acquire_lock().ttl_ms(), limits::lock_ttl_max(), "ttl_ms"),
                    within(cmd.acquire_lock().wait_ms(), limits::lock_wait_max(), "wait_ms")});
    case body::kReleaseLock: return need(!cmd.release_lock().path().empty(), "path");
    case body::kCancelLockWait: return need(!cmd.cancel_lock_wait().path().empty(), "path");
    case body::kSetKv:
      return first(
        {need(!cmd.set_kv().key().empty(), "key"), within(cmd.set_kv().ttl_ms(), limits::kv_ttl_max(), "ttl_ms"), check_guard(cmd.set_kv())});
    case body::kAppendKv: return first({need(!cmd.append_kv().key().empty(), "key"), check_guard(cmd.append_kv())});
    case body::kDeleteKv: return first({need(!cmd.delete_kv().key().empty(), "key"), check_guard(cmd.delete_kv())});
    case body::kDispatch: return need(!cmd.dispatch().title().empty(), "title");
    case body::kRequestSpawn: return need(!cmd.request_spawn().key().empty(), "key");
    case body::kSpawnStarting: return need(!cmd.spawn_starting().spawn_id().empty(), "spawn_id");
    case body::kSpawnRunning: return need(!cmd.spawn_running().spawn_id().empty(), "spawn_id");
    case body::kSpawnEnded: return need(!cmd.spawn_ended().spawn_id().empty(), "spawn_id");
    case body::kSubscribe: return check_subscribe(cmd.subscribe());
    case body::kAckSubscription: return need(!cmd.ack_subscription().name().empty(), "name");
    case body::kUnsubscribe: return need(!cmd.unsubscribe().name().empty(), "name");
    case body::kRequestApproval:
      return first(
        {need(!cmd.request_approval().subject().empty(), "subject"), within(cmd.request_approval().timeout_ms(), limits::lease_max(), "timeout_ms")});
    case body::kDecideApproval: return need(!cmd.decide_approval().approval_id().empty(), "approval_id");
    case body::BODY_NOT_SET: return invalid("The command is empty or not known to this version");
    default: return std::nullopt;
  }
}

} // namespace

bool about_the_node(const v1::Query& query) {
  switch (query.body_case()) {
    case v1::Query::kListScopes:
    case v1::Query::kResolveToken:
    case v1::Query::kGetTotals: return true;
    default: return false;
  }
}

std::optional<v1::Refusal> check_bounds(const Message& message) { return check_fields(message); }

std::optional<v1::Refusal> validate(const v1::Command& cmd) {
  return first({need(!cmd.scope().empty(), "scope"), check_fields(cmd), check_body(cmd)});
}

std::optional<v1::Refusal> validate(const v1::Query& query) {
  if (query.body_case() == v1::Query::BODY_NOT_SET)
    return invalid("The query is empty or not known to this version");
  return first({need(about_the_node(query) || !query.scope().empty(), "scope"), check_fields(query)});
}

} // namespace swarm::domain
