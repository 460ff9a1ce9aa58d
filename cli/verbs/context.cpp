// context list|show|use|set|delete: the nodes that have names; dial-stdio: the other end of a context over ssh.
#include <chrono>

#include <unistd.h>

#include "actors/base/local_socket.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "cli/targets.hpp"
#include "cli/verb.hpp"
#include "gateway/client/ssh_line.hpp"
#include "gateway/json/shapes.hpp"

namespace swarm::cli {

namespace {

std::string shown_name(const std::optional<target>& node) { return node ? node->name : default_context; }

std::string shown_node(const target& c) {
  auto place = c.elsewhere() ? c.ssh : c.state_dir;
  return c.remote_state_dir.empty() ? place : place + " (" + c.remote_state_dir + ")";
}

json context_row(const target& c, bool current) {
  return {{"name", c.name},
          {"current", current},
          {"ssh", mcp::text_or_null(c.ssh)},
          {"state_dir", mcp::text_or_null(c.state_dir)},
          {"remote_state_dir", mcp::text_or_null(c.remote_state_dir)},
          {"scope", mcp::text_or_null(c.scope)}};
}

target context_of_user(invocation& cli) {
  target out;
  out.name = default_context;
  out.state_dir = cli.node().finder.state_directory();
  return out;
}

/// The context in use, to which commands of this environment go. If its name is unknown, the others are shown all the same.
std::string context_in_use(const invocation& cli, std::string& why) {
  try {
    auto chosen = choose_node("", cli.env(), node_choice::current);
    why = chosen.why;
    return shown_name(chosen.node);
  } catch (const failure& e) {
    why = e.what();
    return {};
  }
}

int run_list_contexts(invocation& cli) {
  auto path = contexts_file(cli.env());
  auto all = read_contexts(path).contexts;
  all.insert(all.begin(), context_of_user(cli));
  std::string why;
  auto now = context_in_use(cli, why);
  if (cli.json_wanted()) {
    auto rows = json::array();
    for (const auto& c : all)
      rows.push_back(context_row(c, c.name == now));
    cli.io().print({{"current", mcp::text_or_null(now)}, {"why", mcp::text_or_null(why)}, {"file", path.string()}, {"contexts", rows}});
    return code::ok;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(all.size());
  for (const auto& c : all)
    rows.push_back({c.name == now ? "*" : "", c.name, shown_node(c), c.scope.empty() ? "-" : c.scope});
  cli.io().text(table({"", "CONTEXT", "NODE", "SCOPE"}, rows));
  if (now.empty())
    cli.io().error(why);
  else if (!why.empty() && why != "current")
    cli.io().error(why + " selects \"" + now + "\" and overrides what context use has set");
  return code::ok;
}

int run_show_context(invocation& cli, const std::string& given) {
  auto name = given;
  if (name.empty())
    name = shown_name(choose_node("", cli.env(), node_choice::current).node);
  std::string why;
  auto now = context_in_use(cli, why);
  auto shown = context_of_user(cli);
  if (name != default_context) {
    auto list = read_contexts(contexts_file(cli.env()));
    const auto* found = list.find(name);
    if (!found)
      throw failure(code::refused, "there is no context \"" + name + "\"; see: swarmctl context list");
    shown = *found;
  }
  if (cli.json_wanted()) {
    cli.io().print(context_row(shown, shown.name == now));
    return code::ok;
  }
  cli.io().line(shown.name + (shown.name == now ? " (current)" : ""));
  if (shown.elsewhere())
    cli.io().line("  ssh        " + shown.ssh);
  auto state = shown.elsewhere() ? shown.remote_state_dir : shown.state_dir;
  if (!state.empty())
    cli.io().line("  state      " + state);
  if (!shown.scope.empty())
    cli.io().line("  scope      " + shown.scope);
  return code::ok;
}

int run_use_context(invocation& cli, const std::string& name) {
  change_contexts(contexts_file(cli.env()), [&](context_list& list) {
    if (name != default_context && !list.find(name))
      throw failure(code::refused, "there is no context \"" + name + "\"; see: swarmctl context list");
    list.current = name == default_context ? "" : name;
  });
  std::string why;
  auto now = context_in_use(cli, why);
  if (cli.json_wanted()) {
    cli.io().print({{"ok", true}, {"current", mcp::text_or_null(now)}});
    return code::ok;
  }
  cli.io().line("commands go to " + name + " from now on");
  if (now != name)
    cli.io().error("but not in this shell: " + (now.empty() ? why : why + " is set"));
  return code::ok;
}

struct set_options {
  std::string name;
  std::string ssh;
  std::string state_dir;
  std::string remote_state_dir;
};

/// The entry as it was, with what the call says in place of what it said.
target changed(const invocation& cli, const set_options& o, const target* before) {
  auto out = before ? *before : target{};
  out.name = o.name;
  if (!o.ssh.empty()) {
    out.ssh = o.ssh;
    out.state_dir.clear();
  }
  if (!o.state_dir.empty()) {
    out.state_dir = normalize_path(o.state_dir, cli.directory());
    out.ssh.clear();
    out.remote_state_dir.clear();
  }
  if (!o.remote_state_dir.empty())
    out.remote_state_dir = o.remote_state_dir;
  if (!cli.flags.scope.empty())
    out.scope = out.elsewhere() || is_named_scope(cli.flags.scope) ? cli.flags.scope : normalize_path(cli.flags.scope, cli.directory());
  if (auto wrong = objection_to(out); !wrong.empty())
    throw usage(wrong);
  return out;
}

int run_set_context(invocation& cli, const set_options& o) {
  if (!o.ssh.empty() && !o.state_dir.empty())
    throw usage("--ssh and --state-dir exclude each other: the node of another host, or another node of this one");
  target made;
  change_contexts(contexts_file(cli.env()), [&](context_list& list) {
    made = changed(cli, o, list.find(o.name));
    std::erase_if(list.contexts, [&](const auto& c) { return c.name == o.name; });
    list.contexts.push_back(made);
  });
  std::string why;
  if (cli.json_wanted())
    cli.io().print(context_row(made, context_in_use(cli, why) == made.name));
  else
    cli.io().line(made.name + " is " + shown_node(made) + "; go there with: swarmctl context use " + made.name);
  return code::ok;
}

int run_delete_context(invocation& cli, const std::string& name) {
  if (name == default_context)
    throw failure(code::refused, "\"default\" is the node of this user and stays");
  bool was_current = false;
  change_contexts(contexts_file(cli.env()), [&](context_list& list) {
    if (std::erase_if(list.contexts, [&](const auto& c) { return c.name == name; }) == 0)
      throw failure(code::refused, "there is no context \"" + name + "\"; see: swarmctl context list");
    was_current = list.current == name;
    if (was_current)
      list.current.clear();
  });
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"name", name}});
  else
    cli.io().line("forgot " + name + (was_current ? "; commands go to default from now on" : ""));
  return code::ok;
}

