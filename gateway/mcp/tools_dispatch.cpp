// dispatch (contract 3.3), request_spawn.
#include <algorithm>
#include <cmath>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/session/task_news.hpp"

namespace swarm::mcp {

namespace {

constexpr double spawn_wait_s = 30;

std::string first_of(std::initializer_list<std::string> values) {
  for (const auto& v : values)
    if (!v.empty())
      return v;
  return {};
}

std::int64_t milliseconds_in(const json& arguments, const char* name, double otherwise_s) {
  auto i = arguments.find(name);
  auto seconds = i == arguments.end() ? otherwise_s : i->get<double>();
  return static_cast<std::int64_t>(std::min(seconds, 365.0 * 24 * 3600) * 1000);
}

v1::Command asked_for(const tool_call& call) {
  auto command = call.command();
  auto& body = *command.mutable_dispatch();
  const auto& process = call.process;
  body.set_title(call.text("title"));
  body.set_message(call.optional_text("message"));
  body.set_description(call.optional_text("message"));
  body.set_type(call.text("type"));
  body.set_role(call.text("role"));
  if (call.given("files")) {
    body.set_has_files(true);
    for (const auto& f : call.arguments.at("files"))
      body.add_files(call.file(f.get_ref<const std::string&>()));
  }
  if (call.given("priority"))
    body.set_priority(call.arguments.at("priority").get<std::int64_t>());
  if (call.given("depends_on"))
    for (const auto& id : call.arguments.at("depends_on"))
      body.add_depends_on(id.get<std::string>());
  body.set_idempotency_key(call.optional_text("idempotency_key"));
  body.set_parent_task_id(call.optional_text("parent_task_id"));
  body.set_approval_required(call.flag("approval_required"));
  body.set_no_spawn(!call.flag("spawn"));
  body.set_force_spawn(call.flag("force_spawn"));
  body.set_spawner(first_of({call.optional_text("spawner"), process.variable("SWARM_SPAWNER"), process.variable("SWARM_DISPATCH_SPAWNER")}));
  body.set_harness(first_of({call.optional_text("harness"), process.variable("SWARM_WORKER_HARNESS"), process.variable("SWARM_DISPATCH_HARNESS")}));
  body.set_label(call.optional_text("label"));
  body.set_name(call.optional_text("name"));
  if (call.given("promote"))
    body.set_promote(call.flag("promote"));
  body.set_promote_identifier(call.optional_text("promote_identifier"));
  auto directory = call.optional_text("cwd");
  body.set_directory(directory.empty() ? call.session.directory() : normalize_path(directory, call.session.directory()));
  body.set_no_nudge(!call.flag("nudge"));
  body.set_force(call.flag("force"));
  return command;
}

/// What became of the worker and of the task, as far as the events tell.
struct following : worker_news {
  v1::Task task;
  std::uint64_t revision = 0; // seen up to here
};

std::optional<v1::Task> current(const tool_call& call, const std::string& id) {
  auto query = call.query();
  query.mutable_get_task()->set_task_id(id);
  auto answer = call.node.ask(query);
  return answer.has_refusal() ? std::nullopt : std::optional{answer.task()};
}

/// Until `done`, or the time is up.
void follow(const tool_call& call, following& f, std::int64_t timeout_ms, const std::function<bool(const following&)>& done) {
  v1::WatchRequest request;
  request.set_scope(call.session.scope());
  request.set_after(f.revision);
  request.add_types("task.");
  request.add_types("spawn.");
  auto until = call.process.boot_ms() + timeout_ms;
  for (;;) {
    auto left = until - call.process.boot_ms();
    if (done(f) || left <= 0)
      return;
    call.node.watch(request, left, [&](const v1::WatchReply& reply) {
      bool news = false;
      for (const auto& e : reply.events())
        if (concerns(e, f.task.id())) {
          f.take(e);
          news = true;
        }
      f.revision = std::max(f.revision, reply.revision());
      return !news;
    });
    request.set_after(f.revision);
    // The row, not the event, decides: an event may be older than a later attempt.
    if (auto now = current(call, f.task.id()))
      f.task = *now;
    if (!done(f))
      call.progress(std::string{"the task is "} + domain::to_text(f.task.status()));
  }
}

void add_worker(json& payload, const v1::DispatchReply& d, const following& f) {
  payload["task"] = task(f.task);
  if (!asked_for_worker(d))
    return;
  if (!f.spawn_error.empty()) {
    payload["status"] = "spawn_failed";
    payload["error"] = f.spawn_error;
  } else if (f.bound || !f.task.assignee().empty()) {
    payload["status"] = "spawned";
    payload["spawned_instance"] = text_or_null(f.task.assignee());
  }
}

json completion(const following& f, std::int64_t timeout_ms, std::int64_t waited_ms) {
  bool over = domain::is_terminal(f.task.status());
  json out = {{"status", over ? "completed" : "timeout"}};
  if (over)
    out["terminal_status"] = domain::to_text(f.task.status());
  out["timeout_seconds"] = static_cast<double>(timeout_ms) / 1000;
  out["waited_ms"] = waited_ms;
  out["task"] = task(f.task);
  return out;
}

/// Whoever has waited for the end needs no mail about it.
json consumed(const tool_call& call, const std::string& task_id) {
  auto out = json::array();
  auto command = call.command();
  command.mutable_consume_messages()->set_task_prefix(task_id);
  auto reply = call.node.execute(command);
  for (const auto& m : reply.messages().messages())
    out.push_back(message(m));
  return out;
}

tool_result follow_up(const tool_call& call, const v1::DispatchReply& d, std::uint64_t revision, std::int64_t spawn_ms, std::int64_t completion_ms) {
  following f;
  f.task = d.task();
  f.revision = revision;
  f.bound = d.spawn().status() == v1::Spawn::RUNNING;
  auto began = call.process.boot_ms();
  auto over = [](const following& x) { return domain::is_terminal(x.task.status()); };
  bool waits = d.task().status() == v1::BLOCKED || d.task().status() == v1::APPROVAL_REQUIRED;
  if (asked_for_worker(d) && !waits)
    follow(call, f, spawn_ms, [&](const following& x) { return over(x) || x.bound || !x.spawn_error.empty(); });
  auto payload = dispatch(d);
  if (completion_ms > 0)
    follow(call, f, completion_ms, over);
  add_worker(payload, d, f);
  if (completion_ms > 0) {
    payload["completion"] = completion(f, completion_ms, call.process.boot_ms() - began);
    if (over(f))
      payload["consumed_completion_messages"] = consumed(call, f.task.id());
  }
  return said(payload);
}

tool_outcome run_dispatch(const tool_call& call) {
  auto command = asked_for(call);
  auto& body = *command.mutable_dispatch();
  environment_list environment;
  if (!body.harness().empty()) {
    try {
      auto worker = call.process.worker(call.session, body.label(), body.harness(), body.no_spawn() ? "" : body.directory());
      body.set_harness(worker.harness);
      environment = std::move(worker.environment);
    } catch (const std::exception& e) {
      return said_error(e.what());
    }
  }
  auto reply = call.node.execute(command, environment);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  auto d = reply.dispatch();
  if (!call.flag("nudge") && d.prompt().message_id() != 0)
    d.mutable_prompt()->set_skipped("nudge=false");
  auto completion_ms = milliseconds_in(call.arguments, "completion_wait_seconds", 0);
  if (d.status() == v1::DispatchReply::ALREADY_TERMINAL || (!asked_for_worker(d) && completion_ms == 0))
    return said(dispatch(d));
  auto spawn_ms = milliseconds_in(call.arguments, "wait_seconds", spawn_wait_s);
  return tool_waiting{[d, revision = reply.revision(), spawn_ms, completion_ms](const tool_call& later) {
                        return follow_up(later, d, revision, spawn_ms, completion_ms);
                      },
                      [d](const std::string& why) {
                        auto payload = dispatch(d);
                        payload["wait_error"] = why;
                        return said(payload);
                      }};
}

tool_outcome request_spawn(const tool_call& call) {
  auto command = call.command();
  auto& body = *command.mutable_request_spawn();
  body.set_role(call.text("role"));
  body.set_key(call.text("idempotency_key"));
  body.set_intent(call.optional_text("intent"));
  body.set_harness(call.text("harness"));
  if (call.given("argv"))
    for (const auto& word : call.arguments.at("argv"))
      body.add_argv(word.get<std::string>());
  auto directory = call.optional_text("cwd");
  body.set_directory(directory.empty() ? call.session.directory() : normalize_path(directory, call.session.directory()));
  body.set_label(call.optional_text("label"));
  body.set_task_id(call.optional_text("task_id"));
  body.set_restart(call.flag("restart"));
  body.set_worktree(call.flag("worktree"));
  body.set_pipes(call.flag("pipes"));
  environment_list environment;
  try {
    auto worker = call.process.worker(call.session, body.label(), body.harness(), body.directory());
    body.set_harness(worker.harness);
    environment = std::move(worker.environment);
  } catch (const std::exception& e) {
    return said_error(e.what());
  }
  auto reply = call.node.execute(command, environment);
  if (reply.has_refusal())
    return said_error(reply.refusal().text());
  const auto& spawn = reply.spawn().spawn();
  return said(json{{"ok", true},
                   {"spawn_id", spawn.id()},
                   {"status", spawn_status(spawn.status())},
                   {"existing", reply.spawn().existing()},
                   {"instance_id", text_or_null(spawn.session_id())},
                   {"task_id", text_or_null(spawn.task_id())}});
}

json request_spawn_schema() {
  using namespace schemas;
  return arguments({required("role", text("what the worker is for, such as implementer")),
                    required("idempotency_key", text("the same key gives the same worker while it lives and for a day after")),
                    required("harness", text("the program: exec with argv, shell, or an agent such as claude")),
                    optional("argv", list(text(), "program and arguments of exec")), optional("intent", text("why, for people")),
                    optional("cwd", text("where it starts; your directory without it")),
                    optional("label", text("extra tokens for the label of its session")), optional("task_id", text("the task it is for")),
                    optional("restart", flag("start a new process if the last one has ended")),
                    optional("worktree", flag("give it a git worktree and a branch of its own")),
                    optional("pipes", flag("run it on pipes instead of a terminal; only for the harness exec"))});
}

} // namespace

std::vector<tool> dispatch_tools() {
  return {
    {.name = "dispatch",
     .description =
       "Get work done: makes one durable task and finds or starts exactly one worker for it. Asking again with the same title gives the same "
       "task and worker. For gateways and whoever may spawn.",
     .input_schema = input_schema("dispatch"),
     .run = run_dispatch},
    {.name = "request_spawn",
     .description = "Start one worker process under a key, without a task of its own. For gateways and whoever may spawn.",
     .input_schema = request_spawn_schema(),
     .run = request_spawn},
  };
}

} // namespace swarm::mcp
