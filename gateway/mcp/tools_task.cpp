// request_task, request_task_batch, claim_task, claim_next_task, update_task, complete_task, report_progress, approve_task, get_task,
// list_tasks.
#include <algorithm>

#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/rows.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"

namespace swarm::mcp {

namespace {

using domain::text_in;

bool flag_in(const json& object, const char* name) {
  auto i = object.find(name);
  return i != object.end() && i->is_boolean() && i->get<bool>();
}

void fill(v1::TaskSpec& spec, const json& from, const tool_call& call) {
  spec.set_type(text_in(from, "type"));
  spec.set_title(text_in(from, "title"));
  spec.set_description(text_in(from, "description"));
  if (auto files = from.find("files"); files != from.end()) {
    spec.set_has_files(true);
    for (const auto& f : *files)
      spec.add_files(call.file(f.get_ref<const std::string&>()));
  }
  spec.set_assignee(text_in(from, "assignee"));
  if (auto priority = from.find("priority"); priority != from.end())
    spec.set_priority(priority->get<std::int64_t>());
  if (auto depends_on = from.find("depends_on"); depends_on != from.end())
    for (const auto& id : *depends_on)
      spec.add_depends_on(id.get<std::string>());
  spec.set_idempotency_key(text_in(from, "idempotency_key"));
  spec.set_parent_task_id(text_in(from, "parent_task_id"));
  spec.set_review_of_task_id(text_in(from, "review_of_task_id"));
  spec.set_fixes_task_id(text_in(from, "fixes_task_id"));
  spec.set_approval_required(flag_in(from, "approval_required"));
  spec.set_tracker_required(flag_in(from, "tracker_required"));
  spec.set_tracker_provider(text_in(from, "tracker_provider"));
}

tool_outcome request_task(const tool_call& call) {
  auto command = call.command();
  fill(*command.mutable_create_tasks()->add_tasks(), call.arguments, call);
  auto reply = call.node.execute(command);
  return reply.has_refusal() ? said(reply.refusal().text()) : said(task_requested(reply.tasks_created()));
}

tool_outcome request_task_batch(const tool_call& call) {
  auto command = call.command();
  command.mutable_create_tasks()->set_batch(true);
  for (const auto& t : call.arguments.at("tasks"))
    fill(*command.mutable_create_tasks()->add_tasks(), t, call);
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : tasks_requested(reply.tasks_created()));
}

tool_outcome claim_task(const tool_call& call) {
  auto command = call.command();
  command.mutable_claim_task()->set_task_id(call.text("task_id"));
  command.mutable_claim_task()->set_ignore_unread_messages(call.flag("ignore_unread_messages"));
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : json{{"ok", true}});
}

tool_outcome claim_next_task(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_claim_next_task();
  if (call.given("types"))
    for (const auto& type : call.arguments.at("types"))
      body->add_types(type.get<std::string>());
  if (call.given("files"))
    for (const auto& f : call.arguments.at("files"))
      body->add_files(call.file(f.get_ref<const std::string&>()));
  body->set_ignore_unread_messages(call.flag("ignore_unread_messages"));
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : claimed_next(reply.task()));
}

tool_outcome update_task(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_update_task();
  body->set_task_id(call.text("task_id"));
  body->set_status(domain::task_status_from(call.text("status")));
  body->set_has_result(call.given("result"));
  body->set_result(call.optional_text("result"));
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : task_updated(reply.task()));
}

tool_outcome complete_task(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_complete_task();
  body->set_task_id(call.text("task_id"));
  body->set_status(domain::task_status_from(call.text("status")));
  body->set_summary(call.text("summary"));
  if (call.given("files_changed"))
    for (const auto& f : call.arguments.at("files_changed"))
      if (auto path = call.file(f.get_ref<const std::string&>()); std::count(body->files_changed().begin(), body->files_changed().end(), path) == 0)
        body->add_files_changed(std::move(path));
  if (call.given("tests"))
    for (const auto& t : call.arguments.at("tests")) {
      auto* test = body->add_tests();
      test->set_command(text_in(t, "command"));
      test->set_status(text_in(t, "status"));
      test->set_notes(text_in(t, "notes"));
    }
  if (call.given("tracker_update")) {
    body->set_tracker_update(dump(call.arguments.at("tracker_update"), -1));
    body->set_has_tracker_update(true);
  }
  if (call.given("tracker_update_skipped")) {
    body->set_tracker_update_skipped(dump(call.arguments.at("tracker_update_skipped"), -1));
    body->set_has_tracker_update_skipped(true);
  }
  if (call.given("followups"))
    for (const auto& f : call.arguments.at("followups"))
      body->add_followups(f.get<std::string>());
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : task_completed(reply.task()));
}

