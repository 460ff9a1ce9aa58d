#include "cli/app.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/nearest.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rights.hpp"
#include "cli/persons.hpp"
#include "cli/verb.hpp"
#include "gateway/json/shapes.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <sstream>

#include <unistd.h>

#include <CLI/CLI.hpp>

namespace swarm::cli {

namespace {

std::string unmarked(std::string text) {
  if (!text.empty() && text.front() == dash_mark)
    text.erase(0, 1);
  return text;
}

CLI::Option* with_unmark(CLI::Option* o) {
  return o->transform([](std::string text) { return unmarked(std::move(text)); });
}

CLI::Option* of_kind(CLI::Option* o, argument what) { return what == argument::text ? o : o->type_name(word_of(what)); }

const char* about = "One fabric for coding agents: sessions, tasks, locks, messages, terminals.\n"
                    "The node (swarmd) starts when a command needs it.\n";
const char* root_examples = "Examples:\n"
                            "  swarmctl dispatch \"count the lines\" --harness exec -- sh -c 'wc -l *'\n"
                            "  swarmctl status\n"
                            "  swarmctl COMMAND --help\n"
                            "  swarmctl help --man | man -l -\n"
                            "Exit status: 0 done, 1 refused or not found, 2 usage, 3 no node, 4 deadline.";

const char* heading_of(subject s) {
  switch (s) {
    case subject::start: return "Start here";
    case subject::tasks: return "Tasks";
    case subject::locks: return "Locks and keys";
    case subject::sessions: return "Sessions and messages";
    case subject::workers: return "Workers and terminals";
    case subject::agents: return "Agents";
    case subject::hosts: return "Hosts";
    case subject::node: return "Node";
  }
  return "";
}

/// CLI11's own, with bold headings where the console has colours.
class help_formatter final : public CLI::Formatter {
public:
  explicit help_formatter(const console& io) : io_(io) {}
  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override {
    return with_bold_headings(CLI::Formatter::make_group(std::move(group), is_positional, std::move(options)));
  }
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override {
    return with_bold_headings(CLI::Formatter::make_subcommands(app, mode));
  }

private:
  /// A heading is a line that begins in the first column and ends in a colon.
  std::string with_bold_headings(const std::string& text) const {
    std::string out;
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line); out += '\n')
      out += !line.empty() && line.front() != ' ' && line.back() == ':' ? io_.paint(colour::bold, line) : line;
    return out;
  }

  const console& io_;
};

std::unique_ptr<CLI::App> make_root(invocation& cli) {
  auto root = std::make_unique<CLI::App>(about, cli.program);
  root->formatter(std::make_shared<help_formatter>(cli.io()));
  root->footer(root_examples);
  root->require_subcommand(0, 1);
  root->allow_extras();
  root->set_help_flag("--help,-h", "show this help");
  option(*root, "--scope", cli.flags.scope, "scope: a path, or a name without '/' ($SWARM_MCP_SCOPE, else the git root)", argument::scope);
  option(*root, "--context", cli.flags.node, "the node to speak to: see swarmctl context list ($SWARM_CONTEXT, else what context use says)",
         argument::context);
  option(*root, "--as", cli.flags.as, "act as this instance: " + who_words + " ($SWARM_MCP_INSTANCE_ID)", argument::session);
  flag(*root, "--json", cli.flags.json, "answer as JSON on stdout");
  option(*root, "--timeout", cli.flags.timeout_s, "deadline of a call in seconds (30); when given, also of wait and of following");
  flag(*root, "--no-autostart", cli.flags.no_autostart, "do not start a node when none runs");
  return root;
}

void set_up(CLI::App& app) {
  app.fallthrough();
  app.allow_extras();
  app.set_help_flag("--help,-h", "show this help");
  for (auto* sub : app.get_subcommands({}))
    set_up(*sub);
}

CLI::App* add_verb(CLI::App& root, const verb& v, invocation& cli) {
  auto* app = root.add_subcommand(v.name, v.summary)->group(heading_of(v.about));
  if (v.alias)
    app->alias(v.alias);
  app->require_subcommand(0, 1);
  // Commands below it would show the root's otherwise.
  app->footer("");
  v.build(*app, cli);
  set_up(*app);
  if (*v.examples)
    app->footer(std::string{"Examples:\n"} + v.examples);
  return app;
}

