// chat: conversations with agents.
#include <algorithm>

#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "cli/profile.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/chat_attach.hpp"
#include "cli/verbs/chat_read.hpp"
#include "cli/verbs/chat_verbs.hpp"
#include "cli/verbs/confirmation.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

CLI::App* of_conversation(CLI::App& app, const char* name, const char* help, std::string& who) {
  auto* sub = app.add_subcommand(name, help);
  option(*sub, "conversation", who, conversation_words, argument::conversation)->required();
  return sub;
}

v1::Command command_for(const invocation& cli, const v1::Conversation& c) {
  auto out = cli.command();
  out.set_scope(c.scope());
  out.set_actor(cli.named_actor_id());
  return out;
}

environment_list environment_for(const invocation& cli, const v1::Conversation& c) {
  return settings_of_worker(cli, cli.named_actor(), {}, c.harness(), {}).environment;
}

namespace {

// -- new -----------------------------------------------------------------------------------

struct new_options {
  std::vector<std::string> text;
  std::string harness, directory, title, label;
  std::vector<std::string> variables;
  agent_settings settings;
  bool detach = false;
};

std::string harness_of(const invocation& cli, const new_options& o) {
  for (const auto& name : {o.harness, cli.env().get("SWARM_WORKER_HARNESS"), cli.env().get("SWARM_DISPATCH_HARNESS")})
    if (!name.empty())
      return name;
  return "claude";
}

/// The text is for scripts: the id alone, so that $(swarmctl chat new … --detach) is one.
void print_made(invocation& cli, const v1::Conversation& c) {
  if (cli.json_wanted())
    cli.io().print({{"id", c.id()}, {"state", mcp::conversation_state(c.state())}});
  else
    cli.io().line(c.id());
}

int follow_first_turn(invocation& cli, const v1::ConversationReply& reply) {
  cli.io().note("conversation " + reply.conversation().id());
  const auto end = follow_turn(cli, reply.conversation(), reply.prompt());
  if (cli.json_wanted())
    cli.io().print({{"id", reply.conversation().id()},
                    {"state", mcp::conversation_state(end.conversation.state())},
                    {"prompt", reply.prompt().id()},
                    {"failed", end.failed},
                    {"reason", mcp::text_or_null(end.why)}});
  else if (end.failed)
    cli.io().error("swarmctl chat: " + escape_control(end.why));
  return end.has_ended && !end.failed ? code::ok : code::refused;
}

int run_new(invocation& cli, const new_options& o) {
  auto command = cli.command();
  const auto requester = cli.named_actor();
  command.set_actor(requester ? requester->id() : "");
  auto& body = *command.mutable_start_conversation();
  body.set_directory(normalize_path(o.directory.empty() ? "." : o.directory, cli.directory()));
  auto worker = settings_of_worker(cli, requester, o.label, harness_of(cli, o), body.directory());
  body.set_harness(worker.harness);
  for (const auto& word : cli.tail)
    body.add_argv(word);
  body.set_title(o.title);
  body.set_label(o.label);
  body.set_prompt(joined(o.text));
  body.set_permissions(permissions_of(o.settings.permissions));
  body.set_permissions_ms(time_of(o.settings));
  *body.mutable_allowed() = {o.settings.allow.begin(), o.settings.allow.end()};
  body.set_model(o.settings.model);
  body.set_mode(o.settings.mode);
  add_variables(worker.environment, cli.env(), o.variables);
  const auto reply = cli.execute(command, worker.environment).conversation();
  const auto& c = reply.conversation();
  remember_made(cli, kind_of_thing::conversation, c.scope(), c.id());
  if (!o.detach && !cli.json_wanted() && can_attach(cli))
    return attach_conversation(cli, c);
  if (!o.detach && reply.has_prompt())
    return follow_first_turn(cli, reply);
  print_made(cli, c);
  return code::ok;
}

void build_new(CLI::App& app, invocation& cli) {
  auto* sub = app.add_subcommand("new", "start a conversation; at a terminal this attaches to it, else it follows the first turn. A command after -- "
                                        "is started in the place of the agent's program");
  auto o = std::make_shared<new_options>();
  words(*sub, "text", o->text, "the first prompt; without one the agent waits");
  option(*sub, "--harness", o->harness, "the agent (claude)", argument::driven);
  option(*sub, "--directory", o->directory, "its working directory (default: the current one)", argument::directory);
  option(*sub, "--title", o->title, "its title in lists (default: the beginning of the prompt)");
  option(*sub, "--label", o->label, "more tokens for its session's label");
  option(*sub, "--identity", cli.flags.identity, identity_words);
  option(*sub, "--env", o->variables, variable_words);
  add_options(*sub, o->settings);
  flag(*sub, "--detach", o->detach, "print its id and return");
  on_run(*sub, cli, [o, &cli] { return run_new(cli, *o); });
}

// -- list ----------------------------------------------------------------------------------

struct list_options {
  bool all = false;
  bool all_scopes = false;
};

std::vector<v1::Conversation> conversations_of(const invocation& cli, const list_options& o) {
  std::vector<v1::Conversation> out;
  auto scopes = o.all_scopes ? all_scopes(cli, "chat list") : std::vector<std::string>{};
  if (scopes.empty())
    scopes.push_back(cli.scope());
  std::size_t refused = 0;
  for (const auto& scope : scopes) {
    auto q = cli.query();
    q.set_scope(scope);
    q.set_viewer(cli.named_actor_id());
    q.mutable_list_conversations()->set_open_only(!o.all);
    try {
      auto rows = all_rows<v1::Conversation>(cli, std::move(q));
      std::move(rows.begin(), rows.end(), std::back_inserter(out));
    } catch (const failure& f) {
      if (++refused == scopes.size() || f.exit_status != code::refused)
        throw;
      cli.io().error("swarmctl chat list: " + scope + ": " + f.what());
    }
  }
  return out;
}

int run_list(invocation& cli, const list_options& o) {
  const auto all = conversations_of(cli, o);
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& c : all)
      out.push_back(mcp::conversation(c));
    cli.io().print(out);
    return code::ok;
  }
  if (all.empty()) {
    cli.io().line(o.all_scopes ? "(no conversations)" : none_in_scope(cli, o.all ? "conversations" : "open conversations"));
    return code::ok;
  }
  std::vector<std::string> head{"ID", "STATE", "HARNESS", "TURNS", "COST", "CHANGED", "TITLE"};
  if (o.all_scopes)
    head.emplace_back("SCOPE");
  std::vector<std::vector<std::string>> rows;
  for (const auto& c : all) {
    const auto queued = c.queued() > 0 ? concat({" +", c.queued()}) : std::string{};
    rows.push_back({short_id(c.id()), mcp::conversation_state(c.state()) + queued, c.harness(), std::to_string(c.usage().turns()),
                    c.usage().cost_known() ? "$" + fixed(c.usage().cost_usd(), 4) : "-",
                    duration(std::max<std::int64_t>(cli.now_ms() - c.changed_at_ms(), 0)) + " ago", c.title().empty() ? "-" : c.title()});
    if (o.all_scopes)
      rows.back().push_back(c.scope());
  }
  cli.io().painted_line(table(head, rows));
  for (const auto& c : all)
    if (c.queued() > 0 && !c.reason().empty())
      cli.io().line(concat({"  ", short_id(c.id()), " waits: ", c.reason()}));
  return code::ok;
}

