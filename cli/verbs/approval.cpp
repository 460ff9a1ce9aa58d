// approvals, decide.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <map>
#include <set>
#include <tuple>

#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/chat_question.hpp"
#include "cli/verbs/confirmation.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/pager.hpp"
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

json decider_of(const v1::Approval& a) {
  if (a.decision().empty())
    return nullptr;
  const auto kind = [&] {
    switch (a.decided_by().kind()) {
      case v1::Principal::OPERATOR: return "person";
      case v1::Principal::SESSION: return "session";
      case v1::Principal::DEVICE: return "device";
      case v1::Principal::GATEWAY: return "gateway";
      default: return "node";
    }
  };
  return {{"kind", kind()}, {"id", mcp::text_or_null(a.decided_by().id())}};
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
          {"body_bytes", a.body_bytes() != 0 ? a.body_bytes() : a.body().size()},
          {"digest", to_hex(a.action_digest())},
          {"options", options},
          {"state", state_of(a)},
          {"decision", mcp::text_or_null(a.decision())},
          {"decided_by", decider_of(a)},
          {"withdrawn", mcp::text_or_null(a.withdrawn())},
          {"conversation", mcp::text_or_null(a.conversation_id())},
          {"pattern", mcp::text_or_null(a.pattern())},
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

std::vector<v1::Approval> approvals_in(const invocation& cli, const std::string& scope, const approvals_wanted& wanted) {
  std::vector<v1::Approval> out;
  if (wanted.open_only) {
    out = open_approvals(cli, scope, wanted.viewer);
  } else {
    auto query = cli.query();
    query.set_scope(scope);
    query.set_viewer(wanted.viewer);
    query.mutable_list_approvals()->set_id(wanted.id);
    const auto answer = cli.ask(query);
    out = {answer.approvals().approvals().begin(), answer.approvals().approvals().end()};
  }
  // Who decides has to see what.
  for (auto& a : out)
    if (a.body_left_out() && wanted.id.empty())
      if (auto whole = approvals_in(cli, scope, {.id = a.id(), .viewer = wanted.viewer}); !whole.empty())
        a = std::move(whole.front());
  return out;
}

v1::Principal::Kind kind_of_caller(const invocation& cli) {
  try {
    return cli.node().admin.explain().principal().kind();
  } catch (const call_failed& f) {
    if (!f.is_refusal())
      throw;
    return v1::Principal::KIND_UNSPECIFIED; // a node of a version that cannot say
  }
}

/// A person is asked in every scope, unless one was named. A session sees its own.
bool asks_everywhere(const invocation& cli) {
  return cli.flags.scope.empty() && cli.named_actor_id().empty() && kind_of_caller(cli) == v1::Principal::OPERATOR;
}

/// An orphan sees next to nothing: an empty list would say that nobody asks. It is told why, in the node's words.
void refuse_orphan(const invocation& cli) {
  if (kind_of_caller(cli) != v1::Principal::ORPHAN)
    return;
  auto not_for_it = cli.query();
  not_for_it.mutable_list_conversations()->set_open_only(true);
  cli.ask(not_for_it);
}

std::vector<std::string> scopes_asked(const invocation& cli) {
  refuse_orphan(cli);
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
      std::move(list.begin(), list.end(), std::back_inserter(found));
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

/// What the agent of a conversation asks by ask_person is its session's, and is shown as the conversation's.
void name_conversations(const invocation& cli, std::vector<v1::Approval>& all) {
  std::map<std::string, std::map<std::string, v1::Conversation>> by_scope;
  for (auto& a : all) {
    if (!a.conversation_id().empty() || a.kind() != v1::Approval::QUESTION || a.requested_by().kind() != v1::Principal::SESSION)
      continue;
    const auto [known, is_new] = by_scope.try_emplace(a.scope());
    if (is_new)
      known->second = conversations_by_session(cli, a.scope());
    if (const auto c = known->second.find(a.requested_by().id()); c != known->second.end())
      a.set_conversation_id(c->second.id());
  }
}

v1::Approval with_conversation(const invocation& cli, const v1::Approval& a) {
  std::vector<v1::Approval> one{a};
  name_conversations(cli, one);
  return one.front();
}

std::string joined_options(const v1::Approval& a) {
  std::string out;
  for (const auto& o : a.options())
    out += (out.empty() ? "" : "|") + o;
  return out;
}

/// Behind a decision; empty when its agent has it.
std::string delivery_text(const v1::Approval& a) {
  switch (a.delivery()) {
    case v1::Approval::PENDING: return ", on its way to the agent";
    case v1::Approval::REFUSED: return ", and did not reach the agent" + (a.delivery_reason().empty() ? "" : ": " + a.delivery_reason());
    case v1::Approval::OUTCOME_UNKNOWN: return ", and nobody knows whether the agent has it";
    default: return {};
  }
}

std::string end_of(const v1::Approval& a) {
  if (!a.decision().empty())
    return concat({a.decision(), " by ", name_of(a.decided_by()), delivery_text(a)});
  return a.withdrawn().empty() ? "expired" : "withdrawn: " + a.withdrawn();
}

/// What is decided on, whole, each line set in.
void print_action(const invocation& cli, const v1::Approval& a) {
  if (a.body().empty() && a.body_bytes() != 0)
    return cli.io().line(concat({"      (", byte_count(a.body_bytes()), "; all of it: swarmctl approvals ", a.id(), ")"}));
  if (a.body() == a.title())
    return;
  if (const auto parts = question_parts(a, a.body()); !parts.empty()) {
    for (const auto& part : parts)
      for (const auto& line : lines_of_part(part))
        cli.io().line("  " + line.text);
    return;
  }
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
  const bool is_deleted = a.decided_at_ms() != 0 && !a.conversation_id().empty() && a.title().empty() && a.body().empty();
  const auto what =
    is_deleted ? concat({domain::to_text(a.kind()), "  conversation ", short_id(a.conversation_id()), ": what was asked has been deleted with it"})
    : a.kind() == v1::Approval::TASK ? a.subject() + (a.title().empty() ? "" : "  " + a.title())
                                     : std::string{domain::to_text(a.kind())} + "  " + asked_by + a.title();
  cli.io().line("  " + a.id() + "  " + utc(a.created_at_ms()) + "  " + what + "  " +
                (a.decided_at_ms() == 0 ? "[" + joined_options(a) + "]" : end_of(a)) + (with_scope ? "  " + a.scope() : ""));
  if (!is_deleted)
    print_action(cli, a);
  if (!a.pattern().empty() && a.decided_at_ms() == 0)
    cli.io().line("      always: " + a.pattern());
  if (const auto left = deadline_text(a, cli.now_ms()); !left.empty())
    cli.io().line("      " + left);
}

/// From where it is kept, when the row has no room for it.
void fetch_body(const invocation& cli, v1::Approval& a) {
  if (a.body_bytes() == 0 || !a.body().empty())
    return;
  v1::ReadBlobRequest request;
  request.set_scope(a.scope());
  request.set_conversation_id(a.conversation_id());
  request.set_digest(a.action_digest());
  auto body = cli.node().conversations.read_blob(request);
  if (sha256(body) != a.action_digest())
    throw failure(code::refused, "what is decided on has been damaged, so that nobody can allow it; deny it: swarmctl decide " + a.id() + " deny");
  a.set_body(std::move(body));
}

/// On a terminal what is long comes in a pager; `read_on` follows.
void show_whole(const invocation& cli, const v1::Approval& a, const std::function<void()>& read_on) {
  if (a.body_bytes() == 0 || !cli.io().out_is_terminal()) {
    print_approval(cli, a, false);
    return read_on();
  }
  auto head = a;
  head.clear_body();
  print_approval(cli, head, false);
  std::string text;
  for (const auto& line : action_lines(a.body()))
    text += line.text + '\n';
  show_long(cli, text, read_on);
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
    for (const auto& a : found)
      show(a);
    return true;
  }

  /// Once for each state: an event may be older than the list.
  void show(const v1::Approval& a) {
    const auto is_open = a.decided_at_ms() == 0;
    if (!(is_open ? opened_ : ended_).insert(a.id()).second)
      return;
    const auto named = with_conversation(cli_, a);
    if (cli_.json_wanted())
      return cli_.io().print_compact(approval_row(named));
    print_approval(cli_, named, a.scope() != cli_.scope());
    if (is_open && cli_.io().out_is_terminal())
      cli_.io().raw("\a");
  }

  invocation& cli_;
  std::set<std::string> opened_, ended_;
  bool is_reset_ = false;
};

int run_approvals(invocation& cli, bool all) {
  auto found = approvals_of(cli, scopes_asked(cli), {.open_only = !all, .viewer = cli.named_actor_id()});
  name_conversations(cli, found);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& a : found)
      out.push_back(approval_row(a));
    cli.io().print(out);
    return code::ok;
  }
  if (found.empty())
    cli.io().line(!asks_everywhere(cli) ? none_in_scope(cli, all ? "approvals" : "open approvals")
                  : all                 ? "(no approvals in any scope)"
                                        : "(no open approvals in any scope)");
  // Those are a state of the task, without a row here.
  if (found.empty() && !all_tasks(cli, {v1::APPROVAL_REQUIRED}, true).empty())
    cli.io().line("tasks wait for approval; see: swarmctl tasks --status approval_required, then: swarmctl approve TASK");
  for (const auto& a : found)
    print_approval(cli, a, a.scope() != cli.scope());
  return code::ok;
}