bool takes_value(const std::string& arg) { return arg == "--scope" || arg == "--as" || arg == "--context" || arg == "--timeout"; }

/// The first word that is neither a global flag nor its value.
std::string command_word(const std::vector<std::string>& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--")
      return {};
    if (takes_value(args[i]))
      ++i;
    else if (args[i].empty() || args[i][0] != '-')
      return args[i];
  }
  return {};
}

/// The command that the words before `--` name.
CLI::App* named(CLI::App& root, const std::vector<std::string>& args) {
  auto* app = &root;
  for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (takes_value(args[i]))
      ++i;
    else if (auto* sub = subcommand(*app, args[i]))
      app = sub;
  }
  return app;
}

/// `--help` anywhere before `--` shows the help of the command named.
std::optional<std::string> help_wanted(invocation& cli, CLI::App& root, const std::vector<std::string>& args, std::string_view program_of = {}) {
  bool wanted = false;
  for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    wanted = wanted || args[i] == "--help" || args[i] == "-h";
    i += takes_value(args[i]);
  }
  if (!wanted)
    return std::nullopt;
  if (cli.is_swarm_mcp())
    return full_tree(cli)->help();
  auto* app = named(root, args);
  auto name = app == &root || app->get_parent() == &root ? std::string{} : app->get_parent()->get_name();
  auto text = app->help(app == &root ? "" : name.empty() ? "swarmctl" : "swarmctl " + name);
  if (app == &root)
    return text;
  if (auto usage = text.find("Usage:"); !program_of.empty() && app->get_name() == program_of && usage != text.npos)
    text.insert(text.find('\n', usage), program_words);
  // Each verb takes them, and without --as some do nothing.
  auto options = root.get_options([&](const CLI::Option* o) { return o != root.get_help_ptr(); });
  auto global = help_formatter{cli.io()}.make_group("Global options", false, {options.begin(), options.end()});
  auto examples = text.find("\nExamples:\n");
  text.insert(examples == text.npos ? text.size() : examples, global);
  return text;
}

/// After `--` every word is text; the parser itself would hand such words to the command above. A word with one dash is text as well, unless the
/// command has a flag of that letter. swarmctl refuses one that nobody can mean as text; swarm-mcp takes it.
std::vector<std::string> marked(std::vector<std::string> args, CLI::App& command, bool lenient) {
  auto dashes = std::find(args.begin(), args.end(), "--");
  auto is_value = [&](auto i) {
    // Only a flag takes a value: a positional argument has a name as well, which a text may be equal to.
    const auto* before = i == args.begin() || !std::prev(i)->starts_with('-') ? nullptr : option_of(&command, *std::prev(i));
    return before != nullptr && before->get_items_expected_max() > 0;
  };
  for (auto i = args.begin(); i != args.end(); ++i) {
    if (i == dashes || i->size() < 2 || i->front() != '-' || (i < dashes && (*i)[1] == '-'))
      continue;
    const bool is_letter = i->size() == 2 && std::isalpha(static_cast<unsigned char>((*i)[1])) != 0;
    if (!lenient && i < dashes && is_letter && !is_value(i)) {
      if (option_of(&command, *i) != nullptr)
        continue;
      throw usage("Unknown flag: " + *i + "; a text that begins with a dash goes after --");
    }
    i->insert(i->begin(), dash_mark);
  }
  if (dashes != args.end())
    args.erase(dashes);
  return args;
}

std::vector<std::string> names_below(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(sub->get_name());
  return out;
}

void refuse_leftovers(CLI::App& root, const CLI::App& command) {
  auto left = root.remaining(true);
  if (left.empty())
    return;
  auto word = unmarked(left.front());
  if (auto names = names_below(command); !names.empty() && !word.starts_with('-'))
    throw usage("there is no \"" + command.get_name() + " " + word + "\"" + (nearest(word, names).empty() ? "." : meant(word, names)) +
                " There are: " + joined(names));
  throw usage((word.size() > 1 && word.front() == '-' ? "Unknown flag: " : "unexpected argument: ") + word);
}

