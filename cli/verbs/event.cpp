// events, subscribe, subscriptions, ack, unsubscribe, wait.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/home_watch.hpp"
#include "cli/verbs/interrupt.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/task_follow.hpp"

namespace swarm::cli {

namespace {

constexpr std::size_t shown_bytes = 160;

std::string shortened(const std::string& text) { return text.size() > shown_bytes ? std::string{utf8_prefix(text, shown_bytes)} + " …" : text; }

/// The text of a member of the payload behind `before`; nothing when it has none.
std::string told(const v1::Event& e, const char* before, const char* member) {
  auto text = domain::text_in(mcp::payload_of(e), member);
  return text.empty() ? std::string{} : before + shortened(text);
}

/// The events that are about no task and no worker, in words. `member` is what the payload says more.
struct event_words {
  std::string_view type;
  const char* words;
  const char* member;
};
constexpr event_words other_words[] = {
  {"instance.registered", "registered", "label"},
  {"instance.deregistered", "has left", "label"},
  {"instance.stale_reclaimed", "was not heard of any more and has ended", "label"}, // told_of_several has those that went with their host
  {"agent.state", "the agent is now", "state"},
  {"approval.requested", "asks for approval", "subject"},
  {"message.sent", "message", "content"},
  {"message.broadcast", "message to all", "content"},
  {"context.lock_acquired", "locked", "content"},
  {"kv.set", "set", "value"},
  {"kv.appended", "appended", "appended"},
  {"kv.deleted", "deleted", "reason"},
};

std::string plain(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// The plain members of a payload for which there are no words.
std::string members_of(const json& payload) {
  std::string out;
  for (const auto& [name, value] : payload.items())
    if (auto text = plain(value); !text.empty() && !value.is_structured() && !value.is_null())
      out += concat({out.empty() ? "" : ", ", name, " ", text});
  return shortened(out);
}

std::string messages_in(const json& payload) {
  auto all = payload.find("messages");
  return counted(all != payload.end() && all->is_array() ? all->size() : 0, "message");
}

/// Those of which one member is not the whole news.
std::string told_of_several(const v1::Event& e) {
  const auto payload = mcp::payload_of(e);
  auto number = [&](const char* name) {
    return payload.is_object() && payload.contains(name) && payload[name].is_number() ? plain(payload[name]) : "";
  };
  if (e.type() == "spawn.running")
    return "the worker runs" + (number("attempt") == "1" ? std::string{} : ", attempt " + number("attempt"));
  if (e.type() == "spawn.ended") // live_line has those that did not end by themselves
    return number("signal") != "0" && !number("signal").empty() ? "worker ended: signal " + number("signal")
                                                                : "worker ended: exit " + number("exit_status");
  if (e.type() == "approval.decided")
    return "decided: " + (payload.value("decision", json{}).is_string() ? payload.value("decision", "") : payload.value("reason", "answered"));
  if (e.type() == "message.delivered")
    return "woken for " + messages_in(payload);
  if (e.type() == "instance.stale_reclaimed" && !mcp::told_end(payload).empty())
    return "has ended, " + mcp::told_end(payload) + told(e, ": ", "label");
  if (e.type() == "context.lock_released")
    return "unlocked" + (mcp::told_end(payload).empty() ? "" : ": " + mcp::told_end(payload));
  if (e.type() == "message.read")
    return "has read " + messages_in(payload);
  return {};
}

/// What happened, in words where there are some; else what the payload says, as much as a line bears.
std::string summary_of(const v1::Event& e) {
  if (auto line = live_line(e); !line.empty())
    return line;
  if (auto line = told_of_several(e); !line.empty())
    return line;
  for (const auto& w : other_words)
    if (w.type == e.type())
      return w.words + told(e, ": ", w.member);
  return members_of(mcp::payload_of(e));
}

/// An id as people read it; a path or a name whole.
std::string subject_text(const std::string& subject) {
  constexpr std::size_t uuid_bytes = 36;
  return subject.empty() ? "-" : subject.size() == uuid_bytes && subject.find('/') == subject.npos ? short_id(subject) : subject;
}

void print_event(invocation& cli, const v1::Event& e) {
  if (cli.json_wanted()) {
    cli.io().print_compact(mcp::event(e));
    return;
  }
  auto& io = cli.io();
  io.painted_line(io.paint(colour::dim, utc(e.at_ms())) + "  " + io.paint(colour::cyan, e.type()) + "  " +
                  io.paint(colour::none, short_id(e.actor()) + "  " + subject_text(e.subject()) + "  " + summary_of(e)));
}

struct event_options {
  bool follow = false;
  std::int64_t since = -1;
  std::vector<std::string> types;
  std::string subject;
  std::string subscription;
  std::int64_t limit = 100;
};

/// Prints what is kept and gives the revision up to which that was.
std::uint64_t print_kept(invocation& cli, const event_options& o) {
  auto query = cli.query();
  auto* body = query.mutable_list_events();
  body->set_after(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  for (const auto& t : o.types)
    body->add_types(t);
  body->set_subject(o.subject);
  body->set_newest(o.since < 0);
  if (o.since < 0)
    body->mutable_page()->set_size(static_cast<std::uint32_t>(o.limit));
  std::uint64_t revision = 0;
  auto take = [&](const v1::Answer& a) {
    revision = std::max(revision, a.revision());
    for (const auto& e : a.events().events())
      print_event(cli, e);
  };
  if (o.since < 0) // the newest are one page
    take(cli.ask(query));
  else
    mcp::each_page(
      std::move(query), [&](const v1::Query& q) { return cli.ask(q); }, take);
  return revision;
}

int run_events(invocation& cli, const event_options& o) {
  if (o.limit < 1 || o.limit > static_cast<std::int64_t>(limits::page_rows_max))
    throw usage("--limit takes 1 to 1000");
  v1::WatchRequest request;
  request.set_scope(cli.scope());
  for (const auto& t : o.types)
    request.add_types(t);
  request.set_subject(o.subject);
  request.set_subscription(o.subscription);
  if (!o.follow) {
    print_kept(cli, o);
    return code::ok;
  }
  if (o.subscription.empty() && o.since < 0)
    request.set_from_now(true);
  else
    request.set_after(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  home_watch home{cli, cli.scope(), [&](const std::string& text) { cli.io().note(text); }};
  auto end = follow_events(
    cli, request, bounded_by_timeout(cli, 0),
    [&](const v1::Event& e) {
      print_event(cli, e);
      return true;
    },
    [&] {
      cli.io().error("events before this point are no longer kept; going on from now");
      return true;
    });
  if (end == follow_end::timed_out)
    throw failure(code::deadline, "stopped following: the time of --timeout is up");
  return end == follow_end::interrupted ? code::interrupted : code::ok;
}

void build_events(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<event_options>();
  flag(app, "--follow", o->follow, "go on with new events until Ctrl-C");
  option(app, "--since", o->since, "events after this revision, which --json shows; 0 = the oldest kept");
  option(app, "--type", o->types, "only types with this prefix (repeatable)");
  option(app, "--subject", o->subject, "only about this id, path or key");
  option(app, "--subscription", o->subscription, "with --follow: start at this named subscription's cursor", argument::subscription);
  option(app, "--limit", o->limit, "without --since: the newest N, 1 to 1000 (100)");
  on_run(app, cli, [o, &cli] { return run_events(cli, *o); });
}

// -- subscriptions ---------------------------------------------------------------------

json subscription_row(const v1::Subscription& s) {
  auto types = json::array();
  for (const auto& t : s.types())
    types.push_back(t);
  return {{"name", s.name()}, {"owner", s.owner()},   {"scope", s.scope()},
          {"types", types},   {"cursor", s.cursor()}, {"updated_at", mcp::seconds(s.updated_at_ms())}};
}

int print_subscription(invocation& cli, const v1::Subscription& s, const char* what) {
  if (cli.json_wanted())
    cli.io().print(subscription_row(s));
  else
    cli.io().line(std::string{what} + " " + s.name() + " (cursor " + std::to_string(s.cursor()) + ")");
  return code::ok;
}

struct subscription_options {
  std::string name;
  std::vector<std::string> types;
  bool from_start = false;
  std::int64_t cursor = 0;
};

int run_subscribe(invocation& cli, const subscription_options& o) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  auto* body = command.mutable_subscribe();
  body->set_name(o.name);
  for (const auto& t : o.types)
    body->add_types(t);
  body->set_from_start(o.from_start);
  return print_subscription(cli, cli.execute(command).subscription(), "subscribed");
}

void build_subscribe(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription, 1 to 128 bytes")->required();
  option(app, "--type", o->types, "only types with this prefix (repeatable)");
  flag(app, "--from-start", o->from_start, "from the oldest event kept instead of from now");
  on_run(app, cli, [o, &cli] { return run_subscribe(cli, *o); });
}

int run_ack(invocation& cli, const subscription_options& o) {
  if (o.cursor < 0)
    throw usage("ack takes the revision up to which everything was taken");
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  command.mutable_ack_subscription()->set_name(o.name);
  command.mutable_ack_subscription()->set_cursor(static_cast<std::uint64_t>(o.cursor));
  return print_subscription(cli, cli.execute(command).subscription(), "acknowledged");
}

void build_ack(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription", argument::subscription)->required();
  option(app, "cursor", o->cursor, "revision up to which everything was taken")->required();
  on_run(app, cli, [o, &cli] { return run_ack(cli, *o); });
}

int run_unsubscribe(invocation& cli, const subscription_options& o) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  command.mutable_unsubscribe()->set_name(o.name);
  auto done = cli.execute(command).done();
  // swarm-mcp claims success.
  if (done.nothing_there() && !cli.is_swarm_mcp())
    throw failure(code::refused, "there is no subscription " + o.name + " here; see: swarmctl subscriptions",
                  json{{"ok", false}, {"name", o.name}, {"unsubscribed", false}});
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"name", o.name}});
  else
    cli.io().line("unsubscribed " + o.name);
  return code::ok;
}

