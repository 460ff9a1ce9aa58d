// logs, cancel, retry: what the worker of a task printed, that it goes no further, and that it is done once more.
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/rows.hpp"
#include "actors/domain/rules.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/program_output.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/task_follow.hpp"

#include <algorithm>

namespace swarm::cli {

namespace {

v1::Task task_of(const invocation& cli, const std::string& who) {
  auto query = cli.query();
  query.mutable_get_task()->set_task_id(task_named(cli, who));
  return cli.ask(query).task();
}

/// Nothing for one that is no longer kept.
std::optional<v1::Task> find_task(invocation& cli, const std::string& id) {
  auto query = cli.query();
  query.mutable_get_task()->set_task_id(id);
  auto answer = cli.node().coordination.ask(query);
  if (answer.has_refusal() && answer.refusal().code() != v1::Refusal::NOT_FOUND)
    throw refused(answer.refusal());
  return answer.has_refusal() ? std::nullopt : std::optional{answer.task()};
}

std::string named(const v1::Task& task) { return short_id(task.id()) + " (" + escape_control(task.title(), false) + ")"; }

/// What keeps the task from beginning; empty when nothing does.
std::string obstacle(invocation& cli, const v1::Task& task) {
  if (task.status() == v1::APPROVAL_REQUIRED)
    return "it waits for approval; approve it with: swarmctl approve " + short_id(task.id());
  std::string others;
  if (task.status() == v1::BLOCKED)
    for (const auto& id : task.depends_on())
      if (auto other = find_task(cli, id); other && !domain::is_terminal(other->status()))
        others += (others.empty() ? "it waits for " : ", ") + named(*other);
  return others;
}

/// Of the conversation that does the task, or did it; empty when none did.
std::string conversation_of(const invocation& cli, const v1::Task& task, const std::optional<v1::Spawn>& worker) {
  if (worker && !worker->conversation_id().empty())
    return worker->conversation_id();
  if (worker || task.assignee().empty())
    return {};
  // One that was idle was given it, and its driver was started for something else.
  const auto all = conversations_by_session(cli, task.scope());
  const auto found = all.find(task.assignee());
  return found == all.end() ? std::string{} : found->second.id();
}

// -- logs --------------------------------------------------------------------------------------

struct logs_options {
  std::string who;
  bool follow = false;
};

/// Its terminal is there and empty, as that of a program that had nothing to say.
bool could_not_start(const v1::Spawn& worker) { return worker.status() == v1::Spawn::FAILED && worker.started_at_ms() == 0; }

/// Why there is no output of the task's last worker.
std::string no_output(invocation& cli, const v1::Task& task, const v1::Spawn& worker) {
  if (worker.started_at_ms() != 0)
    return "the output of the worker of task " + task.id() + " is no longer kept";
  if (could_not_start(worker) || domain::is_terminal(task.status()))
    return "the worker of task " + task.id() + " never ran" +
           (worker.reason().empty() ? "" : ": " + escape_control(mcp::end_in_words(worker.reason()), false));
  auto why = obstacle(cli, task);
  return "task " + task.id() + " has not begun" + (why.empty() ? "; its worker is about to start" : ": " + why);
}

int run_logs(invocation& cli, const logs_options& o) {
  auto task = task_of(cli, o.who);
  auto worker = last_worker(cli, task);
  if (const auto conversation = conversation_of(cli, task, worker); !conversation.empty())
    throw failure(code::refused, "the worker of task " + task.id() +
                                   " is a conversation, which prints nothing; see: " + how_to_read(cli, task.scope(), conversation));
  if (!worker)
    throw failure(code::refused, "task " + task.id() + " has had no worker" + (domain::is_terminal(task.status()) ? "" : " yet") +
                                   ", so nothing was printed; see: swarmctl task " + short_id(task.id()));
  if (could_not_start(*worker))
    throw failure(code::refused, no_output(cli, task, *worker));
  auto printed = print_output(cli, *worker, o.follow);
  if (printed == shown::nothing)
    printed = print_output_tail(cli, task);
  if (printed != shown::nothing)
    return printed == shown::whole ? code::ok : code::not_whole;
  require_linked(cli, worker->node_id(), "the output of the worker of task " + task.id());
  throw failure(code::refused, no_output(cli, task, *worker));
}

void build_logs(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<logs_options>();
  option(app, "task", o->who, task_words, argument::task)->required();
  flag(app, "--follow,-f", o->follow, "go on until the program ends");
  on_run(app, cli, [o, &cli] { return run_logs(cli, *o); });
}

// -- cancel ------------------------------------------------------------------------------------

struct cancel_options {
  std::string who;
  std::string note;
};

/// The host of a worker that is not linked hears of the end of its task later, or never. Without an answer the task is cancelled all the same.
void tell_goes_on(const invocation& cli, const v1::Task& task) try {
  const auto worker = is_named_scope(task.scope()) ? last_worker(cli, task) : std::nullopt;
  if (!worker || worker->started_at_ms() == 0)
    return;
  for (const auto& n : away_nodes(cli))
    if (n.id == worker->node_id())
      cli.io().error("its worker is on the host " + n.name + ", which is " + (n.is_out ? "out of the cluster" : "not linked") + " (" + n.state +
                     "): the program goes on there until it ends" + (n.is_out ? "" : " or the host is linked again"));
  if (const auto quiet = silent(cli, worker->node_id()))
    cli.io().error("its worker is on the host " + quiet->name + ", which has said nothing for " + quiet->silent_for +
                   ": the program goes on there until it ends or the host hears of this");
} catch (const failure&) {
}

int run_cancel(invocation& cli, const cancel_options& o) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  auto& body = *command.mutable_update_task();
  body.set_task_id(task_named(cli, o.who));
  body.set_status(v1::CANCELLED);
  body.set_result(o.note);
  body.set_has_result(!o.note.empty());
  auto reply = cli.execute(command);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"task_id", body.task_id()}, {"status", domain::to_text(v1::CANCELLED)}});
  else
    cli.io().line("cancelled " + body.task_id() + "  " + reply.task().task().title());
  tell_goes_on(cli, reply.task().task());
  return code::ok;
}

