// approvals, decide.
#include <algorithm>
#include <set>
#include <tuple>

#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/confirmation.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

const char* state_of(const v1::Approval& a) {
  if (a.decided_at_ms() == 0)
    return "open";
  return !a.decision().empty() ? "decided" : a.withdrawn().empty() ? "expired" : "withdrawn";
}

/// How far the decision has come on its way to the agent that waits for it.
json delivery_of(const v1::Approval& a) {
  switch (a.delivery()) {
    case v1::Approval::PENDING: return "pending";
    case v1::Approval::DELIVERED: return "delivered";
    case v1::Approval::REFUSED: return "refused";
    case v1::Approval::OUTCOME_UNKNOWN: return "unknown";
    default: return nullptr;
  }
}

json approval_row(const v1::Approval& a) {
  auto options = json::array();
  for (const auto& o : a.options())
    options.push_back(o);
  return {{"id", a.id()},
          {"scope", a.scope()},
          {"kind", domain::to_text(a.kind())},
          {"subject", a.subject()},
          {"title", mcp::text_or_null(a.title())},
          {"body", mcp::text_or_null(a.body())},
          {"digest", to_hex(a.action_digest())},
          {"options", options},
          {"state", state_of(a)},
          {"decision", mcp::text_or_null(a.decision())},
          {"withdrawn", mcp::text_or_null(a.withdrawn())},
          {"conversation", mcp::text_or_null(a.conversation_id())},
          {"delivery", delivery_of(a)},
          {"delivery_reason", mcp::text_or_null(a.delivery_reason())},
          {"created_at", mcp::seconds(a.created_at_ms())},
          {"deadline", mcp::seconds_or_null(a.deadline_ms())},
          {"decided_at", mcp::seconds_or_null(a.decided_at_ms())}};
}

struct approvals_wanted {
  bool open_only = false;
  std::string id = {};     // empty = all
  std::string viewer = {}; // the session that looks; empty = the caller
};

v1::ApprovalList approvals_in(const invocation& cli, const std::string& scope, const approvals_wanted& wanted) {
  auto query = cli.query();
  query.set_scope(scope);
  query.set_viewer(wanted.viewer);
  query.mutable_list_approvals()->set_open_only(wanted.open_only);
  query.mutable_list_approvals()->set_id(wanted.id);
  return cli.ask(query).approvals();
}

/// A person is asked in every scope, unless one was named. A session sees its own.
bool asks_everywhere(const invocation& cli) {
  if (!cli.flags.scope.empty() || !cli.named_actor_id().empty())
    return false;
  try {
    return cli.node().admin.explain().principal().kind() == v1::Principal::OPERATOR;
  } catch (const call_failed& f) {
    if (!f.is_refusal())
      throw;
    return false; // a node of a version that cannot say
  }
}

std::vector<std::string> scopes_asked(const invocation& cli) {
  const auto here = cli.scope();
  if (!asks_everywhere(cli))
    return {here};
  auto out = all_scopes(cli, "approvals");
  // One that hosts share is there under its name; when its home is away it is left out, which all_scopes says.
  if (const auto shown = scope_shown(cli); !is_named_scope(shown) && std::find(out.begin(), out.end(), here) == out.end())
    out.push_back(here);
  return out;
}

/// Of several scopes, one that cannot be asked does not hide the others.
std::vector<v1::Approval> approvals_of(const invocation& cli, const std::vector<std::string>& scopes, const approvals_wanted& wanted) {
  std::vector<v1::Approval> found;
  for (const auto& scope : scopes) {
    try {
      auto list = approvals_in(cli, scope, wanted);
      std::move(list.mutable_approvals()->begin(), list.mutable_approvals()->end(), std::back_inserter(found));
    } catch (const failure& f) {
      if (scopes.size() == 1 || f.exit_status != code::refused)
        throw;
      cli.io().error("swarmctl approvals: " + scope + ": " + f.what());
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::forward_as_tuple(a.created_at_ms(), a.id()) < std::forward_as_tuple(b.created_at_ms(), b.id());
  });
  return found;
}

std::string joined_options(const v1::Approval& a) {
  std::string out;
  for (const auto& o : a.options())
    out += (out.empty() ? "" : "|") + o;
  return out;
}

std::string end_of(const v1::Approval& a) {
  if (!a.decision().empty())
    return a.decision();
  return a.withdrawn().empty() ? "expired" : "withdrawn: " + a.withdrawn();
}

