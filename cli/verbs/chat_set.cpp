// chat set: what the agent of a conversation may do unasked, its model and its mode.
#include <algorithm>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/permissions.hpp"
#include "cli/verbs/chat_verbs.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/conversation.hpp"

namespace swarm::cli {

const char* const permissions_words =
  "what it may do unasked: ask (a person decides, the default), auto-edit (writes below its directory), auto (all, for a "
  "time), plan (nothing that changes something), deny (nothing)";

v1::Conversation::Permissions permissions_of(const std::string& word) {
  if (word.empty())
    return v1::Conversation::PERMISSIONS_UNSPECIFIED;
  if (const auto named = mcp::permissions_named(word))
    return *named;
  throw usage("--permissions is one of ask, auto-edit, auto, plan, deny");
}

std::int64_t time_of(const agent_settings& s) {
  if (s.time.empty())
    return 0;
  if (permissions_of(s.permissions) != v1::Conversation::AUTO)
    throw usage("--for goes with --permissions auto");
  if (const auto ms = span_of(s.time); ms && *ms > 0 && *ms <= limits::conversation_bypass_max.count())
    return *ms;
  throw usage(concat({"--for takes a time such as 30m or 2h, at most ", limits::conversation_bypass_max / std::chrono::hours{1}, " h"}));
}

void add_options(CLI::App& app, agent_settings& s) {
  option(app, "--permissions", s.permissions, permissions_words, argument::permissions);
  option(app, "--for", s.time, "how long auto holds, such as 30m or 2h; at most 8 h (default: 8 h)");
  option(app, "--allow", s.allow, "allow this unasked: a tool's name, or TOOL(EXACT ARGUMENT) (repeatable)");
  option(app, "--model", s.model, "the model, as the agent names it");
  option(app, "--mode", s.mode,
         "the agent's own mode, in its words: in plan it changes nothing; in acceptEdits it writes below its directory and asks nobody, whatever "
         "--permissions says",
         argument::mode);
}

namespace {

struct set_options {
  std::string who;
  agent_settings settings;
  std::vector<std::string> forget;
};

void print_set(const invocation& cli, const v1::Conversation& c) {
  const auto until = c.permissions_end_ms() == 0 ? std::string{} : concat({" until ", utc(c.permissions_end_ms()), " UTC"});
  cli.io().line(concat({"conversation ", short_id(c.id()), ": permissions ", domain::to_text(c.permissions()), until}));
  for (const auto& pattern : c.allowed())
    cli.io().line("  allowed unasked: " + pattern);
  if (!c.wished_model().empty())
    cli.io().line("  model: " + c.wished_model());
  if (!c.wished_mode().empty())
    cli.io().line("  mode: " + c.wished_mode());
}

int show(const invocation& cli, const v1::Conversation& c) {
  if (cli.json_wanted())
    cli.io().print(mcp::conversation(c));
  else
    print_set(cli, c);
  return code::ok;
}

int run_set(invocation& cli, const set_options& o) {
  const auto& s = o.settings;
  const auto permissions = permissions_of(s.permissions);
  const auto for_ms = time_of(s);
  const auto c = conversation_named(cli, o.who);
  if (s.permissions.empty() && s.allow.empty() && o.forget.empty() && s.model.empty() && s.mode.empty())
    return show(cli, c);
  auto command = command_for(cli, c);
  auto& body = *command.mutable_set_conversation();
  body.set_conversation_id(c.id());
  body.set_permissions(permissions);
  body.set_permissions_ms(for_ms);
  *body.mutable_allow() = {s.allow.begin(), s.allow.end()};
  *body.mutable_forget() = {o.forget.begin(), o.forget.end()};
  body.set_model(s.model);
  body.set_mode(s.mode);
  const auto now = cli.execute(command).conversation().conversation();
  show(cli, now);
  for (const auto& pattern : o.forget)
    if (std::find(c.allowed().begin(), c.allowed().end(), pattern) == c.allowed().end())
      cli.io().error("swarmctl chat set: nothing was taken back by --forget " + escape_control(shell_quoted(pattern), false) +
                     ": it was not allowed unasked");
  return code::ok;
}

} // namespace

void build_chat_set(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<set_options>();
  auto* sub = of_conversation(app, "set", "set what its agent may do unasked, its model and its mode; without an option, show them", o->who);
  add_options(*sub, o->settings);
  option(*sub, "--forget", o->forget, "take back this pattern, so that a person is asked again (repeatable)", argument::pattern);
  on_run(*sub, cli, [o, &cli] { return run_set(cli, *o); });
}

} // namespace swarm::cli