void build_list(CLI::App& app, invocation& cli) {
  auto* sub = app.add_subcommand("list", "list the conversations of the scope");
  auto o = std::make_shared<list_options>();
  flag(*sub, "--all", o->all, "also list those that have ended");
  flag(*sub, "--all-scopes", o->all_scopes, "list those of every scope of this node");
  on_run(*sub, cli, [o, &cli] { return run_list(cli, *o); });
}

// -- what is done to one -------------------------------------------------------------------

using change = void (*)(v1::Command&, const std::string& id);

int run_change(invocation& cli, const std::string& who, const change& fill) {
  const auto c = conversation_named(cli, who);
  auto command = command_for(cli, c);
  fill(command, c.id());
  const auto now =
    cli.execute(command, command.has_resume_conversation() ? environment_for(cli, c) : environment_list{}).conversation().conversation();
  if (cli.json_wanted())
    cli.io().print(mcp::conversation(now));
  else
    cli.io().line(concat({"conversation ", short_id(now.id()), ": ", mcp::conversation_state(now.state()), now.held() ? ", its queue waits" : "",
                          // The agent had been told before.
                          command.has_interrupt_conversation() && c.held() && !c.open_turn().empty()
                            ? "; should its agent not react, end it: swarmctl chat stop " + short_id(c.id())
                            : std::string{}}));
  return code::ok;
}

int run_rename(invocation& cli, const std::string& who, const std::vector<std::string>& title) {
  const auto c = conversation_named(cli, who);
  auto command = command_for(cli, c);
  command.mutable_rename_conversation()->set_conversation_id(c.id());
  command.mutable_rename_conversation()->set_title(joined(title));
  const auto now = cli.execute(command).conversation().conversation();
  if (cli.json_wanted())
    cli.io().print(mcp::conversation(now));
  else
    cli.io().line(concat({"conversation ", short_id(now.id()), " is called: ", now.title()}));
  return code::ok;
}