/// What is decided on, whole, each line set in.
void print_action(const invocation& cli, const v1::Approval& a) {
  if (a.body().empty() && a.kind() != v1::Approval::TASK)
    return cli.io().line("      (too much to list; swarmctl decide shows it)");
  if (a.body() == a.title())
    return;
  std::string_view rest = a.body();
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    cli.io().line("      " + std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void print_approval(const invocation& cli, const v1::Approval& a, bool with_scope) {
  const auto asked_by = !a.conversation_id().empty()                        ? "conversation " + short_id(a.conversation_id()) + " asks: "
                        : a.requested_by().kind() == v1::Principal::SESSION ? short_id(a.requested_by().id()) + " asks: "
                                                                            : std::string{};
  const auto what = a.kind() == v1::Approval::TASK ? a.subject() + (a.title().empty() ? "" : "  " + a.title())
                                                   : std::string{domain::to_text(a.kind())} + "  " + asked_by + a.title();
  cli.io().line("  " + a.id() + "  " + utc(a.created_at_ms()) + "  " + what + "  " +
                (a.decided_at_ms() == 0 ? "[" + joined_options(a) + "]" : end_of(a)) + (with_scope ? "  " + a.scope() : ""));
  print_action(cli, a);
}

// -- as they come and go ------------------------------------------------------------------------

/// What is open, then each approval that is asked for and how each ends, until the user presses Ctrl-C.
class approval_feed {
public:
  explicit approval_feed(invocation& cli) : cli_(cli) {}

  int run() {
    follow_end end{};
    do {
      is_reset_ = false;
      v1::WatchRequest request;
      request.add_types("approval.");
      if (!asks_everywhere(cli_))
        request.set_scope(cli_.scope());
      request.set_after(position(request));
      show_open();
      end = follow_events(
        cli_, request, bounded_by_timeout(cli_, 0), [&](const v1::Event& e) { return look_at(e.scope(), e.subject()); },
        [&] { return is_reset_ = true, false; });
    } while (is_reset_);
    return end == follow_end::interrupted ? code::interrupted : code::ok;
  }

private:
  /// From where on events are told: what is listed after this is not missed in between.
  std::uint64_t position(v1::WatchRequest request) const {
    std::uint64_t at = 0;
    request.set_from_now(true);
    const auto end = cli_.node().coordination.watch(request, [&](const v1::WatchReply& reply) {
      at = reply.revision();
      return false;
    });
    if (end != stream_end::stopped)
      throw failure(code::no_node, "the node went away; see: swarmctl status");
    return at;
  }

  void show_open() {
    for (const auto& a : approvals_of(cli_, scopes_asked(cli_), {.open_only = true, .viewer = cli_.named_actor_id()}))
      show(a);
  }

  bool look_at(const std::string& scope, const std::string& id) {
    const auto found = approvals_in(cli_, scope, {.id = id, .viewer = cli_.named_actor_id()});
    for (const auto& a : found.approvals())
      show(a);
    return true;
  }

  /// Once for each state: an event may be older than the list.
  void show(const v1::Approval& a) {
    const auto is_open = a.decided_at_ms() == 0;
    if (!(is_open ? opened_ : ended_).insert(a.id()).second)
      return;
    if (cli_.json_wanted())
      return cli_.io().print_compact(approval_row(a));
    print_approval(cli_, a, a.scope() != cli_.scope());
    if (is_open && cli_.io().out_is_terminal())
      cli_.io().raw("\a");
  }

  invocation& cli_;
  std::set<std::string> opened_, ended_;
  bool is_reset_ = false;
};

int run_approvals(invocation& cli, bool all) {
  const auto scopes = scopes_asked(cli);
  const auto found = approvals_of(cli, scopes, {.open_only = !all, .viewer = cli.named_actor_id()});
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& a : found)
      out.push_back(approval_row(a));
    cli.io().print(out);
    return code::ok;
  }
  if (found.empty())
    cli.io().line(scopes.size() == 1 && scopes.front() == cli.scope() ? none_in_scope(cli, all ? "approvals" : "open approvals")
                  : all                                               ? "(no approvals)"
                                                                      : "(no open approvals)");
  // Those are a state of the task, without a row here.
  if (found.empty() && !all_tasks(cli, {v1::APPROVAL_REQUIRED}, true).empty())
    cli.io().line("tasks wait for approval; see: swarmctl tasks --status approval_required, then: swarmctl approve TASK");
  for (const auto& a : found)
    print_approval(cli, a, a.scope() != cli.scope());
  return code::ok;
}

void build_approvals(CLI::App& app, invocation& cli) {
  auto all = std::make_shared<bool>(false);
  auto follow = std::make_shared<bool>(false);
  auto* ended = flag(app, "--all", *all, "those that have ended, too");
  flag(app, "--follow,-f", *follow, "go on with what is asked and decided, and ring the terminal's bell for each question; with --json a line each")
    ->excludes(ended);
  on_run(app, cli, [all, follow, &cli] { return *follow ? approval_feed{cli}.run() : run_approvals(cli, *all); });
}

