// events, subscribe, subscriptions, ack, unsubscribe, wait.
#include "actors/base/limits.hpp"
#include "cli/interrupt.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

void print_event(context& ctx, const v1::Event& e) {
  if (ctx.json_wanted()) {
    ctx.io().print_compact(mcp::event(e));
    return;
  }
  auto& io = ctx.io();
  io.painted_line(
    io.paint(colour::dim, std::to_string(e.revision()) + "  " + utc(e.at_ms())) + "  " + io.paint(colour::cyan, e.type()) + "  " +
    io.paint(colour::none, (e.actor().empty() ? "-" : short_id(e.actor())) + "  " + (e.subject().empty() ? "-" : e.subject()) + "  " + e.payload()));
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
std::uint64_t print_kept(context& ctx, const event_options& o) {
  auto query = ctx.query();
  auto* body = query.mutable_list_events();
  body->set_after(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  for (const auto& t : o.types)
    body->add_types(t);
  body->set_subject(o.subject);
  body->set_newest(o.since < 0);
  if (o.since < 0)
    body->mutable_page()->set_size(static_cast<std::uint32_t>(o.limit));
  std::uint64_t revision = 0;
  auto page_of = [&](const v1::Answer& a) { return o.since < 0 ? v1::Page{} : a.events().page(); };
  ask_pages(
    ctx, query, [](v1::Query& q) { return q.mutable_list_events()->mutable_page(); }, page_of,
    [&](const v1::Answer& a) {
      revision = std::max(revision, a.revision());
      for (const auto& e : a.events().events())
        print_event(ctx, e);
    });
  return revision;
}

int run_events(context& ctx, const event_options& o) {
  if (o.limit < 1 || o.limit > static_cast<std::int64_t>(limits::page_rows_max))
    throw usage("--limit takes 1 to 1000");
  v1::WatchRequest request;
  request.set_scope(ctx.scope());
  for (const auto& t : o.types)
    request.add_types(t);
  request.set_subject(o.subject);
  request.set_subscription(o.subscription);
  if (!o.follow) {
    print_kept(ctx, o);
    return code::ok;
  }
  if (o.subscription.empty() && o.since < 0)
    request.set_from_now(true);
  else
    request.set_after(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  auto end = follow_events(
    ctx, request, bounded_by_timeout(ctx, 0),
    [&](const v1::Event& e) {
      print_event(ctx, e);
      return true;
    },
    [&] {
      ctx.io().error("events before this point are no longer kept; going on from now");
      return true;
    });
  if (end == follow_end::timed_out)
    throw failure(code::deadline, "stopped following: the time of --timeout is up");
  return end == follow_end::interrupted ? code::interrupted : code::ok;
}

void build_events(CLI::App& app, context& ctx) {
  auto o = std::make_shared<event_options>();
  flag(app, "--follow", o->follow, "go on with new events until Ctrl-C");
  option(app, "--since", o->since, "events after this revision; 0 = the oldest kept");
  option(app, "--type", o->types, "only types with this prefix (repeatable)");
  option(app, "--subject", o->subject, "only about this id, path or key");
  option(app, "--subscription", o->subscription, "with --follow: start at this named subscription's cursor");
  option(app, "--limit", o->limit, "without --since: the newest N, 1 to 1000 (100)");
  on_run(app, ctx, [o, &ctx] { return run_events(ctx, *o); });
}

// -- subscriptions ---------------------------------------------------------------------

json subscription_row(const v1::Subscription& s) {
  auto types = json::array();
  for (const auto& t : s.types())
    types.push_back(t);
  return {{"name", s.name()}, {"owner", s.owner()},   {"scope", s.scope()},
          {"types", types},   {"cursor", s.cursor()}, {"updated_at", mcp::seconds(s.updated_at_ms())}};
}

int print_subscription(context& ctx, const v1::Subscription& s, const char* what) {
  if (ctx.json_wanted())
    ctx.io().print(subscription_row(s));
  else
    ctx.io().line(std::string{what} + " " + s.name() + " (cursor " + std::to_string(s.cursor()) + ")");
  return code::ok;
}

struct subscription_options {
  std::string name;
  std::vector<std::string> types;
  bool from_start = false;
  std::int64_t cursor = 0;
};

int run_subscribe(context& ctx, const subscription_options& o) {
  auto command = ctx.command();
  command.set_actor(ctx.named_actor_id());
  auto* body = command.mutable_subscribe();
  body->set_name(o.name);
  for (const auto& t : o.types)
    body->add_types(t);
  body->set_from_start(o.from_start);
  return print_subscription(ctx, ctx.execute(command).subscription(), "subscribed");
}

void build_subscribe(CLI::App& app, context& ctx) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription, 1 to 128 bytes")->required();
  option(app, "--type", o->types, "only types with this prefix (repeatable)");
  flag(app, "--from-start", o->from_start, "from the oldest event kept instead of from now");
  on_run(app, ctx, [o, &ctx] { return run_subscribe(ctx, *o); });
}

int run_ack(context& ctx, const subscription_options& o) {
  if (o.cursor < 0)
    throw usage("ack takes the revision up to which everything was taken");
  auto command = ctx.command();
  command.set_actor(ctx.named_actor_id());
  command.mutable_ack_subscription()->set_name(o.name);
  command.mutable_ack_subscription()->set_cursor(static_cast<std::uint64_t>(o.cursor));
  return print_subscription(ctx, ctx.execute(command).subscription(), "acknowledged");
}

void build_ack(CLI::App& app, context& ctx) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription")->required();
  option(app, "cursor", o->cursor, "revision up to which everything was taken")->required();
  on_run(app, ctx, [o, &ctx] { return run_ack(ctx, *o); });
}

int run_unsubscribe(context& ctx, const subscription_options& o) {
  auto command = ctx.command();
  command.set_actor(ctx.named_actor_id());
  command.mutable_unsubscribe()->set_name(o.name);
  ctx.execute(command);
  if (ctx.json_wanted())
    ctx.io().print({{"ok", true}, {"name", o.name}});
  else
    ctx.io().line("unsubscribed " + o.name);
  return code::ok;
}

void build_unsubscribe(CLI::App& app, context& ctx) {
  auto o = std::make_shared<subscription_options>();
  option(app, "name", o->name, "name of the subscription")->required();
  on_run(app, ctx, [o, &ctx] { return run_unsubscribe(ctx, *o); });
}

/// kind/id, and for the operator the kind alone.
std::string owner_text(std::string owner) {
  if (owner.ends_with('/'))
    owner.pop_back();
  return owner;
}

int run_subscriptions(context& ctx) {
  auto query = ctx.query();
  query.set_viewer(ctx.named_actor_id());
  query.mutable_list_subscriptions();
  auto list = ctx.ask(query).subscriptions();
  if (ctx.json_wanted()) {
    auto out = json::array();
    for (const auto& s : list.subscriptions())
      out.push_back(subscription_row(s));
    ctx.io().print(out);
    return code::ok;
  }
  if (list.subscriptions().empty())
    ctx.io().line("(no subscriptions)");
  for (const auto& s : list.subscriptions())
    ctx.io().line("  " + s.name() + "  cursor=" + std::to_string(s.cursor()) + "  owner=" + owner_text(s.owner()));
  return code::ok;
}

void build_subscriptions(CLI::App& app, context& ctx) {
  on_run(app, ctx, [&ctx] { return run_subscriptions(ctx); });
}

// -- wait --------------------------------------------------------------------------------

struct wait_options {
  double timeout_s = 0;
  bool locks = false;
  std::int64_t since = 0;
};

/// The server waits for a minute at most; asking again with the revision it gave loses nothing in between.
v1::Activity wait_for_activity(context& ctx, v1::WaitRequest request, std::int64_t timeout_ms) {
  auto began = ctx.boot_ms();
  interrupt_guard guard{[&] { ctx.door().coordination.cancel(); }};
  for (;;) {
    auto left = timeout_ms == 0 ? limits::server_wait_max().count() : timeout_ms - (ctx.boot_ms() - began);
    request.set_timeout_ms(std::clamp<std::int64_t>(left, 1, limits::server_wait_max().count()));
    auto activity = ctx.door().coordination.wait_for_activity(request);
    if (activity.has_refusal())
      throw refused(activity.refusal());
    bool over = timeout_ms != 0 && ctx.boot_ms() - began >= timeout_ms;
    if (!activity.timed_out() || over)
      return activity;
    request.set_since(activity.revision());
  }
}

int run_wait(context& ctx, const wait_options& o) {
  auto session = ctx.actor();
  v1::WaitRequest request;
  request.set_scope(session.scope());
  request.set_session_id(session.id());
  request.set_since(static_cast<std::uint64_t>(std::max<std::int64_t>(o.since, 0)));
  request.set_include_locks(o.locks);
  *request.mutable_caller() = ctx.caller();
  auto activity = wait_for_activity(ctx, request, bounded_by_timeout(ctx, milliseconds_of(o.timeout_s, "--seconds")));
  if (ctx.json_wanted()) {
    ctx.io().print(mcp::activity(activity));
  } else if (activity.timed_out()) {
    ctx.io().line("No new activity within timeout.");
  } else {
    for (const auto& change : activity.changes())
      ctx.io().line(change);
    for (const auto& m : activity.messages())
      ctx.io().line("  #" + std::to_string(m.id()) + "  " + short_id(m.sender()) + ": " + m.content());
  }
  return activity.timed_out() ? code::deadline : code::ok;
}

void build_wait(CLI::App& app, context& ctx) {
  auto o = std::make_shared<wait_options>();
  option(app, "--seconds", o->timeout_s, "wait at most this long; 0 = until something happens (0); --timeout bounds it too");
  flag(app, "--locks", o->locks, "changes of locks count too");
  option(app, "--since", o->since, "also what happened after this revision");
  on_run(app, ctx, [o, &ctx] { return run_wait(ctx, *o); });
}

constexpr verb verbs[] = {
  {"events", "what happened, and with --follow what happens",
   "  swarmctl events --follow --type task. --type spawn.\n"
   "  swarmctl events --since 0 --json",
   build_events},
  {"subscribe", "keep a named position in the events", "  swarmctl subscribe dashboard --type task.", build_subscribe},
  {"subscriptions", "list the named positions", "  swarmctl subscriptions --json", build_subscriptions},
  {"ack", "move a named position on", "  swarmctl ack dashboard 4711", build_ack},
  {"unsubscribe", "drop a named position", "  swarmctl unsubscribe dashboard", build_unsubscribe},
  {"wait", "wait until something concerns this instance; exit 4 if nothing did", "  swarmctl wait --seconds 60 --json", build_wait,
   "wait-for-activity"},
};

} // namespace

std::span<const verb> event_verbs() { return verbs; }

} // namespace swarm::cli
