// dispatch (as in swarm-mcp), request_spawn.
#include <algorithm>
#include <cmath>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/session/task_follow.hpp"

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

v1::Task current(const tool_call& call, const v1::Task& known) {
  auto query = call.query();
  query.mutable_get_task()->set_task_id(known.id());
  auto answer = call.node.ask(query);
  return answer.has_refusal() ? known : answer.task();
}

/// Follows for `timeout_ms` at most; 0 = not at all. `revision` moves to the last event seen.
void follow_for(const tool_call& call, task_follow& f, std::uint64_t& revision, std::int64_t timeout_ms) {
  if (timeout_ms <= 0)
    return;
  follow_port port;
  port.read = [&](const v1::Task& t) { return current(call, t); };
  port.watch = [&](const v1::WatchRequest& request, const auto& on, const auto& on_reset) {
    call.node.watch(request, timeout_ms, [&](const v1::WatchReply& reply) {
      if (reply.events().empty() && reply.revision() == 0)
        return on_reset();
      return std::all_of(reply.events().begin(), reply.events().end(), on);
    });
  };
  auto seen = revision;
  port.tell = [&](const v1::Event& e) {
    seen = std::max(seen, e.revision());
    call.progress(std::string{"the task is "} + domain::to_text(current(call, f.task).status()));
  };
  follow(f, revision, port);
  revision = seen;
}

tool_result follow_up(const tool_call& call, const v1::DispatchReply& d, std::uint64_t revision, std::int64_t spawn_ms, std::int64_t completion_ms) {
  task_follow f;
  f.task = d.task();
  f.bound = d.spawn().status() == v1::Spawn::RUNNING;
  auto began = call.process.boot_ms();
  bool waits = d.task().status() == v1::BLOCKED || d.task().status() == v1::APPROVAL_REQUIRED;
  if (asked_for_worker(d) && !waits) {
    f.until = task_follow::target::worker;
    follow_for(call, f, revision, spawn_ms);
  }
  auto payload = dispatch(d);
  f.until = task_follow::target::end;
  follow_for(call, f, revision, completion_ms);
  add_worker(payload, d, f);
  if (completion_ms > 0) {
    payload["completion"] = completion(f, completion_ms, call.process.boot_ms() - began);
    if (domain::is_terminal(f.task.status()))
      payload["consumed_completion_messages"] =
        consume_messages(call.command(), f.task.id(), [&](const v1::Command& c) { return call.node.execute(c); });
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
       "task and worker. For coordinators and sessions with the right `spawn`.",
     .input_schema = input_schema("dispatch"),
     .run = run_dispatch},
    {.name = "request_spawn",
     .description = "Start one worker process under a key, without a task of its own. For coordinators and sessions with the right `spawn`.",
     .input_schema = request_spawn_schema(),
     .run = request_spawn},
  };
}

} // namespace swarm::mcp