void parse(CLI::App& root, const CLI::App& command, std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());
  try {
    root.parse(std::move(args));
  } catch (const CLI::ParseError& e) {
    throw usage(e.what());
  }
  refuse_leftovers(root, command);
}

bool is_a(const CLI::Option& o, argument kind) { return o.get_type_name() == word_of(kind); }

/// Nobody and nothing is chosen by a text for people: an empty one says as much as none. `install` says itself which hosts there are.
bool may_be_empty(const CLI::Option& o) {
  return is_a(o, argument::agent) || o.check_lname("note") || o.check_lname("description") || o.check_lname("intent") || o.check_lname("followup");
}

/// A positional argument that chooses something. An empty text is a text, and the verbs say themselves what a task, a session or a file is called.
bool chooses(const CLI::Option& o) {
  using a = argument;
  const auto kinds = {a::directory, a::terminal, a::approval, a::conversation, a::routine, a::node, a::context, a::key, a::subscription, a::worktree};
  return std::any_of(kinds.begin(), kinds.end(), [&](argument kind) { return is_a(o, kind); });
}

void refuse_empty_value(const CLI::Option& o, const std::string& value) {
  const bool names_task = is_a(o, argument::task);
  if (names_task && ("," + value + ",").find(",,") != std::string::npos)
    throw usage(o.get_name() + " has an empty word, which names no task; leave it out, or give its id");
  if (value.find_first_not_of(" \t\n,") != std::string::npos)
    return;
  if (o.get_positional())
    throw usage(o.get_name() + " is empty; leave it out where it may be, or give one");
  throw usage(o.get_name() + (is_a(o, argument::session) ? " has an empty word, which names no instance; leave it out, or give " + who_words
                                                         : " has an empty value; leave it out, or give one"));
}

/// An unset variable of a script must not mean an option that was left out: a task would not wait for another one, or the node of this host would be
/// stopped in the place of another.
void refuse_empty_values(const CLI::App& command) {
  for (const auto* app = &command; app != nullptr; app = app->get_parent())
    for (const auto* o : app->get_options()) {
      if (o->get_items_expected_max() == 0 || (o->get_positional() ? !chooses(*o) : may_be_empty(*o)))
        continue;
      for (const auto& value : o->results())
        refuse_empty_value(*o, value);
    }
}

/// To the parser the value of `--name=` is the next word.
void refuse_missing_values(CLI::App& command, const std::vector<std::string>& args) {
  for (auto i = args.begin(); i != args.end() && *i != "--"; ++i)
    if (i->size() > 3 && i->starts_with("--") && i->find('=') == i->size() - 1)
      if (const auto* o = option_of(&command, i->substr(0, i->size() - 1)); o != nullptr && o->get_items_expected_max() > 0)
        throw usage(o->get_name() + " has an empty value; leave it out, or give one");
}

/// Splits off what follows `--` for commands that run a program; other commands get it as text.
void split_tail(std::vector<std::string>& args, CLI::App& root, const verb& v, invocation& cli) {
  auto dashes = std::find(args.begin(), args.end(), "--");
  if (named(root, args)->get_name() != v.program_of || dashes == args.end())
    return;
  cli.tail.assign(dashes + 1, args.end());
  args.erase(dashes, args.end());
  // An unset variable of a script must not make a task that nobody runs.
  if (cli.tail.empty() && std::string_view{v.program_of} == "dispatch" && !cli.is_swarm_mcp())
    throw usage("no command follows --; give one, or leave -- out to make a task for others");
}

/// swarm-mcp only succeeds or fails. With --json it reports what these verbs were refused, and a missing value, as answers. An interrupt keeps
/// its status.
int failed_in_swarm_mcp(const invocation& cli, const std::string& command, const failure& f) {
  if (f.exit_status == code::interrupted)
    return f.exit_status;
  const bool is_answer = f.body && (f.body->is_null() || command == "claim" || command == "update-task" || command == "lock");
  return cli.json_wanted() && is_answer ? code::ok : code::refused;
}

