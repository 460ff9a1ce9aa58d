// locks, lock, lock verify, unlock.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/interrupt.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

struct lock_options {
  std::vector<std::string> args; // FILE, or "verify FILE"
  std::string note;
  std::string task;
  bool exclusive = false;
  double wait_s = 0;
  double ttl_s = 0;
  std::int64_t fence = 0;
};

std::string flag_again(const char* name, const std::string& value) {
  return value.empty() ? "" : concat({" ", name, " ", shell_quoted(escape_control(value, false))});
}

failure lock_failure(const invocation& cli, const v1::Session& session, const v1::Reply& reply, const std::string& path) {
  auto one_line = [](const std::string& foreign) { return escape_control(foreign, false); };
  auto text = "lock failed: " + one_line(text_for_people(reply.refusal()));
  const auto& active = reply.lock().active();
  if (reply.lock().has_active() && active.lock().session_id() == session.id()) {
    text += "; you hold it yourself, and --exclusive was given";
  } else if (reply.lock().has_active() && active.hidden()) {
    if (reply.refusal().code() == v1::Refusal::CONFLICT)
      text += " by a session of another identity, which is not shown";
  } else if (reply.lock().has_active()) {
    text += "; ";
    if (active.in_line())
      text += one_line(holder_of(active)) + " stands in line for " + one_line(active.lock().path()) + " and comes first";
    else
      text += (active.lock().path() == path ? "" : one_line(active.lock().path()) + " is ") + "held by " + one_line(holder_of(active));
    if (!active.lock().note().empty())
      text += " (" + one_line(active.lock().note()) + ")";
    text += ". Wait in line with: swarmctl lock " + shell_quoted(one_line(path)) + " --wait SECONDS" + flag_again("--as", cli.flags.as) +
            flag_again("--scope", cli.flags.scope);
  }
  failure f{exit_code_of(reply.refusal().code()), text, mcp::lock_reply(reply, cli.now_ms())};
  f.verbatim = true;
  return f;
}

/// What becomes of a place that could not be given up.
std::string left_behind(const failure& f, const std::string& path) {
  const auto grace = duration(limits::restart_grace().count());
  const auto stays = f.node_stopped ? "goes " + grace + " after the node's next start" : std::string{"stays for the rest of --wait"};
  return "; the place in line " + stays + ". If the lock is granted meanwhile, it is given back after " + grace + ", or with: swarmctl unlock " +
         escape_control(path, false);
}

/// What is left of the place; empty when it was given up.
std::string give_up_place(const invocation& cli, const v1::Command& waiting) {
  auto command = waiting;
  const auto path = waiting.acquire_lock().path();
  command.mutable_cancel_lock_wait()->set_path(path);
  try {
    cli.decide(command);
    return {};
  } catch (const failure& f) {
    return "; " + std::string{f.what()} + left_behind(f, path);
  }
}

/// A caller that stops waiting, by Ctrl-C or by the deadline, leaves the line.
v1::Reply acquire(const invocation& cli, const v1::Command& command) {
  if (command.acquire_lock().wait_ms() == 0)
    return cli.decide(command);
  interrupt_guard guard{[&] { cli.node().coordination.cancel(); }};
  try {
    auto reply = cli.decide(command, {}, command.acquire_lock().wait_ms());
    if (reply.has_lock_waiting())
      throw failure(code::deadline, "still in line for " + command.acquire_lock().path() + " at the deadline");
    return reply;
  } catch (const failure& f) {
    const auto& path = command.acquire_lock().path();
    if (guard.interrupted())
      throw failure(code::interrupted, "stopped waiting for " + path + give_up_place(cli, command));
    if (f.exit_status == code::deadline)
      throw failure(code::deadline, f.what() + give_up_place(cli, command));
    if (f.exit_status == code::no_node)
      throw failure(code::no_node, f.what() + left_behind(f, path));
    throw;
  }
}

