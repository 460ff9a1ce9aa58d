// messages, send, broadcast, prompt-peer, resolve-workspace-handle.
#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/sender_name.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/mcp/workspace.hpp"
#include "gateway/session/nudge.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace swarm::cli {

namespace {

constexpr std::string_view person = "operator";

/// Whom mail is for: a session, or the person who runs the node.
std::string recipient_named(const invocation& cli, const std::string& who) { return who == person && !cli.is_swarm_mcp() ? who : cli.find(who).id(); }

/// Whom mail is from: a session, or a sender that is no session.
std::string sender_named(const invocation& cli, const std::string& who) {
  return domain::is_reserved_sender(who) && !cli.is_swarm_mcp() ? who : cli.find(who).id();
}

struct list_options {
  std::string to;
  std::string from;
  std::int64_t limit = 50;
  bool mine = false, follow = false, all_scopes = false, ack = false;
};

void print_message(const invocation& cli, const v1::Message& m, const std::string& to) {
  auto head = std::string{m.read() ? "  " : "* "} + "#" + std::to_string(m.id()) + "  " + utc(m.created_at_ms()) + "  " + short_id(m.sender()) + to;
  cli.io().painted_line(cli.io().paint(m.read() ? colour::dim : colour::bold, head));
  cli.io().painted_line("    " + hanging(m.content()));
}

// -- the mail of the person at this terminal ---------------------------------------------------

class inbox {
public:
  inbox(invocation& cli, const list_options& o) : cli_(cli), o_(o), acknowledges_(o.ack || (cli.io().out_is_terminal() && !cli.json_wanted())) {}

  int run() {
    if (o_.follow)
      return follow();
    auto messages = all();
    if (cli_.json_wanted()) {
      auto out = json::array();
      for (const auto& m : messages)
        out.push_back(row(m));
      cli_.io().print(out);
      return code::ok;
    }
    for (const auto& m : messages)
      show(m);
    if (messages.empty())
      cli_.io().line(o_.all_scopes ? "(no messages for you)" : none_in_scope(cli_, "messages for you"));
    return code::ok;
  }

private:
  std::vector<std::string> scopes() const {
    if (!o_.all_scopes)
      return {cli_.scope()};
    return all_scopes(cli_, "messages");
  }

  std::vector<v1::Message> all() {
    std::vector<v1::Message> out;
    for (const auto& scope : scopes())
      for (auto& m : of_scope(scope))
        out.push_back(std::move(m));
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      return std::forward_as_tuple(a.created_at_ms(), a.scope(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.scope(), b.id());
    });
    return out;
  }

  /// Oldest first, those that count as read from now on shown as unread. Only what is shown is marked.
  std::vector<v1::Message> of_scope(const std::string& scope) {
    std::map<std::uint64_t, v1::Message> out;
    for (bool more = acknowledges_; more;) {
      auto command = cli_.command();
      command.set_scope(scope);
      command.mutable_consume_messages()->set_limit(limits::consumed_messages_max);
      auto taken = cli_.execute(command).messages();
      more = !taken.messages().empty();
      for (auto& m : *taken.mutable_messages()) {
        m.set_read(false);
        out.emplace(m.id(), std::move(m));
      }
    }
    auto query = cli_.query();
    query.set_scope(scope);
    query.mutable_list_messages()->set_to(std::string{person});
    query.mutable_list_messages()->set_limit(limit_);
    auto answer = cli_.ask(query);
    revision_ = std::max(revision_, answer.revision());
    for (auto& m : *answer.mutable_messages()->mutable_messages())
      out.emplace(m.id(), std::move(m));
    std::vector<v1::Message> rows;
    rows.reserve(out.size());
    for (auto& [id, m] : out)
      rows.push_back(std::move(m));
    return rows;
  }

  json row(const v1::Message& m) const {
    auto out = message_row(m);
    if (o_.all_scopes)
      out["scope"] = m.scope();
    return out;
  }

  void show(const v1::Message& m) const {
    if (cli_.json_wanted() && o_.follow)
      cli_.io().print_compact(row(m));
    else
      print_message(cli_, m, o_.all_scopes ? "  " + m.scope() : "");
  }

  int follow() {
    std::uint64_t shown = 0;
    auto show_new = [&] {
      for (const auto& m : of_scope(cli_.scope()))
        if (m.id() > shown) {
          show(m);
          shown = m.id();
        }
      return true;
    };
    show_new();
    limit_ = limits::messages_listed_max; // none of what comes is passed over
    v1::WatchRequest request;
    request.set_scope(cli_.scope());
    request.set_subject(std::string{person});
    request.add_types("message.sent");
    request.set_after(revision_);
    request.set_from_now(revision_ == 0);
    auto end = follow_events(
      cli_, request, bounded_by_timeout(cli_, 0), [&](const v1::Event&) { return show_new(); }, show_new);
    return end == follow_end::interrupted ? code::interrupted : code::ok;
  }

