// spawn, spawns.
#include "actors/base/crypto.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/harness.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/placement.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

json spawn_row(const v1::Spawn& s) {
  bool ended = s.status() == v1::Spawn::ENDED;
  auto argv = json::array();
  for (const auto& word : s.argv())
    argv.push_back(word);
  return {{"id", s.id()},
          {"role", s.role()},
          {"key", s.key()},
          {"intent", mcp::text_or_null(s.intent())},
          {"harness", mcp::text_or_null(s.harness())},
          {"argv", argv},
          {"directory", s.directory()},
          {"node_id", s.node_id()},
          {"placement", mcp::text_or_null(s.placement())},
          {"status", mcp::spawn_status(s.status())},
          {"instance_id", mcp::text_or_null(s.session_id())},
          {"task_id", mcp::text_or_null(s.task_id())},
          {"pty_id", mcp::text_or_null(s.pty_id())},
          {"pid", s.pid()},
          {"exit_status", ended && s.signal() == 0 ? json(s.exit_status()) : json(nullptr)},
          {"signal", ended && s.signal() != 0 ? json(s.signal()) : json(nullptr)},
          {"reason", mcp::text_or_null(s.reason())},
          {"attempt", s.attempt()},
          {"worktree", s.worktree()},
          {"pipes", s.pipes()},
          {"requested_at", mcp::seconds(s.requested_at_ms())},
          {"started_at", mcp::seconds_or_null(s.started_at_ms())},
          {"ended_at", mcp::seconds_or_null(s.ended_at_ms())}};
}

struct spawn_options {
  std::string role = "implementer";
  std::string key, intent, harness, directory, label, task;
  std::vector<std::string> grants, variables;
  placement_options placement;
  bool restart = false, worktree = false, pipes = false;
  std::int64_t retries = 0;
};

int run_spawn(invocation& cli, const spawn_options& o) {
  auto retries = retries_of(o.retries);
  auto harness = o.harness.empty() ? std::string{cli.tail.empty() ? "" : "exec"} : o.harness;
  if (harness.empty())
    throw usage("spawn needs --harness NAME, or a command after --");
  auto command = cli.command();
  auto requester = cli.named_actor();
  command.set_actor(requester ? requester->id() : "");
  auto* body = command.mutable_request_spawn();
  body->set_role(o.role);
  // Without a key every call asks for a worker of its own.
  body->set_key(o.key.empty() ? random_uuid() : o.key);
  body->set_intent(o.intent);
  body->set_directory(normalize_path(o.directory.empty() ? "." : o.directory, cli.directory()));
  auto worker = settings_of_worker(cli, requester, o.label, harness, body->directory());
  body->set_harness(worker.harness);
  for (const auto& word : cli.tail)
    body->add_argv(word);
  body->set_label(o.label);
  add_grants(*body, o.grants);
  body->set_task_id(optional_task(cli, o.task));
  body->set_restart(o.restart);
  body->set_worktree(o.worktree);
  body->set_pipes(o.pipes);
  set_placement(*body, o.placement);
  body->set_retries(retries);
  if (!add_variables(worker.environment, cli.env(), o.variables).empty())
    body->set_here(is_kept_here(cli, o.placement));
  auto reply = cli.execute(command, worker.environment).spawn();
  remember_made(cli, kind_of_thing::terminal, reply.spawn().scope(), reply.spawn().id());
  if (cli.json_wanted()) {
    auto out = spawn_row(reply.spawn());
    out["existing"] = reply.existing();
    cli.io().print(out);
  } else {
    cli.io().line(std::string{reply.existing() ? "existing" : "asked for"} + " worker " + reply.spawn().id() + " [" +
                  mcp::spawn_status(reply.spawn().status()) + "]");
  }
  return code::ok;
}

void build_spawn(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<spawn_options>();
  option(app, "--role", o->role, "role of the worker (implementer)");
  option(app, "--key", o->key, "the same key gives the same worker while it lives and 24 h after");
  option(app, "--intent", o->intent, "what it is for, shown to people");
  option(app, "--harness", o->harness, domain::harness_names(), argument::harness);
  option(app, "--directory", o->directory, "working directory (the current one)", argument::directory);
  option(app, "--label", o->label, "more tokens for its label");
  option(app, "--grant", o->grants, grant_help("worker"));
  option(app, "--task,--task-id", o->task, "the task it is for", argument::task);
  option(app, "--env", o->variables, variable_words);
  add_placement(app, o->placement);
  flag(app, "--pipes", o->pipes, "on pipes instead of a terminal; read its output with swarmctl pty read");
  flag(app, "--worktree", o->worktree, "in a git worktree and on a branch of its own; see: swarmctl worktree");
  flag(app, "--restart", o->restart, "a new process if the last one has ended");
  option(app, "--retries", o->retries, "further attempts when the host loses the process (0)");
  on_run(app, cli, [o, &cli] { return run_spawn(cli, *o); });
}

struct spawns_options {
  bool live = false;
  std::string task;
};

int run_spawns(invocation& cli, const spawns_options& o) {
  auto query = cli.query();
  query.mutable_list_spawns()->set_live_only(o.live);
  query.mutable_list_spawns()->set_task_id(optional_task(cli, o.task));
  const auto spawns = all_rows<v1::Spawn>(cli, std::move(query));
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& s : spawns)
      out.push_back(spawn_row(s));
    cli.io().print(out);
    return code::ok;
  }
  if (spawns.empty()) {
    cli.io().line(none_in_scope(cli, !o.task.empty() ? "such spawns" : o.live ? "live spawns" : "spawns"));
    return code::ok;
  }
  const auto nodes = node_names(cli);
  std::vector<std::string> head{"ID", "STATUS", "HARNESS", "ROLE", "PID", "TASK", "EXIT", "REASON"};
  if (!nodes.empty())
    head.insert(head.begin() + 2, "NODE");
  std::vector<std::vector<std::string>> rows;
  for (const auto& s : spawns) {
    auto how = s.signal() != 0 ? "signal " + std::to_string(s.signal()) : s.exit_status() < 0 ? "lost" : std::to_string(s.exit_status());
    rows.push_back({short_id(s.id()), mcp::spawn_status(s.status()), s.harness().empty() ? "-" : s.harness(), s.role(),
                    s.pid() == 0 ? "-" : std::to_string(s.pid()), short_id(s.task_id()), s.status() == v1::Spawn::ENDED ? how : "-",
                    s.reason().empty() ? "-" : mcp::end_in_words(s.reason())});
    if (!nodes.empty())
      rows.back().insert(rows.back().begin() + 2, name_of_node(nodes, s.node_id()));
  }
  cli.io().painted_line(table(head, rows));
  return code::ok;
}

void build_spawns(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<spawns_options>();
  flag(app, "--live", o->live, "only those that are wanted or run");
  option(app, "--task,--task-id", o->task, "only those for this task", argument::task);
  on_run(app, cli, [o, &cli] { return run_spawns(cli, *o); });
}

constexpr verb verbs[] = {
  {"spawn", subject::workers, "start a worker without a task",
   "  swarmctl spawn --role watcher --key build-watch -- make watch\n"
   "  swarmctl spawn --harness shell --json",
   build_spawn, "request-spawn", "spawn"},
  {"spawns", subject::workers, "list workers: requested, running and ended", "  swarmctl spawns --live --json", build_spawns},
};

} // namespace

std::span<const verb> spawn_verbs() { return verbs; }

} // namespace swarm::cli