/// In every scope that the list shows, also by the beginning of its id.
std::optional<v1::Approval> approval_found(const invocation& cli, const std::string& who, std::string& id) {
  const auto scopes = scopes_asked(cli);
  id = approval_named(cli, who, scopes);
  auto found = approvals_of(cli, scopes, {.id = id});
  return found.empty() ? std::nullopt : std::optional{std::move(found.front())};
}

int run_approval(invocation& cli, const std::string& who) {
  std::string id;
  auto a = approval_found(cli, who, id);
  if (!a)
    throw failure(code::refused, "no approval " + id + "; see: swarmctl approvals --all");
  fetch_body(cli, *a);
  const auto named = with_conversation(cli, *a);
  if (cli.json_wanted())
    cli.io().print(json::array({approval_row(named)}));
  else
    show_whole(cli, named, [] {});
  return code::ok;
}

void build_approvals(CLI::App& app, invocation& cli) {
  auto all = std::make_shared<bool>(false);
  auto follow = std::make_shared<bool>(false);
  auto who = std::make_shared<std::string>();
  auto* one = option(app, "approval-id", *who, "show only this one, with all of its action", argument::approval);
  auto* ended = flag(app, "--all", *all, "also list the newest that have ended");
  flag(app, "--follow,-f", *follow,
       "go on, show each approval that comes or ends, and ring the terminal's bell for each new one; with --json print a line for each")
    ->excludes(ended)
    ->excludes(one);
  on_run(app, cli, [all, follow, who, &cli] {
    return !who->empty() ? run_approval(cli, *who) : *follow ? approval_feed{cli}.run() : run_approvals(cli, *all);
  });
}

