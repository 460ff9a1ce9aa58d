// dispatch: one durable task, a worker for it, and its end (as in swarm-mcp).
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/profile.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/chat_verbs.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/placement.hpp"
#include "cli/verbs/program_io.hpp"
#include "cli/verbs/program_output.hpp"
#include "cli/verbs/reference.hpp"
#include "cli/worktree/store.hpp"
#include "gateway/json/shapes.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

struct dispatch_options {
  std::vector<std::string> title;
  std::string harness, role, type, message, description, key, parent, spawner, label, name, directory;
  std::vector<std::string> files, depends_on, grants;
  placement_options placement;
  std::int64_t priority = 0;
  std::int64_t retries = 0;
  double wait_s = 30;
  double completion_s = 0;
  bool approval_required = false, no_spawn = false, force_spawn = false, fresh = false, detach = false, follow = false, no_nudge = false,
       force = false, worktree = false, pipes = false, quiet = false, no_stdin = false;
  bool structured = false, terminal = false;
  std::string permissions;
  std::vector<std::string> variables;
};

std::string first_of(std::initializer_list<std::string> values) {
  for (const auto& v : values)
    if (!v.empty())
      return v;
  return {};
}

std::string harness_of(const invocation& cli, const dispatch_options& o) {
  if (o.harness.empty() && !cli.tail.empty() && !o.structured)
    return "exec";
  return first_of({o.harness, cli.env().get("SWARM_WORKER_HARNESS"), cli.env().get("SWARM_DISPATCH_HARNESS"), o.structured ? "claude" : ""});
}

/// Whether our standard input becomes the standard input of the command.
bool passes_input(const invocation& cli, const dispatch_options& o) {
  return !cli.tail.empty() && !o.structured && !o.detach && !o.no_stdin && !cli.is_swarm_mcp() && has_standard_input();
}

/// Whether the command's standard input is empty. A person at a terminal may attach to the command and type, and so may others when it is detached.
bool has_no_input(const invocation& cli, const dispatch_options& o) {
  if (cli.tail.empty() || o.structured || cli.is_swarm_mcp())
    return false;
  return o.no_stdin || (!o.detach && !has_standard_input() && isatty(STDIN_FILENO) == 0);
}

/// A digest of the values, which may be secrets.
std::string digest_of(const variables& given) {
  std::string all;
  for (const auto& [name, value] : given)
    all.append(name).append(1, '=').append(value).append(1, '\0');
  return given.empty() ? "" : to_hex(sha256(all));
}

void set_terminal_size(v1::Dispatch& body) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return;
  body.set_columns(size.ws_col);
  body.set_rows(size.ws_row);
}

v1::Command make_command(const invocation& cli, const dispatch_options& o, const std::optional<v1::Session>& session) {
  auto command = cli.command();
  command.set_actor(session ? session->id() : "");
  auto& body = *command.mutable_dispatch();
  body.set_title(joined(o.title));
  body.set_message(o.message);
  body.set_description(o.description);
  body.set_type(o.type);
  body.set_role(o.role);
  for (const auto& f : o.files)
    body.add_files(cli.file(f, session));
  body.set_has_files(!o.files.empty());
  body.set_priority(o.priority);
  for (const auto& id : tasks_named(cli, o.depends_on))
    body.add_depends_on(id);
  body.set_idempotency_key(o.key);
  body.set_parent_task_id(optional_task(cli, o.parent));
  body.set_approval_required(o.approval_required);
  body.set_no_spawn(o.no_spawn);
  body.set_force_spawn(o.force_spawn);
  body.set_spawner(first_of({o.spawner, cli.env().get("SWARM_SPAWNER"), cli.env().get("SWARM_DISPATCH_SPAWNER")}));
  body.set_harness(harness_of(cli, o));
  body.set_label(o.label);
  add_grants(body, o.grants);
  body.set_name(o.name);
  body.set_directory(normalize_path(o.directory.empty() ? "." : o.directory, cli.directory()));
  for (const auto& word : cli.tail)
    body.add_argv(word);
  body.set_retries(retries_of(o.retries));
  body.set_fresh(o.fresh);
  body.set_again_if_unsuccessful(o.key.empty() && !cli.is_swarm_mcp());
  body.set_passes_input(passes_input(cli, o));
  body.set_no_input(has_no_input(cli, o));
  body.set_no_nudge(o.no_nudge);
  body.set_force(o.force);
  body.set_worktree(o.worktree);
  body.set_structured(o.structured);
  body.set_on_terminal(o.terminal);
  body.set_permissions(permissions_of(o.permissions));
  // A terminal would echo the input, and change its line ends.
  body.set_pipes(o.pipes || body.passes_input());
  set_placement(body, o.placement);
  set_terminal_size(body);
  return command;
}