  invocation& cli_;
  const list_options& o_;
  const bool acknowledges_;
  std::uint32_t limit_ = static_cast<std::uint32_t>(o_.limit);
  std::uint64_t revision_ = 0; // of the newest list
};

int run_inbox(invocation& cli, const list_options& o) {
  if (!o.to.empty() || !o.from.empty())
    throw usage("--mine shows what was written to the operator; --to and --from do not go with it");
  if (cli.env().in_worker() || !cli.named_actor_id().empty())
    throw usage("--mine is the mail of the person at a terminal; an instance's is: swarmctl messages --to ID");
  if (o.follow && o.all_scopes)
    throw usage("--follow follows the mail of one scope");
  return inbox{cli, o}.run();
}

int run_messages(invocation& cli, const list_options& o) {
  if (o.limit < 1 || o.limit > 1000)
    throw usage("--limit takes 1 to 1000");
  if (o.mine)
    return run_inbox(cli, o);
  if (o.follow || o.all_scopes || o.ack)
    throw usage("--follow, --all-scopes and --ack go with --mine");
  auto query = cli.query();
  auto* body = query.mutable_list_messages();
  if (!o.to.empty())
    body->set_to(recipient_named(cli, o.to));
  if (!o.from.empty())
    body->set_from(sender_named(cli, o.from));
  body->set_limit(static_cast<std::uint32_t>(o.limit));
  auto messages = cli.ask(query).messages();
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& m : messages.messages())
      out.push_back(message_row(m));
    cli.io().print(out);
    return code::ok;
  }
  if (messages.messages().empty())
    cli.io().line(none_in_scope(cli, o.to.empty() && o.from.empty() ? "messages" : "such messages"));
  for (const auto& m : messages.messages())
    print_message(cli, m, " → " + short_id(m.recipient()));
  return code::ok;
}

void build_messages(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<list_options>();
  option(app, "--to", o->to, "only to this instance", argument::session);
  option(app, "--from", o->from, "only from this instance, or from operator, orphan or system", argument::session);
  option(app, "--limit", o->limit, "the newest N, 1 to 1000 (50)");
  flag(app, "--mine", o->mine, "what was written to you, the operator; showing it on a terminal marks it as read");
  flag(app, "--follow", o->follow, "with --mine: and what comes, until Ctrl-C; with --json one line each");
  flag(app, "--all-scopes", o->all_scopes, "with --mine: of every scope");
  flag(app, "--ack", o->ack, "with --mine: mark it as read also when the output is no terminal");
  on_run(app, cli, [o, &cli] { return run_messages(cli, *o); });
}

struct text_options {
  std::string to;
  std::vector<std::string> text;
};

/// An unset variable of a script is no message. swarm-mcp sends it.
std::string message_of(const invocation& cli, const text_options& o) {
  auto text = joined(o.text);
  if (!cli.is_swarm_mcp() && text.find_first_not_of(" \t\n") == std::string::npos)
    throw usage("the message is empty");
  return text;
}

std::string sender_of(const v1::Command& command) { return command.actor().empty() ? "operator" : command.actor(); }

int run_send(invocation& cli, const text_options& o) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  auto* body = command.mutable_send_message();
  body->set_recipient(recipient_named(cli, o.to));
  body->set_content(message_of(cli, o));
  body->set_relaxed(true);
  auto recipient = body->recipient();
  // Inside a worker the node knows better than the command who sends.
  auto sender = cli.execute(command).message_sent().prompt().sender();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"sender", sender}, {"recipient", recipient}, {"scope", command.scope()}});
  else
    cli.io().line("sent " + short_id(sender) + " → " + short_id(recipient));
  return code::ok;
}

void build_send(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<text_options>();
  option(app, "--to", o->to, "recipient: " + who_words + "; operator = the person at a terminal", argument::session)->required();
  words(app, "text", o->text, "the message")->required();
  on_run(app, cli, [o, &cli] { return run_send(cli, *o); });
}

int run_broadcast(invocation& cli, const text_options& o) {
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  command.mutable_broadcast()->set_content(message_of(cli, o));
  // swarm-mcp leaves out those that no process has adopted.
  command.mutable_broadcast()->set_to_leased(!cli.is_swarm_mcp());
  auto count = cli.execute(command).broadcast_sent().recipients();
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"sender", sender_of(command)}, {"scope", command.scope()}, {"count", count}});
  else
    cli.io().line("broadcast to " + std::to_string(count) + " recipient(s)");
  return code::ok;
}

