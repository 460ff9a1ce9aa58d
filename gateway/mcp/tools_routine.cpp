// routine_list, routine_show, routine_run: named steps for agents (docs/routines.md). Trust is given by a person, never here.
#include <algorithm>

#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/tool.hpp"
#include "gateway/mcp/tool_schemas.hpp"
#include "gateway/routine/run.hpp"
#include "gateway/routine/trust.hpp"

namespace swarm::mcp {

namespace {

routines::places places_of(const tool_call& call) {
  return routines::places_of(call.session.directory(), call.process.state_directory(), call.process.variable("SWARM_SHARE"));
}

std::string joined(const std::vector<routines::problem>& problems) {
  std::string out;
  for (const auto& p : problems)
    out += (out.empty() ? "" : "; ") + p.text;
  return out;
}

tool_outcome routine_list(const tool_call& call) {
  auto where = places_of(call);
  auto out = json::array();
  for (const auto& r : routines::list(where))
    out.push_back(routines::list_row(where, r));
  return said(out);
}

tool_outcome routine_show(const tool_call& call) {
  auto where = places_of(call);
  auto found = routines::find(where, call.text("name"));
  if (!found.routine)
    return said_error(found.why_not);
  return said(routines::routine_json(*found.routine, routines::trust_of(where, *found.routine) == routines::trust::given));
}

/// The values given; those that are no text are told.
routines::values values_of(const tool_call& call, std::vector<routines::problem>& problems) {
  routines::values out;
  if (!call.given("parameters"))
    return out;
  for (const auto& [name, value] : call.arguments.at("parameters").items())
    if (value.is_string())
      out.emplace(name, value.get<std::string>());
    else
      problems.push_back({0, "the parameter " + name + " must be a text"});
  return out;
}

routines::ports ports_of(const tool_call& call, const std::string& root) {
  routines::ports out;
  out.command = call.command();
  out.query = call.query();
  out.execute = [&call](const v1::Command& command, const environment_list& environment) { return call.node.execute(command, environment); };
  out.ask = [&call](const v1::Query& query) { return call.node.ask(query); };
  out.worker_of = [&call, root](const std::string& harness) {
    auto settings = call.process.worker(call.session, "", harness, root);
    return routines::ports::worker{settings.harness, std::move(settings.environment)};
  };
  out.file = [&call](const std::string& path) { return call.file(path); };
  return out;
}

routines::wishes wishes_of(const tool_call& call) {
  routines::wishes out;
  out.identity = domain::identity_token(call.session.label());
  out.harness = call.optional_text("harness");
  for (const auto* name : {"SWARM_WORKER_HARNESS", "SWARM_DISPATCH_HARNESS"})
    if (out.harness_else.empty())
      out.harness_else = call.process.variable(name);
  out.parent_task_id = call.optional_text("parent_task_id");
  out.spawn = call.flag("spawn");
  out.force_spawn = call.flag("force_spawn");
  out.fresh = call.flag("fresh");
  out.follows = call.given("completion_wait_seconds") && call.arguments.at("completion_wait_seconds").get<double>() > 0;
  return out;
}

std::int64_t wait_ms_of(const tool_call& call) {
  if (!call.given("completion_wait_seconds"))
    return 0;
  constexpr double a_year_s = 365.0 * 24 * 3600;
  return static_cast<std::int64_t>(std::min(call.arguments.at("completion_wait_seconds").get<double>(), a_year_s) * 1000);
}

/// To the end of all steps, or until the time is up.
tool_result follow(const tool_call& call, routines::run& run, const std::string& root, std::int64_t wait_ms) {
  auto ports = ports_of(call, root);
  auto began = call.process.boot_ms();
  v1::WatchRequest request;
  request.set_scope(call.session.scope());
  request.set_after(run.revision());
  request.add_types("task.");
  request.add_types("spawn.");
  for (auto left = wait_ms; !run.over() && left > 0; left = began + wait_ms - call.process.boot_ms()) {
    // Nothing may be asked on this connection while it tells events.
    std::vector<v1::Event> news;
    bool gap = false;
    call.node.watch(request, left, [&](const v1::WatchReply& reply) {
      gap = reply.events().empty();
      for (const auto& e : reply.events())
        if (!run.step_of(e).empty())
          news.push_back(e);
      request.set_after(std::max(request.after(), reply.revision()));
      return news.empty() && !gap;
    });
    for (const auto& e : news)
      run.note(ports, e);
    if (gap || news.empty()) {
      run.refresh(ports);
      request.set_after(run.revision());
    }
    if (!run.over())
      call.progress(run.counts());
  }
  run.conclude(ports);
  auto out = run.report(true);
  out["completion"] = {{"status", run.over() ? "completed" : "timeout"},
                       {"outcome", run.counts()},
                       {"waited_ms", call.process.boot_ms() - began},
                       {"succeeded", run.succeeded()}};
  return said(out);
}

tool_outcome routine_run(const tool_call& call) {
  auto where = places_of(call);
  auto found = routines::find(where, call.text("name"));
  if (!found.routine)
    return said_error(found.why_not);
  const auto& routine = *found.routine;
  if (!routine.usable())
    return said_error(routine.problems_text());
  bool dry = call.flag("dry_run");
  auto objection = routines::objection(where, routine);
  if (!objection.empty() && !dry)
    return said_error(objection);
  std::vector<routines::problem> problems;
  auto values = values_of(call, problems);
  if (problems.empty())
    values = routines::settle(routine.content.value, values, problems);
  std::vector<routines::planned_step> plan;
  if (problems.empty())
    plan = routines::plan(routine.content.value, routine.from, values, where.root, problems);
  if (!problems.empty())
    return said_error(joined(problems));
  if (dry) {
    try {
      plan = routines::with_harnesses(std::move(plan), wishes_of(call),
                                      [&](const std::string& harness) { return call.process.worker(call.session, "", harness, where.root).harness; });
    } catch (const routines::refused_run& e) {
      return said_error(e.what());
    }
    auto out = routines::plan_json(routine, values, plan);
    out["dry_run"] = true;
    out["trusted"] = objection.empty();
    return said(out);
  }
  auto run = std::make_shared<routines::run>(routine, std::move(values), std::move(plan), where.root, wishes_of(call));
  try {
    run->start(ports_of(call, where.root));
  } catch (const call_failed&) {
    throw;
  } catch (const std::exception& e) {
    return said_error(e.what());
  }
  auto wait_ms = wait_ms_of(call);
  if (wait_ms == 0)
    return said(run->report(false));
  return tool_waiting{[run, root = where.root, wait_ms](const tool_call& later) { return follow(later, *run, root, wait_ms); },
                      [run](const std::string& why) {
                        auto out = run->report(false);
                        out["wait_error"] = why;
                        return said(out);
                      }};
}

json name_schema() {
  using namespace schemas;
  return arguments({required("name", text("as routine_list gives it: NAME, or repository/NAME, user/NAME, shipped/NAME"))});
}

json run_schema() {
  using namespace schemas;
  return arguments(
    {required("name", text("as routine_list gives it: NAME, or repository/NAME, user/NAME, shipped/NAME")),
     optional("parameters", free_form("a text for each parameter, by name; see routine_show")),
     optional("harness", text("agent for every step, such as claude, in place of what the routine names")),
     optional("parent_task_id", text("the task all of it is part of")), defaulted("spawn", flag("whether workers may be started"), true),
     defaulted("force_spawn", flag("start workers even when some are there"), false),
     defaulted("fresh", flag("a new run even while the same one goes on"), false), defaulted("dry_run", flag("only say what would be done"), false),
     optional("completion_wait_seconds", number("longest time to wait for the end of all steps and get their results", {.minimum = 0}))});
}

} // namespace

std::vector<tool> routine_tools() {
  const json reads = {{"readOnlyHint", true}};
  return {
    {.name = "routine_list",
     .description = "The routines there are: named steps with roles, dependencies and parameters, of this repository, the user's and shipped.",
     .input_schema = schemas::arguments({}),
     .annotations = reads,
     .run = routine_list},
    {.name = "routine_show",
     .description = "What a routine does: its parameters and steps, and whether it may run.",
     .input_schema = name_schema(),
     .annotations = reads,
     .run = routine_show},
    {.name = "routine_run",
     .description =
       "Make a routine's steps tasks, all or none, and get them done as dispatch does it. The same routine with the same parameters is one run "
       "while it goes on. For coordinators and sessions with the right `spawn`; a repository's routine only after a person has trusted it.",
     .input_schema = run_schema(),
     .run = routine_run},
  };
}

} // namespace swarm::mcp