void check_structured(const dispatch_options& o, const std::string& harness) {
  permissions_of(o.permissions);
  // Whether an agent works in a conversation without being told to, its node knows.
  const bool is_none = o.terminal || o.pipes || o.worktree || harness.empty() || harness == "exec";
  if (!o.permissions.empty() && !o.structured && is_none)
    throw usage("--permissions is for a conversation: add --structured");
  if (o.structured && o.terminal)
    throw usage("--structured and --terminal exclude each other");
  if (o.structured && harness == "exec")
    throw usage("--structured is for an agent that speaks its own protocol, and a command does not; leave it out");
  if (o.structured && (o.pipes || o.worktree))
    throw usage("--structured goes with neither --pipes nor --worktree");
}

void check(const invocation& cli, const dispatch_options& o) {
  if (joined(o.title).find_first_not_of(" \t\n") == std::string::npos)
    throw usage("dispatch requires a title");
  if (!o.type.empty() && !domain::valid_task_type(o.type))
    throw usage(domain::invalid_task_type(o.type));
  retries_of(o.retries);
  if (!o.variables.empty() && harness_of(cli, o).empty())
    throw usage("--env is for a worker that is started: name its --harness, or give a command after --");
  auto harness = harness_of(cli, o);
  if (harness == "exec" && cli.tail.empty())
    throw usage("--harness exec needs a command: swarmctl dispatch TITLE --harness exec -- COMMAND ARGUMENT…");
  if (!cli.tail.empty() && !domain::is_harness(harness))
    throw usage("unknown harness " + escape_control(harness, false) + "; known: " + domain::harness_names());
  if (harness != "exec" && !cli.tail.empty() && !o.structured)
    throw usage("a command after -- goes with --harness exec");
  check_structured(o, harness);
  if (o.pipes && harness.empty())
    throw usage("--pipes is for a worker that is started: give a command after --");
  if (o.worktree && harness.empty())
    throw usage("--worktree is for a worker that is started: name its --harness, or give a command after --");
  if (o.detach && o.follow)
    throw usage("--detach and --follow exclude each other");
  // A further attempt would get only what the one before had not read.
  if (o.retries > 0 && passes_input(cli, o))
    throw usage(
      "--retries does not go with standard input, which can be passed once; leave --retries out, or let the command read a file: --no-stdin");
  if (o.detach && !o.no_stdin && !cli.tail.empty() && !o.structured && !cli.is_swarm_mcp() && standard_input_is_waiting())
    throw usage("--detach passes no standard input to the command; leave --detach out, or leave the input: --no-stdin");
}

// -- results -------------------------------------------------------------------------

struct outcome {
  int exit_status = code::ok;
  json details; // exit_status, signal, duration_ms, output_tail, reason of a command; null for other tasks
};

/// Our exit status is that of the worker's command; for a task that ended in another way it is 0 or 1.
outcome outcome_of(const v1::Task& task) {
  mcp::task_follow known;
  known.task = task;
  outcome out{task.status() == v1::DONE ? code::ok : code::refused, known.details()};
  if (!out.details.is_object())
    return out;
  auto number = [&](const char* name) {
    return out.details.contains(name) && out.details[name].is_number_integer() ? out.details[name].get<int>() : 0;
  };
  if (auto signal = number("signal"); signal != 0)
    out.exit_status = 128 + signal;
  else if (auto status = number("exit_status"); status != 0)
    out.exit_status = status;
  return out;
}