void build_broadcast(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<text_options>();
  words(app, "text", o->text, "the message")->required();
  on_run(app, cli, [o, &cli] { return run_broadcast(cli, *o); });
}

struct prompt_options {
  std::string to;
  std::string message;
  std::string task;
  bool force = false;
  bool no_nudge = false;
  std::vector<std::string> text; // positional form: WHO TEXT…
};

bool was_nudged(invocation& cli, const std::string& scope, const v1::PromptResult& prompt, std::uint64_t revision) {
  auto told = false;
  auto look = [&] {
    auto query = cli.query();
    query.set_scope(scope);
    mcp::ask_for_nudge(query, prompt);
    told = mcp::was_nudged(cli.ask(query), prompt);
    return !told;
  };
  try {
    follow_events(
      cli, mcp::nudge_events(scope, prompt, revision), bounded_by_timeout(cli, limits::nudge_wait().count()),
      [&](const v1::Event& e) {
        auto heard = mcp::heard_in(e, prompt);
        told = heard == mcp::hearing::yes;
        return heard == mcp::hearing::unclear ? look() : !told;
      },
      look);
  } catch (const failure&) {
    // It is sent. Only whether it was read cannot be known.
  }
  return told;
}

int run_prompt(invocation& cli, prompt_options o) {
  if (o.to.empty() && !o.text.empty()) {
    o.to = o.text.front();
    o.text.erase(o.text.begin());
  }
  if (o.message.empty())
    o.message = joined(o.text);
  if (o.to.empty() || o.message.empty())
    throw usage("prompt-peer needs --to WHO and --message TEXT");
  auto command = cli.command();
  command.set_actor(cli.named_actor_id());
  auto* body = command.mutable_send_message();
  body->set_recipient(recipient_named(cli, o.to));
  body->set_content(o.message);
  body->set_task_id(optional_task(cli, o.task));
  body->set_prompt(true);
  body->set_relaxed(true);
  body->set_no_wake(o.no_nudge);
  body->set_force_wake(o.force);
  const auto reply = cli.execute(command);
  auto prompt = reply.message_sent().prompt();
  if (o.no_nudge)
    prompt.set_skipped(nudge_off);
  const auto error =
    mcp::wakes_somebody(prompt) && !was_nudged(cli, command.scope(), prompt, reply.revision()) ? mcp::nudge_error(prompt) : std::string{};
  if (cli.json_wanted()) {
    cli.io().print(mcp::prompt(prompt, error));
    return code::ok;
  }
  if (prompt.skipped() == domain::no_workspace) {
    cli.io().line(short_id(prompt.recipient()) + " has no terminal of the fabric: the message is stored, but nobody was woken");
    return code::ok;
  }
  auto woken = prompt.skipped().empty() && error.empty() ? " and nudged workspace handle" : " (" + prompt.skipped() + error + ")";
  cli.io().line("sent " + short_id(prompt.sender()) + " → " + short_id(prompt.recipient()) + woken);
  return code::ok;
}

void build_prompt(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<prompt_options>();
  option(app, "--to", o->to, "recipient: " + who_words, argument::session);
  option(app, "--message", o->message, "the text");
  option(app, "--task,--task-id", o->task, "the task it is about", argument::task);
  flag(app, "--force", o->force, "wake the peer even while it works");
  flag(app, "--no-nudge", o->no_nudge, "store the message, wake nobody");
  words(app, "text", o->text, "WHO TEXT… instead of the flags");
  on_run(app, cli, [o, &cli] { return run_prompt(cli, *o); });
}

struct handle_options {
  std::string handle;
  std::string backend;
  std::string kind = "pane";
};

std::string shown_match(const json& m) {
  const auto& label = m.at("label");
  return short_id(m.at("instance_id").get<std::string>()) + (label.is_string() ? " (" + label.get<std::string>() + ")" : "");
}

