#include "cli/verbs/follow.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/verbs/home_watch.hpp"
#include "cli/verbs/interrupt.hpp"
#include "gateway/client/failure.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace swarm::cli {

namespace {

using domain::text_in;
using mcp::payload_of;

std::int64_t number_in(const json& object, const char* name) {
  auto i = object.find(name);
  return i != object.end() && i->is_number_integer() ? i->get<std::int64_t>() : 0;
}

v1::Query row_query(const invocation& cli, const v1::Task& task) {
  auto query = cli.query();
  query.set_scope(task.scope());
  query.mutable_get_task()->set_task_id(task.id());
  return query;
}

v1::Task current(const invocation& cli, const v1::Task& task) { return cli.ask(row_query(cli, task)).task(); }

/// A node that comes back with the store of a backup may not know the task, and no event would ever say so.
void refuse_unknown(const invocation& cli, const v1::Task& task) {
  v1::Answer answer;
  try {
    answer = cli.node().coordination.ask(row_query(cli, task));
  } catch (const call_failed&) {
    return; // the stream finds out whether the node is there
  }
  if (answer.refusal().code() == v1::Refusal::NOT_FOUND)
    throw refused(answer.refusal());
}

/// Waits for the node for another deadline; throws when it does not come.
void await_return(const invocation& cli) {
  v1::Query query;
  *query.mutable_caller() = cli.caller();
  query.mutable_get_totals();
  try {
    cli.node().coordination.ask(query);
  } catch (const call_failed& f) {
    if (f.exit_status != code::deadline)
      throw;
    throw failure(code::deadline, "the node went away and did not come back by the deadline; see: swarmctl status");
  }
}

/// A line on the terminal that shows that the command is alive. It is erased before anything else is printed.
class spinner {
public:
  spinner(console& io, bool shown) : io_(io), shown_(shown && io.err_is_terminal()) {}
  bool shown() const noexcept { return shown_; }

  void tick(std::int64_t elapsed_ms) {
    constexpr std::array frames{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    std::lock_guard guard{mutex_};
    io_.raw_error(std::string{"\r\x1b[K"} + frames[frame_++ % frames.size()] + " " + duration(elapsed_ms));
    drawn_ = true;
  }

  void around(const std::function<void()>& print) {
    std::lock_guard guard{mutex_};
    if (std::exchange(drawn_, false))
      io_.raw_error("\r\x1b[K");
    print();
  }

private:
  console& io_;
  bool shown_;
  std::mutex mutex_;
  std::size_t frame_ = 0;
  bool drawn_ = false;
};

/// What the worker asks a person, each once: it waits until somebody hears of it.
class worker_questions {
public:
  using printer = std::function<void(const v1::Approval&)>;
  worker_questions(const invocation& cli, printer print) : cli_(cli), print_(std::move(print)) {}

  /// Those that are open before it is followed.
  void begin(const v1::Task& task) {
    if (!task.assignee().empty() && !domain::is_terminal(task.status()))
      look(task, {});
  }
  void hear(const v1::Event& e, const v1::Task& task) {
    if (e.type() == "approval.requested")
      look(task, e.subject());
  }

private:
  void look(const v1::Task& task, const std::string& id) {
    auto query = cli_.query();
    query.set_scope(task.scope());
    query.mutable_list_approvals()->set_open_only(true);
    query.mutable_list_approvals()->set_id(id);
    const auto answer = cli_.node().coordination.ask(query); // who may not see them is told nothing
    std::optional<std::string> worker;
    for (const auto& a : answer.approvals().approvals()) {
      if (a.decided_at_ms() != 0 || a.kind() == v1::Approval::TASK || a.requested_by().kind() != v1::Principal::SESSION)
        continue;
      if (!worker)
        worker = current(cli_, task).assignee(); // it may have been claimed since
      if (a.requested_by().id() == *worker && shown_.insert(a.id()).second)
        print_(a);
    }
  }