int run_lock(invocation& cli, const lock_options& o, const std::string& name) {
  auto session = cli.actor();
  auto command = cli.command();
  command.set_actor(session.id());
  auto* body = command.mutable_acquire_lock();
  body->set_path(cli.lock_file(name, session, true));
  body->set_note(o.note);
  body->set_task_id(optional_task(cli, o.task));
  body->set_exclusive(o.exclusive);
  body->set_wait_ms(milliseconds_of(o.wait_s, "--wait", limits::lock_wait_max()));
  body->set_ttl_ms(milliseconds_of(o.ttl_s, "--ttl", limits::lock_ttl_max()));
  auto reply = acquire(cli, command);
  if (reply.has_refusal())
    throw lock_failure(cli, session, reply, name);
  const auto& lock = reply.lock().lock();
  if (!cli.json_wanted()) {
    cli.io().line("locked " + lock.path());
    return code::ok;
  }
  auto out = mcp::lock_reply(reply, cli.now_ms());
  out["file"] = lock.path();
  out["fence"] = lock.fence();
  if (lock.deadline_ms() != 0)
    out["expires_at"] = mcp::seconds(lock.deadline_ms());
  cli.io().print(out);
  return code::ok;
}

int run_verify(invocation& cli, const lock_options& o, const std::string& name) {
  if (o.fence <= 0)
    throw usage("lock verify needs --fence N, the number that `lock --json` gave");
  auto query = cli.query();
  query.mutable_verify_lock()->set_path(cli.lock_file(name, cli.named_actor()));
  query.mutable_verify_lock()->set_fence(static_cast<std::uint64_t>(o.fence));
  auto verified = cli.ask(query).lock_verified();
  auto file = query.verify_lock().path();
  json out = {{"ok", verified.valid()}, {"file", file}, {"fence", o.fence}};
  if (verified.has_lock())
    out["current_fence"] = verified.lock().fence();
  if (!verified.valid()) {
    failure f{code::refused, "fence " + std::to_string(o.fence) + " no longer holds " + file + "; lock it again before you write", out};
    throw f;
  }
  if (cli.json_wanted())
    cli.io().print(out);
  else
    cli.io().line("valid: fence " + std::to_string(o.fence) + " holds " + file);
  return code::ok;
}

void build_lock(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<lock_options>();
  words(app, "file", o->args, "file to lock; or: verify FILE --fence N", argument::file)->required();
  option(app, "--note", o->note, "why, shown to others");
  option(app, "--task,--task-id", o->task, "tag with a task of yours; released when you end it", argument::task);
  flag(app, "--exclusive", o->exclusive, "refuse even if this instance holds it already");
  option(app, "--wait", o->wait_s, "seconds to wait in line");
  option(app, "--ttl", o->ttl_s, "seconds after which the lock ends by itself; 0 = it does not");
  option(app, "--fence", o->fence, "with verify: fencing number to check");
  on_run(app, cli, [o, &cli] {
    // A file may be called "verify": then it is the only word.
    bool verify = o->args.size() == 2 && o->args[0] == "verify";
    if (o->args.size() > 1 && !verify)
      throw usage("lock takes one file");
    return verify ? run_verify(cli, *o, o->args[1]) : run_lock(cli, *o, o->args[0]);
  });
}

struct unlock_options {
  std::string file;
  std::int64_t fence = 0;
};

/// Nothing was released; says who has it instead.
failure not_held(const invocation& cli, const v1::Session& session, const std::string& path) {
  auto query = cli.query();
  query.mutable_get_lock()->set_path(path);
  const auto answer = cli.ask(query).lock();
  const auto& shown = answer.path();
  auto me = session.label().empty() ? short_id(session.id()) : session.label();
  auto text = me + " does not hold " + shown;
  if (!answer.has_active())
    text += "; nobody does";
  else if (answer.active().lock().session_id() != session.id())
    text += "; " + escape_control(holder_of(answer.active()), false) + " does";
  else
    text += ", but " + escape_control(answer.active().lock().path(), false);
  return {code::refused, text, json{{"ok", false}, {"file", shown}, {"released", false}}};
}