void build_cancel(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<cancel_options>();
  option(app, "task", o->who, task_words, argument::task)->required();
  option(app, "--note", o->note, "why");
  on_run(app, cli, [o, &cli] { return run_cancel(cli, *o); });
}

// -- retry -------------------------------------------------------------------------------------

/// What the old task had to wait for. Throws `failure` when that can never come.
void add_gates(invocation& cli, const v1::Task& old, v1::Dispatch& body) {
  body.set_approval_required(old.approval_required());
  for (const auto& id : old.depends_on()) {
    auto other = find_task(cli, id);
    if (!other) {
      cli.io().note("task " + id + ", which it depended on, is no longer kept; it does not wait for that");
      continue;
    }
    if (domain::is_terminal(other->status()) && other->status() != v1::DONE)
      throw failure(code::refused, "task " + old.id() + " depends on task " + named(*other) + ", which " +
                                     (other->status() == v1::FAILED ? "failed" : "was cancelled") +
                                     "; retry that one, and dispatch this one again with --depends-on @last");
    body.add_depends_on(id);
  }
}

/// What came with the old worker and is not kept.
void add_losses(invocation& cli, const v1::Spawn& worker, v1::Dispatch& body) {
  if (worker.has_variables())
    cli.io().note("the variables of --env are not kept; it runs without them");
  if (worker.passed_input()) {
    cli.io().note("the standard input of the first worker is not kept; it gets none");
    body.set_no_input(true);
  }
}

/// Whether the worker's process is there; `revision` is that of the answer.
bool is_there(invocation& cli, const v1::Spawn& worker, std::uint64_t& revision) {
  auto query = cli.query();
  query.set_scope(worker.scope());
  query.mutable_list_spawns()->set_task_id(worker.task_id());
  query.mutable_list_spawns()->set_live_only(true);
  const auto answer = cli.ask(query);
  revision = answer.revision();
  const auto& live = answer.spawns().spawns();
  return std::any_of(live.begin(), live.end(), [&](const auto& s) { return s.id() == worker.id() && s.status() != v1::Spawn::REQUESTED; });
}