/// Of an action that did not throw. swarm-mcp's dispatch succeeds once there is a task, whatever became of its worker.
int ended_in_swarm_mcp(const std::string& command, int status) {
  if (status == code::interrupted)
    return status;
  return status == code::ok || command == "dispatch" ? code::ok : code::refused;
}

int report(invocation& cli, const std::string& command, const failure& f) {
  std::string text = f.what();
  auto name = cli.program + (command.empty() ? "" : " " + command);
  if (!text.empty())
    cli.io().error(f.verbatim ? text : name + ": " + text);
  if (f.exit_status == code::usage && !cli.is_swarm_mcp())
    cli.io().error("Try: " + name + " --help");
  if (cli.json_wanted() && (f.exit_status != code::usage || !cli.is_swarm_mcp())) {
    if (f.body)
      cli.io().print(refusal_json(cli, *f.body));
    else if (!text.empty())
      cli.io().print({{"error", text}});
  }
  return cli.is_swarm_mcp() ? failed_in_swarm_mcp(cli, command, f) : f.exit_status;
}

int dispatch_verb(invocation& cli, std::vector<std::string> args, std::string& command) {
  auto verbs = all_verbs();
  auto word = command_word(args);
  // `help VERB` is `VERB --help`.
  if (word == "help" && !cli.is_swarm_mcp())
    if (auto rest = args; rest.erase(std::find(rest.begin(), rest.end(), word)), !command_word(rest).empty()) {
      args = std::move(rest);
      args.emplace_back("--help");
      word = command_word(args);
    }
  auto root = make_root(cli);
  const auto* v = find_verb(verbs, word);
  if (!v) {
    if (word.empty() && std::find(args.begin(), args.end(), "--version") != args.end()) {
      cli.io().line("swarmctl " SWARM_VERSION);
      return code::ok;
    }
    // The flags before a command that is not there are checked as well.
    if (word.empty() && !help_wanted(cli, *root, args))
      parse(*root, *root, marked(args, *root, cli.is_swarm_mcp()));
    // A program that asked for JSON cannot read help.
    if (word.empty() && cli.json_wanted() && !cli.is_swarm_mcp() && !help_wanted(cli, *root, args))
      throw usage("which command? swarmctl --help lists them");
    if (!word.empty() && word != "help") {
      std::vector<std::string> names;
      for (const auto& one : verbs)
        if (!one.internal)
          names.emplace_back(one.name);
      auto text = "Unknown command: " + word + (cli.is_swarm_mcp() ? "" : meant(word, names));
      cli.io().error(text);
      if (cli.is_swarm_mcp()) {
        cli.io().raw(full_tree(cli)->help());
        return code::refused;
      }
      cli.io().error("See: swarmctl --help");
      if (cli.json_wanted())
        cli.io().print({{"error", text}});
      return code::usage;
    }
    const bool manual = word == "help" && !cli.is_swarm_mcp() && std::find(args.begin(), args.end(), "--man") != args.end();
    cli.io().raw(manual ? manual_page(cli) : full_tree(cli)->help());
    return code::ok;
  }
  command = v->name;
  auto* app = add_verb(*root, *v, cli);
  if (auto help = help_wanted(cli, *root, args, v->program_of)) {
    cli.io().raw(*help);
    return code::ok;
  }
  if (v->refusal)
    throw failure(code::refused, v->refusal);
  split_tail(args, *root, *v, cli);
  cli.choice = v->node;
  auto& leaf = *named(*root, args);
  if (!cli.is_swarm_mcp())
    refuse_missing_values(leaf, args);
  parse(*root, leaf, marked(std::move(args), leaf, cli.is_swarm_mcp()));
  if (!cli.is_swarm_mcp())
    refuse_empty_values(leaf);
  if (!cli.action)
    throw usage("which one? " + [&] {
      std::string names;
      for (auto* sub : app->get_subcommands({}))
        names += (names.empty() ? "" : ", ") + sub->get_name();
      return names;
    }());
  cli.flags.timeout_given = root->count("--timeout") > 0;
  cli.node().finder.set_timeout_ms(milliseconds_of(cli.flags.timeout_s, "--timeout"));
  if (cli.flags.no_autostart)
    cli.node().finder.never_start();
  if (!v->chooses_node)
    speak_to_chosen(cli, v->only_here);
  refuse_who_is_no_person(cli, leaf);
  auto status = cli.action();
  return cli.is_swarm_mcp() ? ended_in_swarm_mcp(command, status) : status;
}

} // namespace

