#include "gateway/mcp/tool_schemas.hpp"

#include <string>
#include <utility>

namespace swarm::mcp {

namespace schemas {

namespace {

json described(json schema, std::string_view about) {
  if (!about.empty())
    schema["description"] = about;
  return schema;
}

json bounded(json schema, const range& bounds) {
  if (bounds.minimum)
    schema["minimum"] = *bounds.minimum;
  if (bounds.above)
    schema["exclusiveMinimum"] = *bounds.above;
  if (bounds.maximum)
    schema["maximum"] = *bounds.maximum;
  return schema;
}

} // namespace

property required(std::string_view name, json schema) { return {name, std::move(schema), true}; }

property optional(std::string_view name, json schema) { return {name, std::move(schema), false}; }

property defaulted(std::string_view name, json schema, json value) {
  schema["default"] = std::move(value);
  return {name, std::move(schema), false};
}

json text(std::string_view about) { return described({{"type", "string"}}, about); }

json flag(std::string_view about) { return described({{"type", "boolean"}}, about); }

json integer(std::string_view about, const range& bounds) { return described(bounded({{"type", "integer"}}, bounds), about); }

json number(std::string_view about, const range& bounds) { return described(bounded({{"type", "number"}}, bounds), about); }

json one_of(std::initializer_list<std::string_view> values, std::string_view about) {
  return described({{"type", "string"}, {"enum", std::vector(values)}}, about);
}

json literal(std::string_view value) { return {{"type", "string"}, {"const", value}}; }

json list(json of, std::string_view about, const range& size) {
  json schema{{"type", "array"}, {"items", std::move(of)}};
  if (size.minimum)
    schema["minItems"] = *size.minimum;
  if (size.maximum)
    schema["maxItems"] = *size.maximum;
  return described(std::move(schema), about);
}

json object(const std::vector<property>& properties, std::string_view about) {
  json schema{{"type", "object"}, {"properties", json::object()}};
  auto names = json::array();
  for (const auto& one : properties) {
    schema["properties"][std::string{one.name}] = one.schema;
    if (one.required)
      names.push_back(one.name);
  }
  if (!names.empty())
    schema["required"] = std::move(names);
  schema["additionalProperties"] = false;
  return described(std::move(schema), about);
}

json free_form(std::string_view about) { return described({{"type", "object"}, {"additionalProperties", json::object()}}, about); }

json any_of(const std::vector<json>& options, std::string_view about) { return described({{"anyOf", options}}, about); }

json or_null(json schema, std::string_view about) {
  // The published form of the same thing depends on what else the schema says.
  if (schema == text())
    return described({{"type", {"string", "null"}}}, about);
  return any_of({std::move(schema), {{"type", "null"}}}, about);
}

json arguments(const std::vector<property>& properties) {
  auto schema = object(properties);
  if (properties.empty())
    schema.erase("additionalProperties"); // published that way; extra members are dropped all the same
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  return schema;
}

} // namespace schemas

namespace {

using namespace schemas;

struct entry {
  std::string_view name;
  json schema;
};
using entries = std::vector<entry>;

json task_type() { return one_of({"review", "implement", "fix", "test", "research", "other"}); }

json task_status() { return one_of({"open", "claimed", "in_progress", "done", "failed", "cancelled", "blocked", "approval_required"}); }

json final_status() { return one_of({"done", "failed", "cancelled"}, "Done and failed are for the assignee. Your locks for the task end too."); }

entries session_tools() {
  return {
    {"register", arguments({
                   required("directory", text("Your working directory.")),
                   optional("label", text("Space-separated tokens that say who you are: identity:<name> role:<planner|implementer|reviewer|"
                                          "researcher> and others. Peers find you by it.")),
                   optional("scope", text("Who works together: a path or a name. Left out: the repository of the directory, or else the directory.")),
                   optional("file_root", text("Relative paths are resolved against it. Left out: the directory.")),
                   optional("adopt_instance_id", text("Take over this instance of the same scope and directory instead of becoming a new one.")),
                 })},
    {"list_instances", arguments({
                         optional("label_contains", text("Only instances whose label contains this; % and _ are wildcards.")),
                       })},
    {"whoami", arguments({})},
    {"bootstrap", arguments({
                    defaulted("mark_read", flag("Whether the messages in the reply count as read from now on."), true),
                    optional("adopt_instance_id", text("Take over this instance first, if that is possible.")),
                    defaulted("include_terminal", flag("Whether ended tasks are listed; they are counted in any case."), false),
                    defaulted("terminal_limit", integer("Without include_terminal: how many ended tasks to list of each status.", {.minimum = 0}), 0),
                  })},
    {"remove_instance", arguments({
                          required("instance_id", text("Its claimed tasks become open again and its locks end. Not for yourself: see deregister.")),
                        })},
    {"deregister", arguments({})},
  };
}

entries message_tools() {
  return {
    {"send_message", arguments({
                       required("recipient", text("Id of an instance in your scope.")),
                       required("content", text("What it reads at its next poll.")),
                     })},
    {"prompt_peer", arguments({
                      required("recipient", text("Id of an instance in your scope.")),
                      required("message", text("Kept for it as a message, whether it can be woken or not.")),
                      optional("task_id", text("The task this is about.")),
                      defaulted("nudge", flag("Whether to wake the recipient."), true),
                      defaulted("force", flag("Wake it even while it is busy."), false),
                    })},
    {"peek_peer",
     arguments({
       required("recipient", text("Id of an instance in your scope.")),
       defaulted("source", one_of({"visible", "recent", "recent-unwrapped"}, "The screen as it is, or the last lines of output."), "recent"),
       defaulted("lines", integer("At most so many lines.", {.above = 0, .maximum = 300}), 80),
     })},
    {"resolve_workspace_handle", arguments({
                                   defaulted("backend", text("Which workspace program the handle belongs to."), "herdr"),
                                   defaulted("handle_kind", text("What the handle names."), "pane"),
                                   required("handle", text("Whose instance is looked for.")),
                                   defaulted("validate", flag("Whether the workspace program is asked if the handle still holds."), true),
                                 })},
    {"broadcast", arguments({
                    required("content", text("Goes to every other instance of your scope that you may write to.")),
                  })},
    {"poll_messages", arguments({
                        defaulted("limit", integer("At most so many messages, oldest first; they count as read.", {.above = 0, .maximum = 200}), 50),
                      })},
  };
}

std::vector<property> new_task() {
  return {
    required("type", task_type()),
    required("title", text("One line.")),
    optional("description", text("All that the agent who does it needs to know.")),
    optional("files", list(text(), "Files it will change; relative to your file root.")),
    optional("assignee", text("Id of the instance that shall do it; it is told. Left out: anybody may claim it.")),
    defaulted("priority", integer("Higher comes first."), 0),
    optional("depends_on", list(text(), "Ids of tasks that must be done first; if one fails, this one is cancelled.")),
    optional("idempotency_key", text("Asking again with the same key gives the task that is there.")),
    optional("parent_task_id", text("The larger task this is a part of.")),
    optional("review_of_task_id", text("The task whose work this reviews.")),
    optional("fixes_task_id", text("The task whose work this repairs.")),
    defaulted("approval_required", flag("Whether it waits for approve_task before anybody may claim it."), false),
    defaulted("tracker_required", flag("Whether its completion must say what became of the entry in the work tracker."), false),
    optional("tracker_provider", text("Which work tracker.")),
  };
}

json placement() {
  range grid_side{.minimum = 1, .maximum = 4};
  return object(
    {
      optional("workspace", text("A workspace, or new.")),
      optional("tab", text("A tab, or one of reuse_group, new and current.")),
      optional("group", text("Workers of one group share tabs. Left out: the role.")),
      optional("parent_pane_id", text("The pane to split.")),
      optional("split_direction", one_of({"right", "down"})),
      optional("max_panes_per_tab", integer("Then a new tab is begun.", {.minimum = 1, .maximum = 8})),
      optional("layout", any_of({
                           object({
                             required("kind", literal("grid")),
                             required("rows", integer({}, grid_side)),
                             required("cols", integer({}, grid_side)),
                             optional("balance", flag("Whether all panes become equally large.")),
                           }),
                           object({required("kind", literal("balance"))}),
                         })),
    },
    "Where a started worker appears. The fabric's own terminals lie side by side: with them it changes nothing.");
}

json dispatch_arguments() {
  return arguments({
    required("title", text("One line.")),
    optional("message", text("The instruction for the worker; becomes the description of the task.")),
    defaulted("type", task_type(), "implement"),
    defaulted("role", text("Which role: token a worker's label must have."), "implementer"),
    optional("files", list(text(), "Files it will change; relative to your file root.")),
    optional("priority", integer("Higher comes first.")),
    optional("depends_on", list(text(), "Ids of tasks that must be done first.")),
    optional("idempotency_key", text("Dispatching again with the same key goes on with the same task.")),
    optional("parent_task_id", text("The larger task this is a part of.")),
    defaulted("approval_required", flag("Whether it waits for approve_task before anybody may claim it."), false),
    defaulted("spawn", flag("Whether a worker is started when none with the role is there."), true),
    defaulted("force_spawn", flag("Start a worker even when one is there."), false),
    optional("spawner", text("What starts the worker.")),
    optional("harness", text("Which agent program the worker is.")),
    optional("cwd", text("The worker's directory. Left out: yours.")),
    optional("label", text("Further tokens for the worker's label.")),
    optional("name", text("A name for the worker.")),
    optional("wait_seconds", number("How long to wait for a started worker to register.", {.minimum = 0})),
    optional("placement", placement()),
    optional("completion_wait_seconds", number("How long to wait for the task to end; 0 does not wait.", {.minimum = 0})),
    defaulted("nudge", flag("Whether to wake the worker."), true),
    defaulted("force", flag("Wake it even while it is busy."), false),
    optional("promote", flag("Whether the work tracker gets an entry for it. Left out: by the rules of the tracker.")),
    optional("promote_identifier", text("The entry of the work tracker that this belongs to.")),
  });
}

entries task_tools() {
  return {
    {"request_task", arguments(new_task())},
    {"request_task_batch",
     arguments({
       required("tasks",
                list(object(new_task()),
                     "All or none are created. $1, $2, ... instead of an id in depends_on, parent_task_id, review_of_task_id and fixes_task_id "
                     "mean an earlier task of this list.",
                     {.minimum = 1, .maximum = 50})),
     })},
    {"dispatch", dispatch_arguments()},
    {"claim_task", arguments({
                     required("task_id", text()),
                     optional("ignore_unread_messages", flag("Claim although messages are waiting; otherwise that is refused.")),
                   })},
    {"claim_next_task", arguments({
                          optional("types", list(task_type(), "Only tasks of these types.")),
                          optional("files", list(text(), "Only tasks that name one of these files.")),
                          optional("ignore_unread_messages", flag("Claim although messages are waiting; otherwise that is refused.")),
                        })},
    {"update_task", arguments({
                      required("task_id", text()),
                      required("status", final_status()),
                      optional("result", text("What came of it; the requester is told.")),
                    })},
    {"complete_task", arguments({
                        required("task_id", text()),
                        defaulted("status", final_status(), "done"),
                        required("summary", text("What came of it; the requester is told.")),
                        optional("files_changed", list(text(), "Relative to your file root.")),
                        optional("tests", list(object({
                                                 optional("command", text()),
                                                 required("status", one_of({"passed", "failed", "skipped", "unknown"})),
                                                 optional("notes", text()),
                                               }),
                                               "What was run to check the work.")),
                        optional("tracker_update", any_of({free_form(), text()}, "What became of the entry in the work tracker.")),
                        optional("tracker_update_skipped", any_of({free_form(), text()}, "Why the work tracker was left alone.")),
                        optional("followups", list(text(), "What is left to do.")),
                      })},
    {"report_progress",
     arguments({
       required("task_id", text("A task that you have in progress.")),
       required("summary", text("Where it stands.")),
       optional("blocked_reason", or_null(text(), "What holds it up. Null clears it; left out, it stays.")),
       optional("expected_next_update_at", or_null(integer(), "When the next report is due, in Unix seconds. Null clears it; left out, it stays.")),
     })},
    {"approve_task", arguments({required("task_id", text("A task whose status is approval_required."))})},
    {"get_task", arguments({required("task_id", text())})},
    {"list_tasks", arguments({
                     optional("status", task_status()),
                     optional("assignee", text("Id of an instance.")),
                     optional("requester", text("Id of an instance.")),
                   })},
  };
}

entries file_and_key_tools() {
  return {
    {"get_file_lock", arguments({required("file", text("Relative to your file root."))})},
    {"lock_file", arguments({
                    required("file", text("Relative to your file root.")),
                    optional("reason", text("What others see while you hold it.")),
                    optional("task_id", text("The lock ends with this task.")),
                    optional("exclusive", flag("Refuse also when you hold it already, instead of renewing it.")),
                  })},
    {"unlock_file", arguments({required("file", text("Relative to your file root. Only your own lock ends."))})},
    {"kv_get", arguments({required("key", text())})},
    {"kv_set", arguments({
                 required("key", text()),
                 required("value", text("Any text; replaces what is there.")),
               })},
    {"kv_append", arguments({
                    required("key", text("Its value becomes a JSON array if it is not one.")),
                    required("value", text("JSON text of the one element to add.")),
                  })},
    {"kv_delete", arguments({required("key", text())})},
    {"kv_list", arguments({optional("prefix", text("Only keys that begin with this; % and _ are wildcards."))})},
  };
}

entries overview_tools() {
  return {
    {"swarm_status", arguments({})},
    {"wait_for_activity",
     arguments({
       defaulted("timeout_seconds", integer("After so many seconds the answer is that nothing happened; 0 waits for ever.", {.minimum = 0}), 0),
     })},
  };
}

const entries& all_tools() {
  static const entries all = [] {
    entries out;
    for (auto* group : {session_tools, message_tools, task_tools, file_and_key_tools, overview_tools})
      for (auto& one : group())
        out.push_back(std::move(one));
    return out;
  }();
  return all;
}

} // namespace

const std::vector<std::string_view>& tool_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const auto& one : all_tools())
      out.push_back(one.name);
    return out;
  }();
  return names;
}

json input_schema(std::string_view tool) {
  for (const auto& one : all_tools())
    if (one.name == tool)
      return one.schema;
  return nullptr;
}

} // namespace swarm::mcp