int run_unlock(invocation& cli, const unlock_options& o) {
  if (trimmed(o.file).empty() && !cli.is_swarm_mcp())
    throw usage("the name of the file is empty; to unlock this directory, name it: .");
  auto session = cli.actor();
  auto command = cli.command();
  command.set_actor(session.id());
  auto* body = command.mutable_release_lock();
  const auto followed = cli.lock_file(o.file, session);
  // First by the name as it is given: a symbolic link may have taken the place of what was locked.
  const auto given = cli.file(o.file, session);
  body->set_path(given);
  body->set_fence(static_cast<std::uint64_t>(std::max<std::int64_t>(o.fence, 0)));
  auto reply = cli.execute(command);
  if (!reply.lock().released() && given != followed) {
    body->set_path(followed);
    reply = cli.execute(command);
  }
  // swarm-mcp claims success.
  if (!reply.lock().released() && !cli.is_swarm_mcp())
    throw not_held(cli, session, body->path());
  const auto& path = reply.lock().released() ? reply.lock().lock().path() : body->path();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"file", path}});
  else
    cli.io().line("unlocked " + path);
  return code::ok;
}

void build_unlock(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<unlock_options>();
  option(app, "file", o->file, "file to unlock", argument::file)->required();
  option(app, "--fence", o->fence, "release only the grant with this fencing number");
  on_run(app, cli, [o, &cli] { return run_unlock(cli, *o); });
}

/// For how long it has been held, until when it is, and who waits; empty when nothing is known.
std::string state_of(const v1::LockView& view, std::int64_t now_ms) {
  std::string facts;
  auto add = [&](const std::string& fact) { facts += (facts.empty() ? " (" : ", ") + fact; };
  if (auto since = view.lock().created_at_ms(); since != 0)
    add("held for " + duration(std::max<std::int64_t>(now_ms - since, 0)));
  if (auto ends = view.lock().deadline_ms(); ends != 0)
    add("ends in " + duration(std::max<std::int64_t>(ends - now_ms, 0)));
  if (view.waiters() != 0)
    add(std::to_string(view.waiters()) + " waiting");
  return facts.empty() ? facts : facts + ")";
}

int run_locks(invocation& cli) {
  auto locks = all_locks(cli, cli.flags.as.empty() ? "" : cli.find(cli.flags.as).id());
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& view : locks)
      out.push_back(lock_row(view));
    cli.io().print(out);
    return code::ok;
  }
  if (locks.empty())
    cli.io().line(none_in_scope(cli, "locks"));
  for (const auto& view : locks) {
    auto who = holder_of(view);
    if (const auto& pane = view.owner().workspace().pane_id(); !pane.empty())
      who += " (pane " + pane + ")";
    cli.io().painted_line("  " + cli.io().paint(colour::cyan, who) + "  " + cli.io().paint(colour::none, view.lock().path()) +
                          (view.lock().note().empty() ? "" : "  — " + cli.io().paint(colour::dim, view.lock().note())) +
                          cli.io().paint(colour::yellow, state_of(view, cli.now_ms())));
  }
  return code::ok;
}

void build_locks(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_locks(cli); });
}

constexpr verb verbs[] = {
  {"locks", subject::locks, "list the locks of the scope; --as WHO shows one holder's", "  swarmctl locks --json", build_locks},
  {"lock", subject::locks, "lock a file, or wait in line for it; check a fence",
   "  swarmctl lock src/a.cpp --note \"renaming foo\"\n"
   "  swarmctl lock src/a.cpp --wait 60 --ttl 300 --json\n"
   "  swarmctl lock verify src/a.cpp --fence 7",
   build_lock},
  {"unlock", subject::locks, "release a lock of this instance", "  swarmctl unlock src/a.cpp", build_unlock},
};

} // namespace

std::span<const verb> lock_verbs() { return verbs; }

} // namespace swarm::cli
