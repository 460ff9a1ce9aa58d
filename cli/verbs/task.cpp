// tasks, task, request-task, claim, claim-next, update-task, complete-task, report-progress, approve.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/home_watch.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/program_output.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/task_follow.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace swarm::cli {

namespace {

/// Tasks of people have no session; the assignee's own verbs do.
std::string acting_session(const invocation& cli) { return cli.actor().id(); }

failure task_failure(const v1::Reply& reply, const char* what) {
  auto f = refused(reply);
  failure out{f.exit_status, std::string{what} + " failed: " + f.what(), f.body};
  out.verbatim = true;
  return out;
}

// -- listing -------------------------------------------------------------------------

json cli_task_row(const v1::Task& t) {
  return {{"id", t.id()},
          {"type", t.type()},
          {"title", t.title()},
          {"status", domain::to_text(t.status())},
          {"assignee", mcp::text_or_null(t.assignee())},
          {"requester", t.requester()},
          {"priority", t.priority()},
          {"created_at", mcp::seconds(t.created_at_ms())}};
}

struct tasks_options {
  std::vector<std::string> statuses;
  bool open = false, all_scopes = false, watch = false;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
};

std::vector<v1::TaskStatus> statuses_of(const tasks_options& o) {
  if (o.open && !o.statuses.empty())
    throw usage("--open and --status exclude each other");
  if (o.open)
    return {v1::OPEN, v1::CLAIMED, v1::IN_PROGRESS, v1::BLOCKED, v1::APPROVAL_REQUIRED};
  std::vector<v1::TaskStatus> out;
  for (const auto& word : comma_separated(o.statuses)) {
    out.push_back(domain::task_status_from(word));
    if (out.back() == v1::TASK_STATUS_UNSPECIFIED)
      throw usage("unknown status \"" + word + "\"; one of open, claimed, in_progress, done, failed, cancelled, blocked, approval_required");
  }
  return out;
}

/// In the order they were made; with a limit the newest.
std::vector<v1::Task> tasks_wanted(const invocation& cli, const tasks_options& o) {
  const auto statuses = statuses_of(o);
  std::vector<v1::Task> out;
  if (!o.all_scopes) {
    out = all_tasks(cli, statuses, true);
  } else {
    for (const auto& scope : all_scopes(cli, "tasks"))
      for (auto& task : all_tasks(cli, statuses, true, scope))
        out.push_back(std::move(task));
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      return std::forward_as_tuple(a.created_at_ms(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.id());
    });
  }
  if (out.size() > static_cast<std::size_t>(o.limit))
    out.erase(out.begin(), out.end() - o.limit);
  return out;
}

colour colour_of(v1::TaskStatus status) {
  switch (status) {
    case v1::DONE: return colour::green;
    case v1::FAILED:
    case v1::CANCELLED: return colour::red;
    case v1::BLOCKED:
    case v1::APPROVAL_REQUIRED: return colour::yellow;
    default: return colour::none;
  }
}

std::string tasks_text(const invocation& cli, const tasks_options& o, const std::vector<v1::Task>& tasks) {
  std::vector<std::string> header{"ID", "STATUS", "AGE", "TYPE", "PRIORITY", "ASSIGNEE", "TITLE"};
  if (o.all_scopes)
    header.insert(header.end() - 1, "SCOPE");
  std::vector<std::vector<std::string>> rows;
  std::vector<colour> colours;
  for (const auto& t : tasks) {
    rows.push_back({short_id(t.id()), domain::to_text(t.status()), duration(std::max<std::int64_t>(cli.now_ms() - t.created_at_ms(), 0)), t.type(),
                    std::to_string(t.priority()), short_id(t.assignee()), t.title()});
    if (o.all_scopes)
      rows.back().insert(rows.back().end() - 1, t.scope());
    colours.push_back(colour_of(t.status()));
  }
  return table(cli.io(), header, rows, 1, colours);
}

void print_tasks(invocation& cli, const tasks_options& o) {
  auto tasks = tasks_wanted(cli, o);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& t : tasks)
      out.push_back(cli_task_row(t));
    cli.io().print(out);
  } else if (tasks.empty()) {
    const auto what = o.open ? "open tasks" : o.statuses.empty() ? "tasks" : "tasks of that status";
    cli.io().line(o.all_scopes ? concat({"(no ", what, ")"}) : none_in_scope(cli, what));
  } else {
    cli.io().painted_line(tasks_text(cli, o, tasks));
  }
}