/// `output`: what has been printed of it already. Returns the exit status: also a command that succeeded has not when a part of its output is
/// missing.
int print_result(invocation& cli, const v1::Task& task, const outcome& o, shown output) {
  auto& io = cli.io();
  if (output == shown::nothing)
    output = print_output_tail(cli, task);
  if (o.details.is_object())
    io.painted_note(io.paint_note(o.exit_status == code::ok ? colour::green : colour::red,
                                  "task " + task.id() + " " + domain::to_text(task.status()) + ": " + outcome_text(o.details)));
  else if (task.has_result() && !task.result().empty())
    io.text(task.result());
  return output == shown::part && o.exit_status == code::ok ? code::not_whole : o.exit_status;
}

void add_outcome(json& payload, const outcome& o) {
  if (!o.details.is_object())
    return;
  for (const auto& [name, value] : o.details.items())
    payload[name] = value;
}

// -- the parts of the command ----------------------------------------------------------

using mcp::asked_for_worker;

/// `task`: its newest known state.
std::string status_text(const v1::DispatchReply& d, const v1::Task& task) {
  const auto& id = task.id();
  if (task.status() == v1::APPROVAL_REQUIRED)
    return "task " + id + " waits for approval; approve it with: swarmctl approve " + id;
  if (task.status() == v1::BLOCKED && asked_for_worker(d))
    return "task " + id + " waits for others; its worker starts when they are done";
  switch (d.status()) {
    case v1::DispatchReply::DISPATCHED: return "dispatched task " + id + " to " + short_id(d.recipient());
    case v1::DispatchReply::NO_WORKER: return "task " + id + " is on the board; nobody works on it yet. Start somebody: --harness claude";
    case v1::DispatchReply::SPAWN_IN_FLIGHT: return "task " + id + " is ready; spawn already in flight";
    default: return "task " + id + " is ready; a worker was asked for";
  }
}

/// The worktree that the worker has left; nothing when it had none of its own, or changed nothing in it.
std::optional<worker_tree> left_by(const v1::Command& command, const v1::Task& task) {
  const auto& d = command.dispatch();
  return d.worktree() ? find_worker_tree(d.directory(), task.id()) : std::nullopt;
}

void add_worktree(json& payload, const v1::Command& command, const v1::Task& task) {
  if (!command.dispatch().worktree())
    return;
  auto left = left_by(command, task);
  payload["worktree"] = left ? json{{"branch", left->branch}, {"path", left->path}} : json(nullptr);
}

void print_worktree(console& io, const v1::Command& command, const v1::Task& task) {
  if (auto left = left_by(command, task))
    io.note("worktree " + left->path + " (" + left->branch + "); see: swarmctl worktree diff " + short_id(task.id()));
}

/// The reply as JSON. `placement` says why the worker runs on its node, if there was a choice; `retry_of` is the ended task before it.
json payload_of(const v1::DispatchReply& d) {
  auto out = mcp::dispatch(d);
  if (!d.spawn().placement().empty())
    out["placement"] = {{"node_id", d.spawn().node_id()}, {"why", d.spawn().placement()}};
  if (d.has_in_place_of())
    out["retry_of"] = d.in_place_of().id();
  return out;
}

void explain_placement(console& io, const v1::DispatchReply& d) {
  if (!d.has_spawn())
    io.error("no worker was asked for, so none was placed");
  else
    print_placement(io, d.spawn().placement());
}

std::string age_text(const invocation& cli, const v1::Task& task) {
  return duration(std::max<std::int64_t>(cli.now_ms() - task.changed_at_ms(), 0)) + " ago";
}

std::string ended_text(const invocation& cli, const v1::Task& task) {
  return "task " + task.id() + (task.status() == v1::FAILED ? " " : " was ") + domain::to_text(task.status()) + " " + age_text(cli, task);
}