tool_outcome report_progress(const tool_call& call) {
  auto command = call.command();
  auto* body = command.mutable_report_progress();
  body->set_task_id(call.text("task_id"));
  body->set_summary(call.text("summary"));
  if (call.given("blocked_reason")) {
    const auto& reason = call.arguments.at("blocked_reason");
    body->set_set_blocked_reason(true);
    body->set_blocked_reason(reason.is_string() ? reason.get<std::string>() : std::string{});
  }
  if (call.given("expected_next_update_at")) {
    const auto& at = call.arguments.at("expected_next_update_at");
    body->set_set_expected_next_update_at(true);
    body->set_expected_next_update_at_ms(at.is_number() ? at.get<std::int64_t>() * 1000 : 0);
  }
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : mcp::progress(reply.task()));
}

tool_outcome approve_task(const tool_call& call) {
  auto command = call.command();
  command.mutable_approve_task()->set_task_id(call.text("task_id"));
  auto reply = call.node.execute(command);
  return said(reply.has_refusal() ? error(reply) : approved(reply.task()));
}

tool_outcome get_task(const tool_call& call) {
  auto query = call.query();
  query.mutable_get_task()->set_task_id(call.text("task_id"));
  auto answer = call.node.ask(query);
  return answer.has_refusal() ? said(answer.refusal().text()) : said(task(answer.task()));
}

tool_outcome list_tasks(const tool_call& call) {
  auto query = call.query();
  auto* body = query.mutable_list_tasks();
  if (call.given("status"))
    body->add_statuses(domain::task_status_from(call.text("status")));
  body->set_assignee(call.optional_text("assignee"));
  body->set_requester(call.optional_text("requester"));
  auto out = json::array();
  for (const auto& t : all_tasks(call.node, std::move(query)))
    out.push_back(task(t));
  return said(out);
}

} // namespace

std::vector<tool> task_tools() {
  const json reads = {{"readOnlyHint", true}};
  return {
    {.name = "request_task",
     .description = "Put a task on the board for somebody else, or for later. The same idempotency_key gives the same task.",
     .input_schema = input_schema("request_task"),
     .run = request_task},
    {.name = "request_task_batch",
     .description = "Put up to 50 tasks on the board at once, all or none. depends_on may name earlier ones of the batch as $1, $2, …",
     .input_schema = input_schema("request_task_batch"),
     .run = request_task_batch},
    {.name = "claim_task",
     .description = "Start a task: one that is open, or one that is assigned to you. Exactly one session gets it.",
     .input_schema = input_schema("claim_task"),
     .run = claim_task},
    {.name = "claim_next_task",
     .description = "Start the task that is next for you: what is assigned to you first, then by priority and age.",
     .input_schema = input_schema("claim_next_task"),
     .run = claim_next_task},
    {.name = "update_task",
     .description = "End a task of yours as done, failed or cancelled, with a free text as its result. Your locks for it are released.",
     .input_schema = input_schema("update_task"),
     .run = update_task},
    {.name = "complete_task",
     .description = "End a task of yours with a result that others can use: summary, files changed, tests run, what is left to do.",
     .input_schema = input_schema("complete_task"),
     .run = complete_task},
    {.name = "report_progress",
     .description = "Say how your task in progress stands, what blocks it, and when to expect news.",
     .input_schema = input_schema("report_progress"),
     .run = report_progress},
    {.name = "approve_task",
     .description = "Let a task go that waits for approval.",
     .input_schema = input_schema("approve_task"),
     .run = approve_task},
    {.name = "get_task",
     .description = "One task with everything that is known of it.",
     .input_schema = input_schema("get_task"),
     .annotations = reads,
     .run = get_task},
    {.name = "list_tasks",
     .description = "The tasks you may see, by priority and age.",
     .input_schema = input_schema("list_tasks"),
     .annotations = reads,
     .run = list_tasks},
  };
}

} // namespace swarm::mcp