/// Once more with each change, on a terminal in the place of what was there.
int watch_tasks(invocation& cli, const tasks_options& o) {
  if (o.all_scopes || cli.json_wanted())
    throw usage("--watch shows the tasks of one scope, as text; changes as JSON: swarmctl events --follow --type task. --json");
  v1::WatchRequest request;
  request.set_scope(cli.scope());
  request.add_types("task.");
  request.set_from_now(true);
  auto show = [&] {
    if (cli.io().out_is_terminal())
      cli.io().raw("\x1b[H\x1b[2J");
    print_tasks(cli, o);
    return true;
  };
  show();
  home_watch home{cli, cli.scope(), [&](const std::string& text) { cli.io().note(text); }};
  auto end = follow_events(
    cli, request, bounded_by_timeout(cli, 0), [&](const v1::Event&) { return show(); }, show);
  return end == follow_end::interrupted ? code::interrupted : code::ok;
}

int run_tasks(invocation& cli, const tasks_options& o) {
  if (o.limit < 1)
    throw usage("--limit takes a number, 1 or more");
  if (o.watch)
    return watch_tasks(cli, o);
  print_tasks(cli, o);
  return code::ok;
}

void build_tasks(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<tasks_options>();
  flag(app, "--open", o->open, "only those that have not ended");
  option(app, "--status", o->statuses, "only tasks in these statuses, comma-separated", argument::task_status);
  option(app, "--limit", o->limit, "only the newest, at most this many");
  flag(app, "--all-scopes", o->all_scopes, "of every scope");
  flag(app, "--watch", o->watch, "go on showing them as they change");
  on_run(app, cli, [o, &cli] { return run_tasks(cli, *o); });
}

std::string moment(const invocation& cli, std::int64_t ms) {
  const auto ahead = ms - cli.now_ms();
  return utc(ms) + " UTC (" + (ahead > 0 ? "in " + duration(ahead) : duration(-ahead) + " ago") + ")";
}

bool says_nothing(const json& value) {
  if (value.is_string())
    return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_number() && value == 0) || (value.is_array() && value.empty());
}

std::string text_of(const json& value) {
  if (!value.is_array())
    return value.is_string() ? value.get<std::string>() : mcp::dump(value, -1);
  std::string out;
  for (const auto& each : value)
    out += (out.empty() ? "" : ", ") + text_of(each);
  return out;
}

/// Of a command how it ended; its output is for `logs`. The result of other tasks is what somebody wrote.
std::string result_text(const v1::Task& task) {
  mcp::task_follow known;
  known.task = task;
  const auto details = known.details();
  if (!details.is_object())
    return task.result();
  const auto ended = outcome_text(details);
  return (ended.empty() ? "" : ended + "; ") + "its output: swarmctl logs " + short_id(task.id());
}

/// As the row with --json, without what says nothing, and with times and results for people.
void print_task(invocation& cli, const v1::Task& task) {
  const std::map<std::string, std::int64_t> times{{"created_at", task.created_at_ms()},
                                                  {"updated_at", task.updated_at_ms()},
                                                  {"progress_updated_at", task.progress_updated_at_ms()},
                                                  {"expected_next_update_at", task.expected_next_update_at_ms()}};
  const auto row = mcp::task(task);
  for (const auto& [name, value] : row.items()) {
    if (says_nothing(value) || name == "changed_at") // which is updated_at once more
      continue;
    auto time = times.find(name);
    auto text = time != times.end() ? moment(cli, time->second) : name == "result" ? result_text(task) : text_of(value);
    cli.io().painted_line(name + ": " + hanging(text));
  }
}

int run_task(invocation& cli, const std::string& who) {
  auto query = cli.query();
  query.mutable_get_task()->set_task_id(task_named(cli, who));
  auto task = cli.ask(query).task();
  if (cli.json_wanted())
    cli.io().print(mcp::task(task));
  else
    print_task(cli, task);
  return code::ok;
}

void build_task(CLI::App& app, invocation& cli) {
  auto id = std::make_shared<std::string>();
  option(app, "task-id", *id, task_words, argument::task)->required();
  on_run(app, cli, [id, &cli] { return run_task(cli, *id); });
}

// -- asking for work -----------------------------------------------------------------

struct request_options {
  std::string type;
  std::vector<std::string> title;
  std::string description;
  std::vector<std::string> files;
  std::int64_t priority = 0;
  std::vector<std::string> depends_on;
  std::string key;
  std::string parent;
  std::string assignee;
  bool approval_required = false;
  bool no_nudge = false;
  bool force = false;
};