/// " on b in /srv/game": where the worker ran, as far as the caller is not there.
std::string where_text(const invocation& cli, const v1::Command& command, const v1::Spawn& worker) {
  const auto nodes = node_names(cli);
  const auto host = nodes.empty() ? std::string{} : name_of_node(nodes, worker.node_id());
  const auto here = nodes.find("");
  std::string out = here == nodes.end() || host == here->second ? "" : " on " + host;
  if (!worker.directory().empty() && worker.directory() != command.dispatch().directory())
    out += " in " + worker.directory();
  return out;
}

constexpr const char* input_not_passed = "this task was made before: what comes in on standard input is not passed to it";

int already_ended(invocation& cli, const v1::Command& command, const v1::DispatchReply& d) {
  auto o = outcome_of(d.task());
  if (command.dispatch().passes_input() && d.existing())
    cli.io().error(input_not_passed);
  if (cli.json_wanted()) {
    auto payload = payload_of(d);
    add_outcome(payload, o);
    add_worktree(payload, command, d.task());
    cli.io().print(payload);
  } else {
    auto worker = o.details.is_object() ? last_worker(cli, d.task()) : std::nullopt;
    // Also with --quiet: nothing was run, which the result alone does not show.
    if (d.existing())
      cli.io().error(escape_control(
        ended_text(cli, d.task()) + (worker ? where_text(cli, command, *worker) : "") + "; this is its result. Run it again with --new", false));
    else
      cli.io().note("created task " + d.task().id() + ", which is " + domain::to_text(d.task().status()) + " already");
    o.exit_status = print_result(cli, d.task(), o, worker ? print_output(cli, *worker, false) : shown::nothing);
    print_worktree(cli.io(), command, d.task());
  }
  return o.exit_status;
}

/// Nobody can bring the rest of the input that this line passes. Returns why the task was cancelled, or empty.
std::string give_up_input(invocation& cli, const v1::Command& sent, const v1::Task& task, std::optional<program_io>& program) {
  if (program && program->stop_input() != program_io::input_state::broken_off)
    return {};
  auto command = cli.command();
  command.set_actor(sent.actor());
  auto& body = *command.mutable_update_task();
  body.set_task_id(task.id());
  body.set_status(v1::CANCELLED);
  body.set_result("its standard input was broken off");
  body.set_has_result(true);
  try {
    if (!cli.decide(command).has_refusal())
      return "task " + task.id() + " was cancelled, because nobody can bring the rest of its input";
  } catch (const failure&) { // what the caller says next is of the task that goes on
  }
  cli.io().error("the input of task " + task.id() + " was broken off, and its command may wait for the rest");
  return {};
}

int interrupted(const v1::Task& task) {
  throw failure(code::interrupted, "stopped following; task " + task.id() +
                                     " goes on. Follow it again with the same command, or see: swarmctl task " + task.id() +
                                     "; cancel it with: swarmctl cancel " + task.id());
}

/// What has become of the request for a worker.
std::string worker_text(const invocation& cli, const v1::DispatchReply& d, const mcp::task_follow& f) {
  if (!asked_for_worker(d))
    return status_text(d, f.task);
  if (auto error = f.spawn_error(); !error.empty())
    return "spawn failed: " + mcp::end_in_words(error);
  const bool ran_before = d.status() == v1::DispatchReply::SPAWN_IN_FLIGHT && d.spawn().status() == v1::Spawn::RUNNING && !cli.is_swarm_mcp();
  if (f.has_run())
    return (ran_before ? "task " + f.task.id() + " has its worker already" : "spawned worker for task " + f.task.id()) +
           (f.task.assignee().empty() ? "" : " (" + short_id(f.task.assignee()) + ")");
  return status_text(d, f.task);
}