void build_unsubscribe(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription", argument::subscription)->required();
  on_run(app, cli, [o, &cli] { return run_unsubscribe(cli, *o); });
}

/// kind/id, and for the operator the kind alone.
std::string owner_text(std::string owner) {
  if (owner.ends_with('/'))
    owner.pop_back();
  return owner;
}

int run_subscriptions(invocation& cli) {
  auto query = cli.query();
  query.set_viewer(cli.named_actor_id());
  query.mutable_list_subscriptions();
  auto list = cli.ask(query).subscriptions();
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& s : list.subscriptions())
      out.push_back(subscription_row(s));
    cli.io().print(out);
    return code::ok;
  }
  if (list.subscriptions().empty())
    cli.io().line(none_in_scope(cli, "subscriptions"));
  for (const auto& s : list.subscriptions())
    cli.io().line("  " + s.name() + "  cursor=" + std::to_string(s.cursor()) + "  owner=" + owner_text(s.owner()));
  return code::ok;
}

void build_subscriptions(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_subscriptions(cli); });
}

// -- wait --------------------------------------------------------------------------------

struct wait_options {
  double timeout_s = 0;
  bool timeout_given = false;
  bool locks = false;
  std::int64_t since = 0;
};

/// The server waits for a minute at most; asking again with the revision it gave loses nothing in between.
v1::Activity wait_for_activity(invocation& cli, v1::WaitRequest request, std::int64_t timeout_ms) {
  auto began = cli.boot_ms();
  interrupt_guard guard{[&] { cli.node().coordination.cancel(); }};
  for (;;) {
    auto left = timeout_ms == 0 ? limits::server_wait_max().count() : timeout_ms - (cli.boot_ms() - began);
    request.set_timeout_ms(std::clamp<std::int64_t>(left, 1, limits::server_wait_max().count()));
    auto activity = cli.node().coordination.wait_for_activity(request);
    if (activity.has_refusal())
      throw refused(activity.refusal());
    bool over = timeout_ms != 0 && cli.boot_ms() - began >= timeout_ms;
    if (!activity.timed_out() || over)
      return activity;
    request.set_since(activity.revision());
  }
}