  const invocation& cli_;
  printer print_;
  std::set<std::string> shown_;
};

std::string question_line(const v1::Approval& a) {
  std::string options;
  for (const auto& o : a.options())
    options += (options.empty() ? "" : "|") + o;
  return concat({"asks: ", a.title(), "; answer it: swarmctl decide ", short_id(a.id()), " ", options});
}

colour colour_of(const v1::Event& e) {
  if (e.type() == "spawn.failed")
    return colour::red;
  if (e.type() != "task.updated")
    return colour::none;
  return text_in(payload_of(e), "status") == "done" ? colour::green : colour::red;
}

} // namespace

follow_end follow_events(invocation& cli, v1::WatchRequest request, std::int64_t timeout_ms, const std::function<bool(const v1::Event&)>& on,
                         const std::function<bool()>& on_reset, const std::function<void()>& on_tick, const std::function<void()>& on_lost) {
  std::atomic<bool> late = false;
  auto& coordination = cli.node().coordination;
  interrupt_guard guard{[&] { coordination.cancel(); }};
  constexpr std::int64_t spin_ms = 120;
  ticker timer{on_tick ? spin_ms : 0, on_tick, timeout_ms, [&] {
                 late = true;
                 coordination.cancel();
               }};
  std::optional<std::int64_t> away_since;
  bool go_on = true;
  while (go_on && !guard.interrupted() && !late) {
    auto end = stream_end::stopped;
    try {
      const bool was_lost = away_since.has_value();
      // The stream waits for a node that is away, longer than a deadline may be: only one that does not answer even then is missing.
      if (away_since && static_cast<double>(cli.boot_ms() - *away_since) > cli.flags.timeout_s * 1000) {
        await_return(cli);
        away_since.reset();
      }
      if (was_lost && on_lost)
        on_lost();
      // What cancels meant one of these calls.
      if (guard.interrupted() || late)
        break;
      end = coordination.watch(request, [&](const v1::WatchReply& reply) {
        away_since.reset();
        for (const auto& e : reply.events())
          if (go_on)
            go_on = on(e);
        if (reply.revision() > request.after()) {
          request.set_after(reply.revision());
          request.set_from_now(false);
        }
        return go_on;
      });
    } catch (const failure& f) {
      // Cancelling may have hit a call that `on` made, instead of the stream.
      if (f.exit_status != code::interrupted || (!guard.interrupted() && !late))
        throw;
    }
    if (end == stream_end::not_kept) {
      request.set_after(0);
      request.set_from_now(true);
      go_on = on_reset();
    } else if (end == stream_end::lost) {
      cli.node().finder.expect_return();
      away_since = away_since.value_or(cli.boot_ms());
    }
  }
  if (!go_on)
    return follow_end::finished;
  return guard.interrupted() ? follow_end::interrupted : follow_end::timed_out;
}

std::string live_line(const v1::Event& e) {
  auto p = payload_of(e);
  const auto& type = e.type();
  if (type == "task.created")
    return "created task " + e.subject() + "  " + text_in(p, "title");
  if (type == "spawn.requested")
    return "asked for a worker";
  if (type == "spawn.starting")
    return "spawned worker " + short_id(e.subject()) + " (pid " + std::to_string(number_in(p, "pid")) + ")";
  if (type == "task.claimed" || type == "task.reserved")
    return (type == "task.claimed" ? "claimed by " : "reserved for ") + short_id(type == "task.claimed" ? e.actor() : text_in(p, "assignee"));
  if (type == "task.progress")
    return "progress: " + text_in(p, "summary");
  if (type == "task.reopened")
    return "reopened" + (text_in(p, "reason").empty() ? "" : ": " + mcp::end_in_words(text_in(p, "reason")));
  if (type == "task.approved")
    return "approved, now " + text_in(p, "status");
  if (type == "task.cascade.unblocked")
    return "unblocked";
  if (type == "task.cascade.cancelled")
    return "cancelled: a task it depends on failed";
  if (type == "spawn.failed")
    return "no worker: " + mcp::end_in_words(text_in(p, "reason"));
  if (type == "spawn.ended" && !text_in(p, "reason").empty())
    return "worker ended: " + mcp::told_end(p);
  if (type == "task.updated")
    return text_in(p, "status");
  return {};
}

followed_task follow_task(invocation& cli, v1::Task task, std::uint64_t after, const follow_options& options) {
  followed_task out;
  out.task = std::move(task);
  out.until = options.until;
  out.bound = options.bound;
  auto began = cli.boot_ms();
  // The thread that prints the worker's output may outlive this function, so it shares these.
  auto spin = std::make_shared<spinner>(cli.io(), !options.quiet);
  auto has_printed = std::make_shared<std::atomic<bool>>(false);
  std::uint32_t shown_attempt = 0;
  auto begin_output = [&](std::uint32_t attempt) {
    // An event may be told twice, and be older than the row.
    if (!options.on_running || attempt <= shown_attempt)
      return;
    shown_attempt = attempt;
    options.on_running(attempt, [spin, has_printed](const std::function<void()>& print) {
      *has_printed = true;
      spin->around(print);
    });
  };
  if (out.bound)
    begin_output(options.attempt);
  std::function<void()> tick;
  if (spin->shown())
    tick = [&] {
      if (!*has_printed) // output shows well enough that the command is alive
        spin->tick(cli.boot_ms() - began);
    };
  mcp::follow_port port;
  port.read = [&](const v1::Task& t) { return current(cli, t); };
  port.watch = [&](const v1::WatchRequest& request, const auto& on, const auto& on_reset) {
    home_watch home{cli, out.task.scope(), [&](const std::string& text) { spin->around([&] { cli.io().note(text); }); }};
    out.end = follow_events(cli, request, options.timeout_ms, on, on_reset, tick, [&] { refuse_unknown(cli, out.task); });
    spin->around([] {});
  };
  port.tell = [&](const v1::Event& e) {
    auto& io = cli.io();
    if (options.on_ended && e.type() == "spawn.ended")
      options.on_ended();
    if (auto line = live_line(e); !line.empty() && !options.quiet)
      spin->around([&] { io.painted_note(io.paint_note(colour::dim, utc(e.at_ms()).substr(11)) + "  " + io.paint_note(colour_of(e), line)); });
    if (e.type() == "spawn.running")
      begin_output(static_cast<std::uint32_t>(number_in(payload_of(e), "attempt")));
  };
  worker_questions questions{cli, [&](const v1::Approval& a) {
                               spin->around([&] {
                                 cli.io().painted_note(cli.io().paint_note(colour::dim, utc(a.created_at_ms()).substr(11)) + "  " +
                                                       cli.io().paint_note(colour::yellow, question_line(a)));
                               });
                             }};
  if (!options.quiet && out.until == mcp::task_follow::target::end) {
    questions.begin(out.task);
    port.tell_approval = [&](const v1::Event& e) { questions.hear(e, out.task); };
  }
  mcp::follow(out, after, port);
  out.waited_ms = cli.boot_ms() - began;
  return out;
}

} // namespace swarm::cli