/// The program has ended, and so has the following of its task.
shown end_output(const invocation& cli, program_io& program, const v1::Task& task) {
  const bool complete = program.finish(program_io::patience::with_reader);
  if (program.lost() != 0)
    tell_lost(cli, program.lost());
  if (complete)
    return program.lost() == 0 ? shown::whole : shown::part;
  if (!program.printed())
    return shown::nothing;
  cli.io().error("the rest of the output could not be read; try: swarmctl logs " + short_id(task.id()));
  return shown::part;
}

/// Follows the task until it ends, or until the time of --wait-for-completion or --timeout is over.
int follow_to_end(invocation& cli, const dispatch_options& o, const v1::Command& command, const v1::DispatchReply& d, std::uint64_t revision) {
  follow_options options;
  options.bound = d.spawn().status() == v1::Spawn::RUNNING;
  options.attempt = d.spawn().attempt();
  auto completion_ms = milliseconds_of(o.completion_s, "--wait-for-completion");
  options.timeout_ms = bounded_by_timeout(cli, completion_ms);
  options.quiet = cli.json_wanted();
  std::optional<program_io> program;
  const bool has_output = command.dispatch().harness() == domain::exec_harness && d.has_spawn();
  const bool with_input = command.dispatch().passes_input() && !d.existing();
  if (command.dispatch().passes_input() && d.existing())
    cli.io().error(input_not_passed);
  if (has_output && (with_input || !cli.json_wanted())) {
    options.on_running = [&](std::uint32_t attempt, const printing& around) {
      if (program)
        around([&] { cli.io().note("attempt " + std::to_string(attempt) + " begins; its output follows"); });
      auto to = cli.json_wanted() ? printing{[](const auto&) {}} : around;
      program.emplace(cli, d.spawn().id(), program_io::options{target_of(cli.io(), d.spawn().pipes()), with_input ? d.task().id() : "", to});
    };
    options.on_ended = [&] {
      if (program)
        program->finish();
    };
  }
  auto f = follow_task(cli, d.task(), revision, options);
  bool completed = domain::is_terminal(f.task.status());
  const auto cancelled = with_input && !completed ? give_up_input(cli, command, f.task, program) : std::string{};
  if (f.end == follow_end::interrupted && !cancelled.empty())
    throw failure(code::interrupted, "stopped: " + cancelled);
  if (f.end == follow_end::interrupted)
    interrupted(f.task);
  auto result = outcome_of(f.task);
  auto consumed = completed ? mcp::consume_messages(command, f.task.id(), [&](const v1::Command& c) { return cli.decide(c); }) : json::array();
  if (cli.json_wanted()) {
    auto payload = payload_of(d);
    mcp::add_worker(payload, d, f);
    payload["completion"] = mcp::completion(f, options.timeout_ms, f.waited_ms);
    if (completed && !command.actor().empty())
      payload["consumed_completion_messages"] = consumed;
    add_outcome(payload, result);
    add_worktree(payload, command, f.task);
    cli.io().print(payload);
  } else if (completed) {
    result.exit_status = print_result(cli, f.task, result, program ? end_output(cli, *program, f.task) : shown::nothing);
    print_worktree(cli.io(), command, f.task);
  } else {
    cli.io().error(worker_text(cli, d, f) +
                   (options.timeout_ms == completion_ms ? "; completion wait timed out" : "; the deadline of --timeout passed") + " with task " +
                   domain::to_text(f.task.status()) + (cancelled.empty() ? "" : "; " + cancelled));
  }
  return completed ? result.exit_status : code::deadline;
}

/// A caller that does not follow the task needs its id: it is the only line on stdout, for $(swarmctl dispatch … --detach).
void print_made(invocation& cli, const v1::Task& task, const std::string& what) {
  cli.io().note(what);
  cli.io().line(task.id());
}