int run_delete(invocation& cli, const std::string& who, bool yes) {
  const auto c = conversation_named(cli, who);
  if (c.state() != v1::Conversation::ENDED && c.state() != v1::Conversation::LOST)
    throw failure(code::refused, concat({"the conversation has not ended; end it first: swarmctl chat stop ", c.id()}));
  const bool asks = !yes && !cli.json_wanted() && isatty(STDIN_FILENO) == 1 && cli.io().err_is_terminal();
  if (asks && !is_confirmed(cli.io(), concat({"Delete ", short_id(c.id()), " (", escape_control(c.title(), false), ") with all that was said?"}))) {
    cli.io().note("nothing was deleted");
    return code::refused;
  }
  auto command = command_for(cli, c);
  command.mutable_delete_conversation()->set_conversation_id(c.id());
  cli.execute(command);
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"id", c.id()}});
  else
    cli.io().line("deleted conversation " + c.id());
  return code::ok;
}

// -- declarations --------------------------------------------------------------------------

void build_reading(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<chat_read_options>();
  auto* read = of_conversation(app, "read", "print what was said; with --json a line for each item", o->who);
  option(*read, "--from", o->from, "print only what follows this cursor (default: everything that is kept)");
  flag(*read, "--follow,-f", o->follow, "keep printing until the conversation ends");
  on_run(*read, cli, [o, &cli] { return run_chat_read(cli, *o); });

  auto who = std::make_shared<std::string>();
  auto* exported = of_conversation(app, "export", "print the whole conversation as one document", *who);
  on_run(*exported, cli, [who, &cli] { return run_chat_export(cli, *who); });
}

void build_changes(CLI::App& app, invocation& cli) {
  struct row {
    const char* name;
    const char* help;
    change fill;
  };
  constexpr row rows[] = {
    {"interrupt", "interrupt the turn; queued prompts stay queued",
     [](v1::Command& c, const std::string& id) { c.mutable_interrupt_conversation()->set_conversation_id(id); }},
    {"stop", "end its agent; it gets none of the prompts that wait",
     [](v1::Command& c, const std::string& id) { c.mutable_stop_conversation()->set_conversation_id(id); }},
    {"resume", "go on with its queue, or take prompts again after stop",
     [](v1::Command& c, const std::string& id) { c.mutable_resume_conversation()->set_conversation_id(id); }},
  };
  for (const auto& r : rows) {
    auto who = std::make_shared<std::string>();
    auto* sub = of_conversation(app, r.name, r.help, *who);
    on_run(*sub, cli, [who, fill = r.fill, &cli] { return run_change(cli, *who, fill); });
  }
}

void build_texts(CLI::App& app, invocation& cli) {
  auto who = std::make_shared<std::string>();
  auto text = std::make_shared<std::vector<std::string>>();
  auto* rename = of_conversation(app, "rename", "give it another title", *who);
  words(*rename, "title", *text, "the title")->required();
  on_run(*rename, cli, [who, text, &cli] { return run_rename(cli, *who, *text); });
  auto yes = std::make_shared<bool>(false);
  auto* del = of_conversation(app, "delete", "remove one that has ended, with all that was said; what it cost stays", *who);
  flag(*del, "--yes", *yes, "do not ask");
  on_run(*del, cli, [who, yes, &cli] { return run_delete(cli, *who, *yes); });
}

void build_chat(CLI::App& app, invocation& cli) {
  auto who = std::make_shared<std::string>();
  option(app, "conversation", *who, "the conversation to attach to: its id, the first characters of it, or @last", argument::conversation);
  on_run(app, cli, [who, &cli] { return attach_conversation(cli, conversation_named(cli, *who)); });
  build_new(app, cli);
  build_list(app, cli);
  build_reading(app, cli);
  build_chat_send(app, cli);
  build_chat_prompts(app, cli);
  build_chat_set(app, cli);
  build_texts(app, cli);
  build_changes(app, cli);
}

constexpr verb verbs[] = {
  {"chat", subject::workers, "talk with an agent: start a conversation, attach to it, read and send",
   "  swarmctl chat new --harness claude \"fix the failing test\"\n"
   "  swarmctl chat @last\n"
   "  swarmctl chat send @last \"and run it again\" --image screenshot.png\n"
   "  swarmctl chat set @last --permissions auto-edit --allow \"Bash(make test)\"\n"
   "  swarmctl chat read @last --follow --json\n"
   "At a terminal: a, d and A answer a permission, ^C interrupts the turn, ^D leaves and the conversation goes on.",
   build_chat, nullptr, "new"},
};

} // namespace

std::span<const verb> chat_verbs() { return verbs; }

} // namespace swarm::cli