CLI::Option* option(CLI::App& app, const std::string& names, std::string& target, const std::string& help, argument what) {
  return of_kind(with_unmark(app.add_option(names, target, help)), what);
}

CLI::Option* option(CLI::App& app, const std::string& names, std::vector<std::string>& target, const std::string& help, argument what) {
  return of_kind(with_unmark(app.add_option(names, target, help)->allow_extra_args(false)), what);
}

CLI::Option* option(CLI::App& app, const std::string& names, std::int64_t& target, const std::string& help) {
  // CLI11 takes a number that is too large for the largest one there is.
  auto fits = [](const std::string& text) {
    errno = 0;
    std::strtoll(text.c_str(), nullptr, 0);
    return errno == ERANGE ? text + " is too large a number" : std::string{};
  };
  return with_unmark(app.add_option(names, target, help)->check(fits));
}

CLI::Option* option(CLI::App& app, const std::string& names, double& target, const std::string& help) {
  return with_unmark(app.add_option(names, target, help));
}

CLI::Option* flag(CLI::App& app, const std::string& names, bool& target, const std::string& help) { return app.add_flag(names, target, help); }

CLI::Option* words(CLI::App& app, const std::string& name, std::vector<std::string>& target, const std::string& help, argument what) {
  return of_kind(with_unmark(app.add_option(name, target, help)), what);
}

std::optional<std::int64_t> span_of(std::string time) {
  std::int64_t unit_ms = 1'000;
  if (!time.empty())
    switch (time.back()) {
      case 's': time.pop_back(); break;
      case 'm': time.pop_back(), unit_ms = 60'000; break;
      case 'h': time.pop_back(), unit_ms = 3'600'000; break;
      case 'd': time.pop_back(), unit_ms = 86'400'000; break;
      default: break;
    }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), number);
  if (error != std::errc{} || end != time.data() + time.size() || number < 0 || number > longest_wait.count() / unit_ms)
    return std::nullopt;
  return number * unit_ms;
}

grant_word grant_of(const std::string& word) {
  const auto at = word.find('=');
  if (at == std::string::npos)
    return {word, 0};
  const auto time = span_of(word.substr(at + 1));
  if (!time || *time == 0 || *time > limits::grant_time_max.count())
    throw usage(concat({"--grant ", word, ": the time after = is a number with s, m, h or d, such as 30m, at most ",
                        limits::grant_time_max.count() / 86'400'000, "d"}));
  return {word.substr(0, at), *time};
}

std::string grant_help(const char* whose) {
  return concat({"a right of the ", whose, ", or NAME=TIME for a time, such as pty=30m: ", domain::grant_names(v1::Principal::SESSION),
                 " (operator only; may be repeated)"});
}

std::uint32_t retries_of(std::int64_t retries) {
  if (retries < 0 || retries > std::numeric_limits<std::uint32_t>::max())
    throw usage("--retries takes a number, 0 or more");
  return static_cast<std::uint32_t>(retries);
}

std::int64_t milliseconds_of(double seconds, const char* what, std::chrono::milliseconds most) {
  // Beyond what is allowed but within what can be carried, the node refuses: its bound applies.
  if (!(seconds >= 0) || seconds > static_cast<double>(longest_wait.count()) / 1000)
    throw usage(std::string{what} + " takes a number of seconds, 0 to " + std::to_string(most.count() / 1000));
  return static_cast<std::int64_t>(seconds * 1000);
}

std::int64_t bounded_by_timeout(const invocation& cli, std::int64_t wait_ms) {
  if (!cli.flags.timeout_given)
    return wait_ms;
  // 0 would mean without end: no time at all is the shortest time there is.
  auto timeout_ms = std::max<std::int64_t>(milliseconds_of(cli.flags.timeout_s, "--timeout"), 1);
  return wait_ms == 0 ? timeout_ms : std::min(wait_ms, timeout_ms);
}