/// A command that was cancelled is being ended, which takes it seconds at most: the next one is not to meet it in their directory. One on a host that
/// is not linked goes on for longer than anybody would wait.
void await_end_of_command(invocation& cli, const v1::Spawn& worker) {
  std::uint64_t revision = 0;
  if (domain::is_agent(worker.harness()) || !domain::is_live(worker) || !is_there(cli, worker, revision))
    return;
  const auto away = away_nodes(cli);
  if (std::any_of(away.begin(), away.end(), [&](const auto& n) { return n.id == worker.node_id(); }))
    return;
  cli.io().note("the command of the task before is still ending; the next one begins after that");
  v1::WatchRequest request;
  request.set_scope(worker.scope());
  request.set_subject(worker.id());
  request.set_after(revision);
  const auto goes_on = [&] { return is_there(cli, worker, revision); };
  const auto end = follow_events(
    cli, request, milliseconds_of(cli.flags.timeout_s, "--timeout"),
    [](const v1::Event& e) { return e.type() != "spawn.ended" && e.type() != "spawn.failed"; }, goes_on);
  if (end == follow_end::interrupted)
    throw failure(code::interrupted, "");
  if (end == follow_end::timed_out)
    throw failure(code::deadline, "the command of the task before has not ended yet; try again");
}

/// The same task, and the same worker for it when it had one. The environment is that of now.
int run_retry(invocation& cli, const std::string& who) {
  auto old = task_of(cli, who);
  if (!domain::is_terminal(old.status()))
    throw failure(code::refused, "task " + old.id() + " has not ended: it is " + domain::to_text(old.status()) + "; cancel it first, or wait for it");
  auto worker = last_worker(cli, old);
  auto requester = cli.named_actor();
  auto command = cli.command();
  command.set_actor(requester ? requester->id() : "");
  auto& body = *command.mutable_dispatch();
  environment_list environment;
  if (worker) {
    body = domain::dispatch_like(*worker, cli.now_ms());
    environment = settings_of_worker(cli, requester, body.label(), body.harness(), body.directory()).environment;
  }
  body.set_title(old.title());
  body.set_description(old.description());
  body.set_type(old.type());
  body.set_priority(old.priority());
  *body.mutable_files() = old.files();
  body.set_has_files(old.has_files());
  body.set_parent_task_id(old.parent_task_id());
  body.set_retry_of(old.id());
  body.set_fresh(true); // for a home that does not know the line above
  body.set_no_spawn(!worker);
  add_gates(cli, old, body);
  if (worker) {
    add_losses(cli, *worker, body);
    await_end_of_command(cli, *worker);
  }
  auto d = cli.execute(command, environment).dispatch();
  remember_made(cli, kind_of_thing::task, d.task().scope(), d.task().id());
  if (d.has_spawn())
    remember_made(cli, kind_of_thing::terminal, d.task().scope(), d.spawn().id());
  if (cli.json_wanted()) {
    auto out = mcp::dispatch(d);
    out["retry_of"] = old.id();
    cli.io().print(out);
    return code::ok;
  }
  auto why = obstacle(cli, d.task());
  const auto conversation = conversation_of(cli, d.task(), d.has_spawn() ? std::optional{d.spawn()} : std::nullopt);
  const auto logs =
    "see: " + (conversation.empty() ? "swarmctl logs " + short_id(d.task().id()) : how_to_read(cli, d.task().scope(), conversation)) + " -f";
  if (!d.existing())
    cli.io().note("made once more from " + old.id() + "  " + old.title() + "; " + (why.empty() ? logs : why));
  else if (domain::is_terminal(d.task().status()))
    cli.io().note("task " + old.id() + " was made once more already, by this one, which is done; for another run: swarmctl retry " +
                  short_id(d.task().id()));
  else
    cli.io().note("task " + old.id() + " is being made once more already, by this one; " + (why.empty() ? logs : why));
  cli.io().line(d.task().id());
  return code::ok;
}

void build_retry(CLI::App& app, invocation& cli) {
  auto who = std::make_shared<std::string>();
  option(app, "task", *who, task_words, argument::task)->required();
  on_run(app, cli, [who, &cli] { return run_retry(cli, *who); });
}

constexpr verb verbs[] = {
  {"logs", subject::tasks, "print what the worker of a task has printed", "  swarmctl logs @last -f\n  swarmctl logs 93216c19 | less", build_logs},
  {"cancel", subject::tasks, "cancel a task; its worker ends", "  swarmctl cancel @last --note \"not needed any more\"", build_cancel},
  {"retry", subject::tasks, "make a task that has ended once more, with a worker like its last one", "  swarmctl retry 93216c19", build_retry},
};

} // namespace

std::span<const verb> task_worker_verbs() { return verbs; }

} // namespace swarm::cli