/// Waits until the worker runs, as swarm-mcp's spawners do.
int wait_until_bound(invocation& cli, const dispatch_options& o, const v1::DispatchReply& d, std::uint64_t revision) {
  follow_options options;
  options.until = mcp::task_follow::target::worker;
  options.timeout_ms = milliseconds_of(o.wait_s, "--wait");
  options.quiet = true;
  auto running = d.spawn().status() == v1::Spawn::RUNNING;
  followed_task f;
  f.task = d.task();
  f.bound = running;
  if (!running && options.timeout_ms > 0)
    f = follow_task(cli, d.task(), revision, options);
  if (f.end == follow_end::interrupted)
    interrupted(f.task);
  auto error = f.spawn_error();
  bool given_up = error.empty() && !f.has_run() && domain::is_terminal(f.task.status());
  if (cli.json_wanted()) {
    auto payload = payload_of(d);
    mcp::add_worker(payload, d, f);
    cli.io().print(payload);
  } else {
    print_made(cli, f.task,
               given_up ? "task " + f.task.id() + " ended without a worker: " + domain::to_text(f.task.status()) : worker_text(cli, d, f));
  }
  return error.empty() && !given_up ? code::ok : code::refused;
}

int run_dispatch(invocation& cli, const dispatch_options& o) {
  check(cli, o);
  auto requester = cli.named_actor();
  auto command = make_command(cli, o, requester);
  auto& body = *command.mutable_dispatch();
  environment_list environment;
  if (!body.harness().empty()) {
    auto worker = settings_of_worker(cli, requester, body.label(), body.harness(), body.no_spawn() ? "" : body.directory());
    body.set_harness(worker.harness);
    environment = std::move(worker.environment);
    body.set_variables_digest(digest_of(add_variables(environment, cli.env(), o.variables)));
  }
  if (o.quiet)
    cli.io().be_quiet();
  if (o.detach && !o.no_stdin && !cli.tail.empty() && !o.structured && !cli.is_swarm_mcp() && has_standard_input())
    cli.io().note("--detach passes no standard input to the command");
  auto reply = cli.execute(command, environment);
  if (const auto& old = reply.dispatch(); old.has_in_place_of())
    cli.io().note(ended_text(cli, old.in_place_of()) + (old.in_place_of().status() == v1::DONE
                                                          ? "; what comes in on standard input may differ, so this is a new one"
                                                          : "; this is a new one"));
  if (o.no_nudge && reply.dispatch().prompt().message_id() != 0)
    reply.mutable_dispatch()->mutable_prompt()->set_skipped(nudge_off);
  const auto& d = reply.dispatch();
  remember_made(cli, kind_of_thing::task, d.task().scope(), d.task().id());
  if (d.has_spawn())
    remember_made(cli, kind_of_thing::terminal, d.task().scope(), d.spawn().id());
  if (o.placement.explain)
    explain_placement(cli.io(), d);
  if (d.status() == v1::DispatchReply::ALREADY_TERMINAL)
    return already_ended(cli, command, d);
  bool spawned = asked_for_worker(d);
  bool exec = command.dispatch().harness() == "exec";
  bool waits = d.task().status() == v1::BLOCKED || d.task().status() == v1::APPROVAL_REQUIRED;
  if (o.follow || o.completion_s > 0 || (exec && spawned && !o.detach)) {
    if (!cli.json_wanted())
      cli.io().note((d.existing() ? "following task " : "created task ") + d.task().id() + "  " + d.task().title());
    if (!cli.json_wanted() && waits)
      cli.io().note(status_text(d, d.task()));
    return follow_to_end(cli, o, command, d, reply.revision());
  }
  // A task that waits for others or for approval has no worker to wait for.
  if (spawned && !waits)
    return wait_until_bound(cli, o, d, reply.revision());
  if (cli.json_wanted())
    cli.io().print(payload_of(d));
  else
    print_made(cli, d.task(), status_text(d, d.task()));
  return code::ok;
}