// -- decide -------------------------------------------------------------------------------

struct decide_options {
  std::string id, choice, digest, message, edited_input;
  std::vector<std::string> answers;
};

/// QUESTION=CHOICE; a question may hold the sign itself.
part_answers answers_of(const std::vector<std::string>& words, const std::vector<question_part>& parts) {
  part_answers out;
  for (const auto& word : words) {
    auto at = word.rfind('=');
    // A choice may hold it, too.
    for (const auto& part : parts)
      if (word.starts_with(part.question + "="))
        at = part.question.size();
    if (at == 0 || at == word.npos || at + 1 == word.size())
      throw usage("--answer takes QUESTION=CHOICE, with the question as it is shown");
    out.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  return out;
}

v1::Approval approval_to_decide(const invocation& cli, const std::string& who) {
  std::string id;
  auto found = approval_found(cli, who, id);
  if (!found || found->decided_at_ms() != 0)
    throw failure(code::refused,
                  "no open approval " + id + (!found ? "" : ": it has ended already, " + end_of(*found)) + "; see: swarmctl approvals");
  return *found;
}

bool is_at_terminal(const invocation& cli) { return !cli.json_wanted() && isatty(STDIN_FILENO) == 1 && cli.io().err_is_terminal(); }

/// Whether the person, or the script, has said that it means exactly this action.
bool is_meant(const invocation& cli, const decide_options& o, v1::Approval& a) {
  // The subject names the task, and a decision about a task needs no digest.
  if (a.kind() == v1::Approval::TASK)
    return true;
  if (!is_at_terminal(cli))
    throw usage("look at the action first (swarmctl approvals), then repeat its digest: swarmctl decide " + a.id() + " " + shell_quoted(o.choice) +
                " --digest " + to_hex(a.action_digest()));
  fetch_body(cli, a);
  bool out = false;
  show_whole(cli, with_conversation(cli, a), [&] { out = is_confirmed(cli.io(), "Decide " + o.choice + "?"); });
  return out;
}

/// The numbers of its choices, or other words.
std::string asked_part(const invocation& cli, const question_part& part) {
  cli.io().error(escape_control(part.question, false));
  for (std::size_t i = 0; i < part.choices.size(); ++i)
    cli.io().error(concat({"  ", i + 1, " ", escape_control(part.choices[i].label, false)}));
  cli.io().raw_error(part.many ? "numbers, or your own words> " : "a number, or your own words> ");
  std::string line, out;
  std::getline(std::cin, line);
  for (const auto& word : comma_separated({line})) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number == 0 || number > part.choices.size())
      return std::string{trimmed(line)};
    out += (out.empty() ? "" : ", ") + part.choices[number - 1].label;
  }
  return out;
}