int run_request(invocation& cli, request_options o) {
  if (o.type.empty() && !o.title.empty()) {
    o.type = o.title.front();
    o.title.erase(o.title.begin());
  }
  if (!domain::valid_task_type(o.type))
    throw usage(domain::invalid_task_type(o.type));
  if (joined(o.title).empty())
    throw usage("request-task needs a title");
  auto session = cli.named_actor();
  auto command = cli.command();
  command.set_actor(session ? session->id() : "");
  auto* body = command.mutable_create_tasks();
  body->set_detect_tracker(true);
  body->set_relaxed(true);
  auto* spec = body->add_tasks();
  spec->set_type(o.type);
  spec->set_title(joined(o.title));
  spec->set_description(o.description);
  for (const auto& f : o.files)
    spec->add_files(cli.file(f, session));
  spec->set_has_files(!o.files.empty());
  spec->set_priority(o.priority);
  for (const auto& d : tasks_named(cli, o.depends_on))
    spec->add_depends_on(d);
  spec->set_idempotency_key(o.key);
  spec->set_parent_task_id(optional_task(cli, o.parent));
  if (!o.assignee.empty())
    spec->set_assignee(cli.find(o.assignee).id());
  spec->set_approval_required(o.approval_required);
  auto created = cli.execute(command).tasks_created();
  const auto& task = created.tasks(0).task();
  remember_made(cli, kind_of_thing::task, task.scope(), task.id());
  if (!cli.json_wanted()) {
    cli.io().line(std::string{created.tasks(0).existing() ? "existing" : "created"} + " task " + task.id() + " [" + domain::to_text(task.status()) +
                  "] " + task.title());
    return code::ok;
  }
  json out = {{"id", task.id()}, {"status", domain::to_text(task.status())}};
  if (created.tasks(0).existing())
    out["existing"] = true;
  out["task"] = mcp::task(task);
  if (!created.prompts().empty()) {
    auto prompt = created.prompts(0);
    if (o.no_nudge)
      prompt.set_skipped(nudge_off);
    out["prompt"] = mcp::prompt(prompt);
  }
  cli.io().print(out);
  return code::ok;
}

void build_request(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<request_options>();
  words(app, "title", o->title, "TYPE TITLE…, or with --type just the title")->required();
  option(app, "--type", o->type, domain::task_types_text, argument::task_type);
  option(app, "--description", o->description, "what is to be done, at most " + byte_count(limits::description_bytes_max()));
  option(app, "--file", o->files, "file it concerns (repeatable)", argument::file);
  option(app, "--priority", o->priority, "higher first (0)");
  option(app, "--depends-on", o->depends_on, "tasks it waits for, comma-separated: ids, beginnings of ids, @last", argument::task);
  option(app, "--idempotency-key", o->key, "the same key gives the same task");
  option(app, "--parent-task", o->parent, "the task it is part of", argument::task);
  option(app, "--assignee", o->assignee, "the instance that is to do it", argument::session);
  flag(app, "--approval-required", o->approval_required, "wait until you or a session of its identity approves it");
  flag(app, "--no-nudge", o->no_nudge, "wake nobody");
  flag(app, "--force", o->force, "wake the assignee even while it works");
  on_run(app, cli, [o, &cli] { return run_request(cli, *o); });
}

// -- working -------------------------------------------------------------------------

struct claim_options {
  std::string id;
  bool force = false;
  std::vector<std::string> types;
  std::vector<std::string> files;
};

int run_claim(invocation& cli, const claim_options& o) {
  auto id = task_named(cli, o.id);
  auto command = cli.command();
  command.set_actor(acting_session(cli));
  command.mutable_claim_task()->set_task_id(id);
  command.mutable_claim_task()->set_ignore_unread_messages(o.force);
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "claim");
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"task_id", id}, {"fence", reply.task().task().fence()}});
  else
    cli.io().line("claimed " + id);
  return code::ok;
}

void build_claim(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<claim_options>();
  option(app, "task-id", o->id, task_words, argument::task)->required();
  flag(app, "--force", o->force, "although messages are unread");
  on_run(app, cli, [o, &cli] { return run_claim(cli, *o); });
}

int run_claim_next(invocation& cli, const claim_options& o) {
  auto session = cli.actor();
  auto command = cli.command();
  command.set_actor(session.id());
  auto* body = command.mutable_claim_next_task();
  for (const auto& type : comma_separated(o.types)) {
    if (!domain::valid_task_type(type))
      throw usage(domain::invalid_task_type(type));
    body->add_types(type);
  }
  for (const auto& f : o.files)
    body->add_files(cli.file(f, session));
  body->set_ignore_unread_messages(o.force);
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "claim-next");
  if (cli.json_wanted())
    cli.io().print(mcp::claimed_next(reply.task()));
  else
    cli.io().line("claimed " + reply.task().task().id() + "  " + reply.task().task().title());
  return code::ok;
}