// -- decide -------------------------------------------------------------------------------

struct decide_options {
  std::string id, choice, digest, message, edited_input;
  std::vector<std::string> answers;
};

/// QUESTION=CHOICE; a question may hold the sign itself.
void add_answers(v1::DecideApproval& body, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    const auto at = word.rfind('=');
    if (at == 0 || at == word.npos || at + 1 == word.size())
      throw usage("--answer takes QUESTION=CHOICE, with the question as it is shown");
    auto& answer = *body.add_answers();
    answer.set_question(word.substr(0, at));
    answer.set_choice(word.substr(at + 1));
  }
}

/// A whole id is found in every scope that the caller may ask; its beginning means one of this scope only.
v1::Approval approval_to_decide(const invocation& cli, const std::string& who) {
  const auto id = approval_named(cli, who);
  const auto found = approvals_of(cli, id == who ? scopes_asked(cli) : std::vector{cli.scope()}, {.id = id});
  if (found.empty() || found.front().decided_at_ms() != 0)
    throw failure(code::refused,
                  "no open approval " + id + (found.empty() ? "" : ": it has ended already, " + end_of(found.front())) + "; see: swarmctl approvals");
  return found.front();
}

/// Whether the person, or the script, has said that it means exactly this action.
bool is_meant(const invocation& cli, const decide_options& o, const v1::Approval& a) {
  // The subject names the task, and a decision about a task needs no digest.
  if (a.kind() == v1::Approval::TASK)
    return true;
  if (cli.json_wanted() || isatty(STDIN_FILENO) != 1 || !cli.io().err_is_terminal())
    throw usage("look at the action first (swarmctl approvals), then repeat its digest: swarmctl decide " + a.id() + " " + shell_quoted(o.choice) +
                " --digest " + to_hex(a.action_digest()));
  print_approval(cli, a, false);
  return is_confirmed(cli.io(), "Decide " + o.choice + "?");
}

int run_decide(invocation& cli, const decide_options& o) {
  auto a = approval_to_decide(cli, o.id);
  if (!o.digest.empty()) {
    a.set_action_digest(from_hex(o.digest));
    if (a.action_digest().empty())
      throw usage("--digest takes the hexadecimal digits that swarmctl approvals --json shows");
  } else if (!is_meant(cli, o, a)) {
    cli.io().note("nothing was decided");
    return code::refused;
  }
  auto command = cli.command();
  command.set_scope(a.scope());
  command.set_actor(cli.named_actor_id());
  command.mutable_decide_approval()->set_approval_id(a.id());
  command.mutable_decide_approval()->set_option(o.choice);
  command.mutable_decide_approval()->set_action_digest(a.action_digest());
  command.mutable_decide_approval()->set_message(o.message);
  command.mutable_decide_approval()->set_edited_input(o.edited_input);
  add_answers(*command.mutable_decide_approval(), o.answers);
  auto decided = cli.execute(command).approval();
  if (cli.json_wanted())
    cli.io().print(approval_row(decided));
  else
    cli.io().line("decided " + decided.id() + ": " + decided.decision());
  return code::ok;
}

void build_decide(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<decide_options>();
  option(app, "approval-id", o->id, approval_words, argument::approval)->required();
  option(app, "choice", o->choice, "one of its options")->required();
  option(app, "--digest", o->digest, "of the action that you have seen, as approvals --json shows it; without it this asks on a terminal");
  option(app, "--message", o->message, "for the agent of a conversation, for instance why it is denied");
  option(app, "--input", o->edited_input, "JSON in place of the input that is shown, with allow; for a conversation's tools");
  option(app, "--answer", o->answers, "QUESTION=CHOICE, for a conversation's question with several parts (repeatable)");
  on_run(app, cli, [o, &cli] { return run_decide(cli, *o); });
}

constexpr verb verbs[] = {
  {"approvals", subject::tasks, "list what waits for a person's decision, in every scope of this node",
   "  swarmctl approvals --follow\n  swarmctl approvals --all --json", build_approvals},
  {"decide", subject::tasks, "decide an approval",
   "  swarmctl decide 7c1d… yes\n  swarmctl decide 0b6f54c7-… allow --digest 9f86d081…\n"
   "  swarmctl decide 0b6f54c7 deny --message \"use the test database\"",
   build_decide},
};

} // namespace

std::span<const verb> approval_verbs() { return verbs; }

} // namespace swarm::cli