failure usage(const std::string& text) { return {code::usage, text}; }

const verb* find_verb(const std::vector<verb>& verbs, const std::string& name) {
  for (const auto& v : verbs)
    if (name == v.name || (v.alias && name == v.alias))
      return &v;
  return nullptr;
}

CLI::App* subcommand(CLI::App& app, const std::string& name) {
  for (auto* sub : app.get_subcommands({}))
    if (sub->check_name(name))
      return sub;
  return nullptr;
}

CLI::Option* option_of(CLI::App* app, const std::string& name) {
  for (; app != nullptr; app = app->get_parent())
    if (auto* o = app->get_option_no_throw(name))
      return o;
  return nullptr;
}

/// Behind ssh everybody is the operator of the other node. So who is somebody else here does not get there.
void refuse_agents(const invocation& cli, const std::string& host) {
  if (auto why = why_no_person(cli); !why.empty())
    throw failure(code::refused, "over ssh this command would be the operator of the node at " + host + ", and " + why +
                                   ". Run it in a terminal of your own; see: swarmctl whoami --explain");
}

void speak_to_chosen(invocation& cli, const char* only_here) {
  auto chosen = choose_node(cli.flags.node, cli.env(), cli.choice).node;
  if (!chosen)
    return;
  if (chosen->elsewhere() && only_here)
    throw failure(code::refused, "context " + chosen->name + " is the node of another host: " + only_here);
  if (chosen->elsewhere())
    refuse_agents(cli, chosen->ssh);
  cli.speak_to(*chosen);
  cli.node().finder.speak_to(*chosen);
}

std::vector<verb> all_verbs() {
  std::vector<verb> out;
  auto comes_before = [](const verb& one, const verb& other) { return one.about < other.about; };
  for (auto family : {node_verbs(),  cluster_verbs(),  scope_verbs(),   dispatch_verbs(),   task_verbs(),     task_worker_verbs(), lock_verbs(),
                      kv_verbs(),    message_verbs(),  session_verbs(), spawn_verbs(),      approval_verbs(), chat_verbs(),        usage_verbs(),
                      event_verbs(), overview_verbs(), agent_verbs(),   pty_verbs(),        routine_verbs(),  worktree_verbs(),    mcp_verbs(),
                      hook_verbs(),  install_verbs(),  doctor_verbs(),  completion_verbs(), complete_verbs(), elsewhere_verbs(),   context_verbs(),
                      login_verbs(), config_verbs(),   secret_verbs()})
    for (const auto& v : family)
      out.insert(std::upper_bound(out.begin(), out.end(), v, comes_before), v);
  return out;
}

std::unique_ptr<CLI::App> full_tree(invocation& cli) {
  auto root = make_root(cli);
  for (const auto& v : all_verbs())
    if (!v.internal)
      add_verb(*root, v, cli);
  return root;
}

/// Everything travels as protobuf strings, which are UTF-8; a stray byte would otherwise end as a puzzle of the transport.
void refuse_other_encodings(const invocation& cli, const std::vector<std::string>& args) {
  for (const auto& arg : args)
    if (!is_utf8(arg))
      throw usage("not UTF-8: " + escape_control(arg) + "; arbitrary bytes go through files or pipes");
  if (!is_utf8(cli.directory_if_any()))
    throw failure(code::refused,
                  "the name of the working directory is not UTF-8: " + escape_control(cli.directory_if_any()) + "; call from another one");
}

int run(invocation& cli, std::vector<std::string> args) {
  std::string command;
  // Known before parsing, so that a refusal to parse is reported the same way.
  cli.flags.json = std::find(args.begin(), std::find(args.begin(), args.end(), "--"), "--json") != std::find(args.begin(), args.end(), "--");
  try {
    refuse_other_encodings(cli, args);
    return dispatch_verb(cli, std::move(args), command);
  } catch (const failure& f) {
    return report(cli, command, f);
  } catch (const std::exception& e) {
    return report(cli, command, failure{code::refused, e.what()});
  }
}

} // namespace swarm::cli