/// Each part needs one, and none may be about something else: the agent would wait on.
void check_answers(const std::vector<question_part>& parts, const part_answers& answers) {
  std::string missing;
  for (const auto& part : parts)
    if (std::none_of(answers.begin(), answers.end(), [&](const auto& a) { return a.first == part.question; }))
      missing += concat({missing.empty() ? "" : " ", "--answer ", shell_quoted(part.question + "=CHOICE")});
  if (!missing.empty())
    throw usage("the question has parts that are not answered; add: " + missing);
  for (const auto& [question, choice] : answers)
    if (std::none_of(parts.begin(), parts.end(), [&](const auto& p) { return p.question == question; }))
      throw usage("\"" + escape_control(question, false) + "\" is no part of the question");
}

/// The option, and of a question what was chosen.
void put_choice(const invocation& cli, v1::DecideApproval& body, const decide_options& o, v1::Approval& a) {
  body.set_option(o.choice);
  const bool is_asked = a.kind() == v1::Approval::QUESTION && !a.conversation_id().empty();
  if (is_asked)
    fetch_body(cli, a);
  const auto parts = question_parts(a, a.body());
  auto answers = answers_of(o.answers, parts);
  const auto is_option = std::find(a.options().begin(), a.options().end(), o.choice) != a.options().end();
  if (!is_asked || (answers.empty() && is_option && o.choice != "answer")) {
    for (const auto& [question, choice] : answers) {
      body.add_answers()->set_question(question);
      body.mutable_answers(body.answers_size() - 1)->set_choice(choice);
    }
    return;
  }
  if (answers.empty() && o.choice == "answer" && is_at_terminal(cli))
    for (const auto& part : parts)
      answers.emplace_back(part.question, asked_part(cli, part));
  // A choice that is too long for an option of the row.
  if (answers.empty() && !is_option && parts.size() == 1)
    for (const auto& choice : parts.front().choices)
      if (choice.label == o.choice)
        answers.emplace_back(parts.front().question, choice.label);
  if (answers.empty() && !is_option)
    return; // the node says what the options are
  check_answers(parts, answers);
  put_answers(body, a, parts, answers);
}

int run_decide(invocation& cli, const decide_options& o) {
  if (!o.edited_input.empty())
    if (const auto input = domain::parse_json(o.edited_input); !input || !input->is_object())
      throw usage("--input takes a JSON object");
  auto a = approval_to_decide(cli, o.id);
  auto digest = a.action_digest();
  if (!o.digest.empty()) {
    digest = from_hex(o.digest);
    if (digest.empty())
      throw usage("--digest takes the hexadecimal digits that swarmctl approvals --json shows");
  } else if (!is_meant(cli, o, a)) {
    cli.io().note("nothing was decided");
    return code::refused;
  }
  auto command = cli.command();
  command.set_scope(a.scope());
  command.set_actor(cli.named_actor_id());
  auto& body = *command.mutable_decide_approval();
  put_choice(cli, body, o, a);
  body.set_approval_id(a.id());
  body.set_action_digest(digest);
  body.set_message(o.message);
  body.set_edited_input(o.edited_input);
  auto decided = cli.execute(command).approval();
  if (cli.json_wanted())
    cli.io().print(approval_row(decided));
  else
    cli.io().line("decided " + decided.id() + ": " + decided.decision() + delivery_text(decided));
  return code::ok;
}

void build_decide(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<decide_options>();
  option(app, "approval-id", o->id, approval_words, argument::approval)->required();
  option(app, "choice", o->choice, "one of its options", argument::choice)->required();
  option(app, "--digest", o->digest,
         "the digest of the action that you have seen, as approvals --json shows it; without it decide asks on a terminal");
  option(app, "--message", o->message, "words for the agent of a conversation, for instance why you deny");
  option(app, "--input", o->edited_input, "with allow: JSON that replaces the input that you have seen; for a conversation's tools");
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