int run_wait(invocation& cli, const wait_options& o) {
  auto session = cli.actor();
  v1::WaitRequest request;
  request.set_scope(session.scope());
  request.set_session_id(session.id());
  request.set_since(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  request.set_include_locks(o.locks);
  *request.mutable_caller() = cli.caller();
  // For the node, 0 means without end; a person who gives 0 seconds wants an answer at once.
  constexpr std::int64_t at_once_ms = 1;
  const auto wait_ms = milliseconds_of(o.timeout_s, "--seconds");
  auto activity = wait_for_activity(cli, request, o.timeout_given && wait_ms == 0 ? at_once_ms : bounded_by_timeout(cli, wait_ms));
  if (cli.json_wanted()) {
    cli.io().print(mcp::activity(activity));
  } else if (activity.timed_out()) {
    cli.io().line("No new activity within timeout.");
  } else {
    for (const auto& change : activity.changes())
      cli.io().line(change);
    for (const auto& m : activity.messages())
      cli.io().line("  #" + std::to_string(m.id()) + "  " + short_id(m.sender()) + ": " + m.content());
  }
  return activity.timed_out() ? code::deadline : code::ok;
}

void build_wait(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<wait_options>();
  const auto* seconds = option(app, "--seconds", o->timeout_s, "give up after this many seconds (default: never); --timeout bounds it too");
  flag(app, "--locks", o->locks, "changes of locks count too");
  option(app, "--since", o->since, "also what happened after this revision");
  on_run(app, cli, [o, seconds, &cli] {
    o->timeout_given = seconds->count() > 0;
    return run_wait(cli, *o);
  });
}

constexpr verb verbs[] = {
  {"events", subject::sessions, "list what happened; --follow goes on with what happens",
   "  swarmctl events --follow --type task. --type spawn.\n"
   "  swarmctl events --since 0 --json",
   build_events},
  {"subscribe", subject::sessions, "keep a named position in the events", "  swarmctl subscribe dashboard --type task.", build_subscribe},
  {"subscriptions", subject::sessions, "list the named positions", "  swarmctl subscriptions --json", build_subscriptions},
  {"ack", subject::sessions, "move a named position forward", "  swarmctl ack dashboard 4711", build_ack},
  {"unsubscribe", subject::sessions, "drop a named position", "  swarmctl unsubscribe dashboard", build_unsubscribe},
  {"wait", subject::sessions, "wait for news for this instance; exit 4 if none comes in time", "  swarmctl wait --seconds 60 --json", build_wait,
   "wait-for-activity"},
};

} // namespace

std::span<const verb> event_verbs() { return verbs; }

} // namespace swarm::cli
