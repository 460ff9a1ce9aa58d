// routine: named steps for agents, from a file to a run (docs/routines.md).
#include "cli/verbs/routine.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/confirmation.hpp"
#include "cli/verbs/follow.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/routine/run.hpp"
#include "gateway/routine/trust.hpp"

#include <unistd.h>

namespace swarm::cli {

namespace {

using domain::text_in;

struct routine_options {
  std::string name;
  std::vector<std::string> set;
  std::string harness;
  std::string parent;
  bool dry_run = false, wait = false, no_spawn = false, force_spawn = false, fresh = false, yes = false;
};

routines::routine_file find(const routines::places& where, const std::string& name) {
  auto found = routines::find(where, name);
  if (!found.routine)
    throw failure(code::refused, found.why_not);
  return std::move(*found.routine);
}

void refuse_problems(const routines::routine_file& routine) {
  if (!routine.usable())
    throw failure(code::refused, "the routine " + routine.name + " cannot be used:\n" + routine.problems_text());
}

void print_lines(console& io, const std::string& indent, std::string_view text) {
  while (!text.empty()) {
    auto end = std::min(text.find('\n'), text.size());
    io.line(indent + std::string{text.substr(0, end)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// -- list, show, trust -------------------------------------------------------------------

int run_list(invocation& cli) {
  auto where = places_of(cli);
  auto all = routines::list(where);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& r : all)
      out.push_back(routines::list_row(where, r));
    cli.io().print(out);
    return code::ok;
  }
  if (all.empty()) {
    cli.io().line("(no routines)");
    return code::ok;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& r : all) {
    const auto& problems = r.content.problems;
    auto trust = routines::trust_of(where, r);
    auto state = !problems.empty() ? "broken" : trust == routines::trust::given ? "" : routines::to_text(trust);
    rows.push_back({escape_control(r.full_name(), false), state,
                    escape_control(problems.empty() ? r.content.value.summary : "see: swarmctl routine show " + r.full_name(), false)});
  }
  cli.io().text(table({"ROUTINE", "STATE", "WHAT IT DOES"}, rows));
  return code::ok;
}

void print_step(console& io, const routines::step& s) {
  auto about = s.type.empty() ? std::string{"implement"} : s.type;
  auto add = [&](const std::string& what) { about += (about.empty() ? "" : ", ") + what; };
  if (!s.role.empty())
    add("role " + s.role);
  if (!s.harness.empty())
    add("harness " + s.harness);
  if (s.priority != 0)
    add("priority " + std::to_string(s.priority));
  if (s.approval)
    add("waits for approval");
  io.line("  " + s.id + "  " + s.title + "  [" + about + "]");
  std::string needs;
  for (const auto& need : s.needs)
    needs += (needs.empty() ? "" : ", ") + need;
  if (!needs.empty())
    io.line("    after: " + needs);
  for (const auto& file : s.files)
    io.line("    file: " + file);
  print_lines(io, "    ", trimmed(s.description));
}

void print_routine(console& io, const routines::routine_file& routine, const std::string& state) {
  const auto& r = routine.content.value;
  io.line(routine.full_name() + ": " + r.summary);
  io.line("file: " + routine.file.string());
  io.line("digest: " + routine.digest + (state.empty() ? "" : "  (" + state + ")"));
  if (!r.parameters.empty())
    io.line("parameters:");
  for (const auto& p : r.parameters) {
    std::string about = p.required ? "required" : "default \"" + p.value.value_or("") + "\"";
    for (std::size_t i = 0; i < p.choices.size(); ++i)
      about += (i == 0 ? "; one of " : ", ") + p.choices[i];
    io.line("  " + p.name + "  " + p.description + "  [" + about + "]");
  }
  io.line("steps:");
  for (const auto& s : r.steps)
    print_step(io, s);
}

int run_show(invocation& cli, const routine_options& o) {
  auto where = places_of(cli);
  auto routine = find(where, o.name);
  auto trust = routines::trust_of(where, routine);
  if (cli.json_wanted()) {
    cli.io().print(routines::routine_json(routine, trust == routines::trust::given));
    return routine.usable() ? code::ok : code::refused;
  }
  refuse_problems(routine);
  print_routine(cli.io(), routine, routine.from == routines::origin::repository ? routines::to_text(trust) : "");
  return code::ok;
}

/// Variables can be taken away; the node knows its workers' processes. What only the operator may ask it, it answers nobody else.
void refuse_workers(invocation& cli) {
  const failure refused{code::refused, "trusting a routine is for a person to do, not for a worker"};
  if (cli.env().in_worker())
    throw refused;
  v1::GraphRequest nothing_much;
  nothing_much.set_scope("no path has this");
  try {
    cli.node().admin.graph(nothing_much);
  } catch (const failure& f) {
    if (f.exit_status == code::refused)
      throw refused;
    throw;
  }
}

int run_trust(invocation& cli, const routine_options& o) {
  refuse_workers(cli);
  auto where = places_of(cli);
  auto routine = find(where, o.name);
  refuse_problems(routine);
  if (routine.from != routines::origin::repository)
    throw failure(code::refused, "the routine " + routine.full_name() + " needs no trust; only those of a repository do");
  auto before = routines::trust_of(where, routine);
  if (!cli.json_wanted()) {
    // The bytes themselves: what runs is what was shown.
    cli.io().line(routine.file.string() + ":");
    cli.io().text(routine.text);
    cli.io().line("digest: " + routine.digest);
  }
  bool asks = !cli.json_wanted() && isatty(STDIN_FILENO) != 0 && cli.io().out_is_terminal();
  if (before != routines::trust::given && !o.yes && (!asks || !is_confirmed(cli.io(), "Trust this routine?")))
    throw failure(code::refused, asks ? "not trusted" : "not trusted: there is no terminal to ask at; read the file, then repeat with --yes");
  if (before != routines::trust::given)
    try {
      routines::trust_it(where, routine, cli.now_ms());
    } catch (const std::runtime_error& e) {
      throw failure(code::refused, e.what());
    }
  if (cli.json_wanted()) {
    auto out = routines::routine_json(routine, true);
    out["existing"] = before == routines::trust::given;
    cli.io().print(out);
  } else {
    cli.io().line((before == routines::trust::given ? "trusted already: " : "trusted: ") + routine.full_name());
  }
  return code::ok;
}

// -- run ---------------------------------------------------------------------------------

routines::values values_of(const routine_options& o) {
  routines::values out;
  for (const auto& pair : o.set) {
    auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage("--set takes NAME=VALUE");
    if (!out.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
      throw usage("--set gives " + pair.substr(0, equals) + " twice");
  }
  return out;
}

/// Everything that can be known to be wrong before the node is asked.
struct prepared {
  routines::values values;
  std::vector<routines::planned_step> plan;
};
prepared prepare(const routines::places& where, const routines::routine_file& routine, const routine_options& o) {
  std::vector<routines::problem> problems;
  prepared out;
  out.values = routines::settle(routine.content.value, values_of(o), problems);
  if (problems.empty())
    out.plan = routines::plan(routine.content.value, routine.from, out.values, where.root, problems);
  if (problems.empty())
    return out;
  std::string text;
  for (const auto& p : problems)
    text += (text.empty() ? "" : "\n") + p.text;
  throw failure(code::refused, text + "\nSee: swarmctl routine show " + routine.full_name());
}

std::string harness_of_environment(const invocation& cli) {
  auto own = cli.env().get("SWARM_WORKER_HARNESS");
  return own.empty() ? cli.env().get("SWARM_DISPATCH_HARNESS") : own;
}

routines::ports ports_of(const invocation& cli, coordination_port& node, const std::optional<v1::Session>& requester, const std::string& root) {
  routines::ports out;
  out.command = cli.command();
  out.command.set_actor(requester ? requester->id() : "");
  out.query = cli.query();
  out.query.set_viewer(out.command.actor());
  out.execute = [&node](const v1::Command& command, const environment_list& environment) { return node.execute(command, environment); };
  out.ask = [&node](const v1::Query& query) { return node.ask(query); };
  out.worker_of = [&cli, requester, root](const std::string& harness) {
    auto settings = settings_of_worker(cli, requester, "", harness, root);
    return routines::ports::worker{settings.harness, std::move(settings.environment)};
  };
  out.file = [&cli, requester](const std::string& path) { return cli.file(path, requester); };
  return out;
}

routines::wishes wishes_of(const invocation& cli, const std::optional<v1::Session>& requester, const routine_options& o) {
  routines::wishes out;
  out.identity = requester ? domain::identity_token(requester->label()) : "";
  if (auto name = domain::identity_name(cli.env().identity()); !requester && !name.empty())
    out.identity = "identity:" + name;
  out.harness = o.harness;
  out.harness_else = harness_of_environment(cli);
  out.parent_task_id = o.parent;
  out.spawn = !o.no_spawn;
  out.force_spawn = o.force_spawn;
  out.fresh = o.fresh;
  out.follows = o.wait;
  return out;
}

/// What was done about a step, in words.
std::string routing_of(const json& row) {
  auto how = text_in(row, "routing");
  if (how == "dispatched" || how == "assigned")
    return "with " + short_id(text_in(row, "recipient"));
  if (how == "told")
    return "a worker was told before";
  if (how == "spawning")
    return "a worker was asked for";
  if (how == "spawn_in_flight")
    return "a worker is on its way";
  if (how == "no_worker")
    return "for anybody who takes it";
  if (how == "failed")
    return "not routed: " + text_in(row, "error");
  return {};
}

void print_begun(console& io, const json& report) {
  io.line((report["existing"].get<bool>() ? "following run " : "began run ") + text_in(report, "run") + " of " + text_in(report, "routine"));
  auto row = [&](const json& r) {
    auto how = routing_of(r);
    io.line("  " + text_in(r, "step") + "  " + text_in(r, "task_id") + "  [" + text_in(r, "status") + "]" + (how.empty() ? "" : "  " + how));
  };
  for (const auto& r : report["steps"])
    row(r);
  row(report["summary"]);
}

colour colour_of(const std::string& status) {
  return status == "done" ? colour::green : status == "failed" || status == "cancelled" ? colour::red : colour::none;
}

void print_outcome(console& io, const routines::run& run) {
  auto report = run.report(true);
  io.line(text_in(report, "routine") + ": " + run.counts());
  for (const auto& r : report["steps"]) {
    auto status = text_in(r, "status");
    auto said = routines::said_in(text_in(r, "result"));
    io.painted_line("  " + io.paint(colour_of(status), status) + "  " + io.paint(colour::bold, text_in(r, "step")) + "  " +
                    io.paint(colour::dim, text_in(r, "task_id")) + (said.empty() ? "" : "\n    " + hanging(said)));
  }
}

/// One line for each thing that happens to a step.
void print_event(console& io, const v1::Event& e, const std::string& step) {
  if (auto line = live_line(e); !line.empty())
    io.painted_line(io.paint(colour::dim, utc(e.at_ms()).substr(11)) + "  " + io.paint(colour::bold, step) + "  " + io.paint(colour::none, line));
}

follow_end follow(invocation& cli, routines::run& run, const routines::ports& ports) {
  run.refresh(ports);
  if (run.over())
    return follow_end::finished;
  v1::WatchRequest request;
  request.set_scope(ports.command.scope());
  request.set_after(run.revision());
  request.set_from_now(run.revision() == 0);
  request.add_types("task.");
  request.add_types("spawn.");
  auto on = [&](const v1::Event& e) {
    auto step = run.step_of(e);
    if (step.empty())
      return true;
    if (!cli.json_wanted())
      print_event(cli.io(), e, step);
    run.note(ports, e);
    return !run.over();
  };
  auto on_reset = [&] {
    run.refresh(ports);
    return !run.over();
  };
  return follow_events(cli, request, bounded_by_timeout(cli, 0), on, on_reset);
}

int wait_for_end(invocation& cli, routines::run& run, const routines::ports& ports) {
  auto began = cli.boot_ms();
  auto end = follow(cli, run, ports);
  if (end == follow_end::interrupted)
    throw failure(code::interrupted, "stopped following; the run goes on. Follow it again with the same command");
  bool over = run.over();
  run.conclude(ports);
  if (cli.json_wanted()) {
    auto out = run.report(true);
    out["completion"] = {{"status", over ? "completed" : "timeout"}, {"outcome", run.counts()}, {"waited_ms", cli.boot_ms() - began}};
    cli.io().print(out);
  } else {
    print_outcome(cli.io(), run);
  }
  if (!over && !cli.json_wanted())
    throw failure(code::deadline, "the deadline of --timeout passed; the run goes on. Follow it again with the same command");
  if (!over)
    return code::deadline;
  return run.succeeded() ? code::ok : code::refused;
}

/// The plan with the agents that the run would ask for; refused as the run would be. Nobody is asked who a session is: that needs a node.
std::vector<routines::planned_step> plan_with_harnesses(const invocation& cli, const routine_options& o, const prepared& p, const std::string& root) {
  try {
    return routines::with_harnesses(p.plan, wishes_of(cli, std::nullopt, o),
                                    [&](const std::string& harness) { return settings_of_worker(cli, std::nullopt, "", harness, root).harness; });
  } catch (const routines::refused_run& e) {
    throw failure(code::refused, e.what());
  }
}

int run_dry(invocation& cli, const routines::routine_file& routine, const prepared& p, const std::string& objection) {
  if (cli.json_wanted()) {
    auto out = routines::plan_json(routine, p.values, p.plan);
    out["dry_run"] = true;
    out["trusted"] = objection.empty();
    cli.io().print(out);
    return code::ok;
  }
  cli.io().line("would run " + routine.full_name() + ", in this order:");
  for (const auto& s : p.plan)
    print_step(cli.io(), s.what);
  if (!objection.empty())
    cli.io().error("swarmctl routine: " + objection);
  return code::ok;
}

int run_run(invocation& cli, const routine_options& o) {
  auto where = places_of(cli);
  auto routine = find(where, o.name);
  refuse_problems(routine);
  auto objection = routines::objection(where, routine);
  if (!objection.empty() && !o.dry_run)
    throw failure(code::refused, objection);
  auto ready = prepare(where, routine, o);
  if (o.dry_run) {
    ready.plan = plan_with_harnesses(cli, o, ready, where.root);
    return run_dry(cli, routine, ready, objection);
  }
  auto requester = cli.named_actor();
  // Steps are routed while the events come: a call on the events' own connection would take its cancelling away from it.
  auto further = o.wait ? cli.node().finder.connect("", !cli.flags.no_autostart) : nullptr;
  auto ports = ports_of(cli, further ? static_cast<coordination_port&>(*further) : cli.node().coordination, requester, where.root);
  routines::run run{routine, std::move(ready.values), std::move(ready.plan), where.root, wishes_of(cli, requester, o)};
  try {
    run.start(ports);
  } catch (const routines::refused_run& e) {
    throw failure(code::refused, e.what());
  }
  if (const auto& dropped = run.dropped_summary(); !dropped.empty())
    cli.io().error("the last run of " + routine.full_name() + " is over, so this is a new one; nobody has taken the summary of the last one (task " +
                   dropped + "), and it is cancelled");
  for (const auto& problem : run.problems())
    cli.io().error("swarmctl routine: " + problem);
  if (!cli.json_wanted())
    print_begun(cli.io(), run.report(false));
  if (o.wait)
    return wait_for_end(cli, run, ports);
  if (cli.json_wanted())
    cli.io().print(run.report(false));
  return run.problems().empty() ? code::ok : code::refused;
}

CLI::App* named(CLI::App& app, const char* name, const char* help, routine_options& o) {
  auto* sub = app.add_subcommand(name, help);
  option(*sub, "name", o.name, "NAME, or repository/NAME, user/NAME, shipped/NAME", argument::routine)->required();
  return sub;
}

void build_routine(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<routine_options>();
  on_run(*app.add_subcommand("list", "the routines of this repository, yours, and those that are shipped"), cli, [&cli] { return run_list(cli); });
  on_run(*named(app, "show", "what a routine does, and what is wrong with its file", *o), cli, [o, &cli] { return run_show(cli, *o); });
  auto* run = named(app, "run", "make its steps tasks and get them done", *o);
  option(*run, "--set", o->set, "NAME=VALUE of a parameter (repeatable)");
  flag(*run, "--dry-run", o->dry_run, "only show what would be done");
  flag(*run, "--wait", o->wait, "follow all steps to their end and sum them up");
  flag(*run, "--no-spawn", o->no_spawn, "start nobody");
  flag(*run, "--force-spawn", o->force_spawn, "start workers although some are live");
  option(*run, "--harness", o->harness, "agent for every step (what the step names, else $SWARM_WORKER_HARNESS)", argument::harness);
  option(*run, "--parent-task", o->parent, "the task it is part of", argument::task);
  flag(*run, "--fresh", o->fresh, "a new run even while the same one goes on");
  on_run(*run, cli, [o, &cli] { return run_run(cli, *o); });
  auto* trust = named(app, "trust", "let a routine of the repository run as it is now", *o);
  flag(*trust, "--yes", o->yes, "do not ask");
  on_run(*trust, cli, [o, &cli] { return run_trust(cli, *o); });
}

constexpr verb verbs[] = {
  {"routine", subject::tasks, "run named lists of tasks: list, show, run, trust",
   "  swarmctl routine list\n"
   "  swarmctl routine run review-branch --set branch=feature/login --dry-run\n"
   "  swarmctl routine run fix-tests --set command=\"make test\" --harness claude --wait\n"
   "  swarmctl routine trust repository/deploy\n"
   "The same routine with the same parameters is one run while it goes on; --fresh begins another.",
   build_routine, nullptr, "", nullptr, node_choice::current, "routines and what they run are of this one; use swarmctl there"},
};

} // namespace

routines::places places_of(const invocation& cli) {
  return routines::places_of(cli.directory(), cli.node().finder.state_directory(), cli.env().get("SWARM_SHARE"));
}

std::span<const verb> routine_verbs() { return verbs; }

} // namespace swarm::cli