void build_dispatch(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<dispatch_options>();
  words(app, "title", o->title, "what is to be done, at most " + byte_count(limits::title_bytes_max()))->required();
  option(app, "--harness", o->harness, domain::harness_names() + "; exec runs the command after --", argument::harness);
  option(app, "--role", o->role, "role of the worker (implementer)");
  option(app, "--type", o->type, "review, implement (default), fix, test, research, other", argument::task_type);
  option(app, "--message", o->message, "instruction for the worker");
  option(app, "--description", o->description, "description of the task, at most " + byte_count(limits::description_bytes_max()));
  option(app, "--file", o->files, "file it concerns (repeatable)", argument::file);
  option(app, "--priority", o->priority, "higher first (0)");
  option(app, "--depends-on", o->depends_on, "tasks it waits for, comma-separated: ids, beginnings of ids, @last", argument::task);
  option(app, "--idempotency-key", o->key, "the same key gives the same task");
  option(app, "--parent-task", o->parent, "the task it is part of", argument::task);
  flag(app, "--approval-required", o->approval_required, "wait until you or a session of its identity approves it");
  flag(app, "--no-spawn", o->no_spawn, "start nobody");
  flag(app, "--force-spawn", o->force_spawn, "start a worker although one is live");
  option(app, "--spawner", o->spawner, "who starts the worker (pty)");
  option(app, "--label", o->label, "more tokens for the worker's label");
  option(app, "--grant", o->grants, grant_help("worker"));
  option(app, "--name", o->name, "name of the worker");
  option(app, "--directory", o->directory, "working directory of the worker (the current one)", argument::directory);
  option(app, "--retries", o->retries, "further attempts when the host loses the process (0)");
  add_placement(app, o->placement);
  flag(app, "--explain", o->placement.explain, "say why the worker runs on the node it does");
  flag(app, "--pipes", o->pipes, "on pipes instead of a terminal; read its output with swarmctl pty read");
  flag(app, "--structured", o->structured,
       "the agent works in a conversation instead of on a terminal; the task is its first prompt; see: swarmctl chat");
  flag(app, "--terminal", o->terminal, "the agent works on a terminal, also where config.toml has [workers] structured = true");
  option(app, "--permissions", o->permissions, std::string{"with --structured: "} + permissions_words, argument::permissions);
  flag(app, "--worktree", o->worktree, "in a git worktree and on a branch of its own; see: swarmctl worktree");
  option(app, "--identity", cli.flags.identity, identity_words);
  option(app, "--env", o->variables, variable_words);
  flag(app, "--no-stdin", o->no_stdin, "no input for the command; without it, a pipe, a file or a device on standard input is passed on");
  flag(app, "--quiet,-q", o->quiet, "the output alone: nothing about what happens, except that a result is an old one");
  flag(app, "--new", o->fresh, "a new task even if the same one exists");
  flag(app, "--detach", o->detach, "return once the worker is bound");
  flag(app, "--follow", o->follow, "show the task to its end");
  option(app, "--wait", o->wait_s, "seconds to wait for the worker to start (30)");
  option(app, "--wait-for-completion,--completion-wait", o->completion_s, "seconds to wait for the end");
  flag(app, "--no-nudge", o->no_nudge, "wake nobody");
  flag(app, "--force", o->force, "wake the worker even while it works");
  on_run(app, cli, [o, &cli] { return run_dispatch(cli, *o); });
}

constexpr verb verbs[] = {
  {"dispatch", subject::start, "make one task, find or start one worker for it, and bring back the result",
   "  swarmctl dispatch \"count the lines\" --harness exec -- sh -c 'wc -l *.cpp'\n"
   "  swarmctl dispatch \"nightly tests\" --harness exec --detach --retries 2 -- make test\n"
   "  swarmctl dispatch \"review the parser\" --role reviewer --file src/parser.cpp --follow\n"
   "  swarmctl dispatch \"fix the failing test\" --harness claude --structured --permissions auto-edit --follow\n"
   "The same line again answers with the same task, unless that failed or was cancelled; --new asks for a fresh one, so a script\n"
   "that must run its command each time passes --new. The exit status is the worker's.",
   build_dispatch, nullptr, "dispatch"},
};

} // namespace

std::span<const verb> dispatch_verbs() { return verbs; }

} // namespace swarm::cli