/// Waits for a node of another command's making, or until the caller on standard input has gone, who says nothing before he is greeted.
unique_fd await_socket(const state_dir& dir, std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  owner_news news{{}, dir.socket()};
  for (;;) {
    if (auto node = connect_at(dir.socket()))
      return node;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !news.wait(left, STDIN_FILENO))
      return {};
  }
}

int run_dial(invocation& cli, double wait_s) {
  state_dir dir{cli.node().finder.state_directory()};
  auto node = connect_at(dir.socket());
  if (!node && !cli.flags.no_autostart) {
    cli.node().finder.start("");
    node = connect_at(dir.socket());
  }
  if (auto wait_ms = milliseconds_of(wait_s, "--wait"); !node && wait_ms > 0)
    node = await_socket(dir, std::chrono::milliseconds{wait_ms});
  // Its status tells the swarmctl at the other end, which has the words for it.
  if (!node)
    throw failure(code::no_node, "");
  copy_both_ways(STDIN_FILENO, STDOUT_FILENO, node.get());
  return code::ok;
}

void build_dial(CLI::App& app, invocation& cli) {
  auto wait = std::make_shared<double>(0);
  option(app, "--wait", *wait, "seconds to wait for a node when none runs and none is to be started (0)");
  on_run(app, cli, [wait, &cli] { return run_dial(cli, *wait); });
}

/// Binds what is about the file and not about a node.
template <class Action>
void on_run_here(CLI::App& app, invocation& cli, Action action) {
  on_run(app, cli, action);
  app.preparse_callback([&cli](std::size_t) { cli.choice = node_choice::own; });
}

void build_context(CLI::App& app, invocation& cli) {
  on_run_here(app, cli, [&cli] { return run_list_contexts(cli); });
  auto name = std::make_shared<std::string>();
  on_run_here(*app.add_subcommand("list", "the nodes that have names, and which one counts"), cli, [&cli] { return run_list_contexts(cli); });
  auto* show = app.add_subcommand("show", "one of them: the one named, or the one that counts");
  option(*show, "name", *name, "name of the context", argument::context);
  on_run_here(*show, cli, [name, &cli] { return run_show_context(cli, *name); });
  auto* use = app.add_subcommand("use", "let commands go there from now on; default = the node of this user");
  option(*use, "name", *name, "name of the context", argument::context)->required();
  on_run_here(*use, cli, [name, &cli] { return run_use_context(cli, *name); });
  auto* set = app.add_subcommand("set", "name a node, or change what its name means; --scope is the scope that counts there");
  auto o = std::make_shared<set_options>();
  option(*set, "name", o->name, "name of the context", argument::context)->required();
  option(*set, "--ssh", o->ssh, "the node of another host: [USER@]HOST or ssh://[USER@]HOST[:PORT]");
  option(*set, "--state-dir", o->state_dir, "another node of this host: where it keeps its state", argument::directory);
  option(*set, "--remote-state-dir", o->remote_state_dir, "with --ssh: where the node keeps its state there");
  on_run_here(*set, cli, [o, &cli] { return run_set_context(cli, *o); });
  auto* forget = app.add_subcommand("delete", "forget a name; the node goes on");
  option(*forget, "name", *name, "name of the context", argument::context)->required();
  on_run_here(*forget, cli, [name, &cli] { return run_delete_context(cli, *name); });
}

constexpr verb verbs[] = {
  {.name = "context",
   .about = subject::hosts,
   .summary = "name nodes, and choose the one that commands speak to",
   .examples = "  swarmctl context set gpu --ssh me@gpu-box --scope web\n  swarmctl context use gpu\n  swarmctl --context gpu status\n"
               "  swarmctl context use default",
   .build = build_context},
  {.name = "dial-stdio",
   .about = subject::node,
   .summary = "for swarmctl itself: the node's socket on stdin and stdout, at the other end of a context over ssh",
   .examples = "  ssh me@gpu-box swarmctl dial-stdio",
   .build = build_dial,
   .node = node_choice::own,
   .internal = true},
};

} // namespace

std::span<const verb> context_verbs() { return verbs; }

} // namespace swarm::cli