void build_claim_next(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<claim_options>();
  option(app, "--type", o->types, "only these types, comma-separated", argument::task_type);
  option(app, "--file", o->files, "only tasks that name this file (repeatable)", argument::file);
  flag(app, "--force", o->force, "although messages are unread");
  on_run(app, cli, [o, &cli] { return run_claim_next(cli, *o); });
}

struct update_options {
  std::string id;
  std::string status;
  std::string note;
  std::int64_t fence = 0;
};

std::uint64_t fence_of(std::int64_t fence) { return static_cast<std::uint64_t>(std::max<std::int64_t>(fence, 0)); }

int run_update(invocation& cli, const update_options& o) {
  auto status = domain::task_status_from(o.status);
  if (status != v1::DONE && status != v1::FAILED && status != v1::CANCELLED)
    throw usage("update-task requires --status one of done|failed|cancelled");
  auto id = task_named(cli, o.id);
  auto command = cli.command();
  // A person may cancel; done and failed are the assignee's to say.
  command.set_actor(status == v1::CANCELLED ? cli.named_actor_id() : acting_session(cli));
  auto* body = command.mutable_update_task();
  body->set_task_id(id);
  body->set_status(status);
  body->set_result(o.note);
  body->set_has_result(!o.note.empty());
  body->set_fence(fence_of(o.fence));
  body->set_quiet(true);
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "update-task");
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"task_id", id}, {"status", o.status}});
  else
    cli.io().line("task " + id + " -> " + o.status);
  return code::ok;
}

void build_update(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<update_options>();
  option(app, "task-id", o->id, task_words, argument::task)->required();
  option(app, "--status", o->status, "done, failed or cancelled", argument::end_status);
  option(app, "--note", o->note, "the result");
  option(app, "--fence", o->fence, "only while this claim still holds");
  on_run(app, cli, [o, &cli] { return run_update(cli, *o); });
}

struct complete_options {
  std::string id;
  std::string status = "done";
  std::string summary;
  std::vector<std::string> files;
  std::vector<std::string> tests;
  std::vector<std::string> followups;
  std::string tracker;
  std::string tracker_skipped;
  std::int64_t fence = 0;
};

void add_test(v1::CompleteTask& body, const std::string& text) {
  auto colon = text.find(':');
  auto* test = body.add_tests();
  test->set_status(text.substr(0, colon));
  if (colon != std::string::npos)
    test->set_command(text.substr(colon + 1));
  for (auto known : {"passed", "failed", "skipped", "unknown"})
    if (test->status() == known)
      return;
  throw usage("--test takes passed|failed|skipped|unknown[:COMMAND]");
}

std::string json_text(const std::string& text) { return json::accept(text) ? text : json(text).dump(); }

int run_complete(invocation& cli, const complete_options& o) {
  auto status = domain::task_status_from(o.status);
  if (status != v1::DONE && status != v1::FAILED && status != v1::CANCELLED)
    throw usage("complete-task takes --status done|failed|cancelled");
  auto id = task_named(cli, o.id);
  auto session = cli.actor();
  auto command = cli.command();
  command.set_actor(session.id());
  auto* body = command.mutable_complete_task();
  body->set_task_id(id);
  body->set_status(status);
  body->set_summary(o.summary);
  for (const auto& f : o.files)
    body->add_files_changed(cli.file(f, session));
  for (const auto& t : o.tests)
    add_test(*body, t);
  for (const auto& f : o.followups)
    body->add_followups(f);
  if (!o.tracker.empty())
    body->set_tracker_update(json_text(o.tracker)), body->set_has_tracker_update(true);
  if (!o.tracker_skipped.empty())
    body->set_tracker_update_skipped(json_text(o.tracker_skipped)), body->set_has_tracker_update_skipped(true);
  body->set_fence(fence_of(o.fence));
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "complete-task");
  if (cli.json_wanted())
    cli.io().print(mcp::task_completed(reply.task()));
  else
    cli.io().line("task " + id + " -> " + domain::to_text(reply.task().task().status()));
  return code::ok;
}