int run_resolve(invocation& cli, const handle_options& o) {
  auto handle = std::string{trimmed(o.handle)};
  if (handle.empty())
    throw usage("resolve_workspace_handle requires handle");
  std::optional<std::string> backend;
  if (!o.backend.empty())
    backend = o.backend;
  if (backend && !mcp::find_workspace_backend(*backend))
    throw failure(code::refused,
                  "Unsupported workspace backend \"" + o.backend + "\". Currently registered: " + mcp::workspace_backend_names() + ".");
  auto found = mcp::resolve_handle({[&] { return cli.query(); }, [&](const v1::Query& q) { return cli.node().coordination.ask(q); }, {}}, handle,
                                   backend, o.kind);
  if (cli.json_wanted()) {
    cli.io().print(found);
    return code::ok;
  }
  auto text = found.at("backend").get<std::string>() + ":" + handle;
  const auto& matches = found.at("matches");
  if (matches.empty())
    text += " did not match a swarm instance";
  else if (matches.size() == 1)
    text += " → " + shown_match(matches[0]);
  else {
    text += " matched multiple swarm instances: ";
    for (std::size_t i = 0; i < matches.size(); ++i)
      text += (i == 0 ? "" : ", ") + shown_match(matches[i]);
  }
  cli.io().line(text);
  return code::ok;
}

void build_resolve(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<handle_options>();
  option(app, "handle", o->handle, "workspace handle")->required();
  option(app, "--backend", o->backend, "workspace backend: pty, herdr; the one that knows the handle when not given");
  option(app, "--kind", o->kind, "kind of handle (pane)");
  on_run(app, cli, [o, &cli] { return run_resolve(cli, *o); });
}

struct peek_options {
  std::string who;
  std::int64_t lines = 80;
  bool visible = false;
};

int run_peek(invocation& cli, const peek_options& o) {
  if (o.lines < 1 || o.lines > static_cast<std::int64_t>(limits::peek_lines_max()))
    throw usage("--lines takes 1 to " + std::to_string(limits::peek_lines_max()));
  auto peer = cli.find(o.who);
  auto read = [&](const std::string& pty) {
    v1::ReadPtyRequest request;
    request.set_id(pty);
    request.set_tail(true);
    std::string out;
    cli.node().ptys.read(request, [&](const v1::PtyChunk& chunk) {
      out += chunk.data();
      return true;
    });
    return out;
  };
  mcp::workspace_access node{[&] { return cli.query(); }, [&](const v1::Query& q) { return cli.node().coordination.ask(q); }, read};
  auto found = mcp::find_workspace(node, peer.id());
  if (!found.place)
    if (const auto all = conversations_by_session(cli, peer.scope()); all.contains(peer.id()))
      throw failure(code::refused, short_id(peer.id()) + " is the agent of a conversation, which has no terminal; see: " +
                                     how_to_read(cli, peer.scope(), all.at(peer.id()).id()));
  if (!found.place)
    throw failure(code::refused, found.reason == domain::no_workspace
                                   ? short_id(peer.id()) + " has no terminal of the fabric: there is nothing to show"
                                   : found.reason);
  const auto* backend = mcp::find_workspace_backend(found.place->backend);
  if (!backend->read)
    throw failure(code::refused, "workspace backend " + found.place->backend + " does not support reading handles");
  auto text = backend->read(node, peer, found.place->handle, static_cast<std::size_t>(o.lines), o.visible);
  if (cli.json_wanted())
    cli.io().print({{"instance_id", peer.id()},
                    {"workspace_backend", found.place->backend},
                    {"workspace_handle", found.place->handle},
                    {"agent_status", mcp::agent_status(peer)},
                    {"text", text}});
  else
    cli.io().raw(text);
  return code::ok;
}

void build_peek(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<peek_options>();
  option(app, "who", o->who, who_words, argument::session)->required();
  option(app, "--lines", o->lines, "at most so many lines, the last ones");
  flag(app, "--visible", o->visible, "what is on its screen, without what has scrolled off");
  on_run(app, cli, [o, &cli] { return run_peek(cli, *o); });
}

constexpr verb verbs[] = {
  {"messages", subject::sessions, "list messages without marking them as read; --mine shows what was written to you",
   "  swarmctl messages --to reviewer --limit 5\n  swarmctl messages --mine --follow", build_messages},
  {"send", subject::sessions, "send a message to an instance, or to the person at a terminal",
   "  swarmctl send --to role:reviewer please look at a.cpp\n  swarmctl send --to operator the release is ready", build_send},
  {"broadcast", subject::sessions, "send a message to everybody in the scope", "  swarmctl broadcast build is red", build_broadcast},
  {"prompt-peer", subject::sessions, "send a message and wake the recipient", "  swarmctl prompt-peer --to 3fa1 --message \"tests fail\" --task T",
   build_prompt},
  {"peek", subject::sessions, "show the last lines of an instance's terminal, without colours", "  swarmctl peek role:reviewer --lines 20",
   build_peek},
  {"resolve-workspace-handle", subject::sessions, "find the instance that published a workspace handle",
   "  swarmctl resolve-workspace-handle pane-3 --json", build_resolve},
};

} // namespace

std::span<const verb> message_verbs() { return verbs; }

} // namespace swarm::cli