void build_complete(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<complete_options>();
  option(app, "task-id", o->id, task_words, argument::task)->required();
  option(app, "--status", o->status, "done (default), failed or cancelled", argument::end_status);
  option(app, "--summary", o->summary, "what was done")->required();
  option(app, "--file", o->files, "file changed (repeatable)", argument::file);
  option(app, "--test", o->tests, "STATUS[:COMMAND], repeatable");
  option(app, "--followup", o->followups, "what remains (repeatable)");
  option(app, "--tracker-update", o->tracker, "what was written to the tracker (JSON or text)");
  option(app, "--tracker-update-skipped", o->tracker_skipped, "why nothing was written (JSON or text)");
  option(app, "--fence", o->fence, "only while this claim still holds");
  on_run(app, cli, [o, &cli] { return run_complete(cli, *o); });
}

struct progress_options {
  std::string id;
  std::vector<std::string> summary;
  std::string blocked;
  bool unblocked = false;
  std::int64_t next_at_s = -1;
  std::int64_t fence = 0;
};

int run_progress(invocation& cli, const progress_options& o) {
  auto id = task_named(cli, o.id);
  auto command = cli.command();
  command.set_actor(acting_session(cli));
  auto* body = command.mutable_report_progress();
  body->set_task_id(id);
  body->set_summary(joined(o.summary));
  body->set_blocked_reason(o.blocked);
  body->set_set_blocked_reason(o.unblocked || !o.blocked.empty());
  body->set_expected_next_update_at_ms(std::max<std::int64_t>(o.next_at_s, 0) * 1000);
  body->set_set_expected_next_update_at(o.next_at_s >= 0);
  body->set_fence(fence_of(o.fence));
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "report-progress");
  if (cli.json_wanted())
    cli.io().print(mcp::progress(reply.task()));
  else
    cli.io().line("progress of " + id + ": " + body->summary());
  return code::ok;
}

void build_progress(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<progress_options>();
  option(app, "task-id", o->id, task_words, argument::task)->required();
  words(app, "summary", o->summary, "where the work stands")->required();
  option(app, "--blocked-reason", o->blocked, "what it waits for");
  flag(app, "--unblocked", o->unblocked, "it waits no longer");
  option(app, "--expected-next-update-at", o->next_at_s, "Unix seconds; 0 clears");
  option(app, "--fence", o->fence, "only while this claim still holds");
  on_run(app, cli, [o, &cli] { return run_progress(cli, *o); });
}

int run_approve(invocation& cli, const std::string& who) {
  auto id = task_named(cli, who);
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  command.mutable_approve_task()->set_task_id(id);
  auto reply = cli.decide(command);
  if (reply.has_refusal())
    throw task_failure(reply, "approve");
  if (cli.json_wanted())
    cli.io().print(mcp::approved(reply.task()));
  else
    cli.io().line("approved " + id + " -> " + domain::to_text(reply.task().task().status()));
  return code::ok;
}

void build_approve(CLI::App& app, invocation& cli) {
  auto id = std::make_shared<std::string>();
  option(app, "task-id", *id, task_words, argument::task)->required();
  on_run(app, cli, [id, &cli] { return run_approve(cli, *id); });
}

constexpr verb verbs[] = {
  {"tasks", subject::start, "list tasks in the order they were made",
   "  swarmctl tasks --open\n  swarmctl tasks --status failed,cancelled --limit 10\n  swarmctl tasks --watch", build_tasks},
  {"task", subject::tasks, "show one task", "  swarmctl task @last\n  swarmctl task 93216c19 --json", build_task},
  {"request-task", subject::tasks, "make a task without starting a worker",
   "  swarmctl request-task fix \"parser drops the last line\" --file src/parser.cpp\n"
   "  swarmctl request-task --type test run the suite --depends-on T1,T2",
   build_request},
  {"claim", subject::tasks, "claim a task for this instance", "  swarmctl claim 0b6f…", build_claim},
  {"claim-next", subject::tasks, "claim the most urgent task this instance may do", "  swarmctl claim-next --type fix,test --json", build_claim_next},
  {"update-task", subject::tasks, "end a task: done, failed or cancelled", "  swarmctl update-task 0b6f… --status done --note \"all green\"",
   build_update},
  {"complete-task", subject::tasks, "end a task with a structured result",
   "  swarmctl complete-task 0b6f… --summary \"fixed\" --file src/a.cpp --test passed:ctest", build_complete},
  {"report-progress", subject::tasks, "report a task's progress", "  swarmctl report-progress 0b6f… half of the files done", build_progress},
  {"approve", subject::tasks, "approve a task that waits for approval; a session may do so too, decide is for people", "  swarmctl approve 0b6f…",
   build_approve},
};

} // namespace

std::span<const verb> task_verbs() { return verbs; }

} // namespace swarm::cli
