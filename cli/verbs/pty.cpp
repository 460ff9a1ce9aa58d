// pty new|list|prune|read|send|kill|attach|resize.
#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/terminal_config.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/harness.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/follow.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/interrupt.hpp"
#include "cli/verbs/output_filter.hpp"
#include "cli/verbs/placement.hpp"
#include "cli/verbs/pty_attach.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/json/shapes.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

struct size_options {
  std::int64_t columns = 0;
  std::int64_t rows = 0;
};

/// As asked for, else that of this terminal, else 80 x 24.
v1::TerminalSize size_of(const size_options& o) {
  winsize here{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &here) != 0)
    here = {};
  auto pick = [](std::int64_t wanted, std::int64_t have, std::int64_t fallback) {
    auto value = wanted != 0 ? wanted : have != 0 ? have : fallback;
    if (value < 1 || value > 1000)
      throw usage("--columns and --rows take 1 to 1000");
    return static_cast<std::uint32_t>(value);
  };
  v1::TerminalSize out;
  out.set_columns(pick(o.columns, here.ws_col, 80));
  out.set_rows(pick(o.rows, here.ws_row, 24));
  return out;
}

void size_flags(CLI::App& app, size_options& o) {
  option(app, "--columns", o.columns, "width, 1 to 1000");
  option(app, "--rows", o.rows, "height, 1 to 1000");
}

// -- new, list -----------------------------------------------------------------------------

struct new_options {
  std::string name;
  std::string directory;
  std::vector<std::string> variables;
  size_options size;
  placement_options placement;
};

int run_new(invocation& cli, const new_options& o) {
  // Words like @last mean something else.
  if (o.name.starts_with('@'))
    throw usage("a terminal's name does not begin with @: nobody could name the terminal by it");
  v1::CreatePtyRequest request;
  request.set_scope(cli.scope());
  for (const auto& word : cli.tail)
    request.add_argv(word);
  request.set_directory(normalize_path(o.directory.empty() ? "." : o.directory, cli.directory()));
  *request.mutable_size() = size_of(o.size);
  auto variables = cli.inheritable(domain::shell_harness);
  if (!add_variables(variables, cli.env(), o.variables).empty())
    is_kept_here(cli, o.placement);
  for (const auto& [name, value] : variables) {
    auto* variable = request.add_environment();
    variable->set_name(name);
    variable->set_value(name == "SWARM_MCP_ALLOW_SPAWN" && cli.caller().allow_spawn() ? "1" : value);
    variable->set_asked_for(!inheritable(name));
  }
  request.set_name(o.name);
  request.set_identity(cli.caller().identity());
  set_placement(request, o.placement);
  auto info = cli.node().ptys.create(request);
  remember_made(cli, kind_of_thing::terminal, info.scope(), info.id());
  if (o.placement.explain)
    print_placement(cli.io(), info.placement());
  if (cli.json_wanted())
    cli.io().print(mcp::pty(info));
  else
    cli.io().line(info.id());
  return code::ok;
}

/// How it is with the program.
std::string state_of(const v1::PtyInfo& p) {
  return p.running()             ? "running"
         : p.signal() != 0       ? "signal " + std::to_string(p.signal())
         : p.exit_status() == -1 ? "lost with its keeper"
                                 : "exit " + std::to_string(p.exit_status());
}

int run_list(invocation& cli, bool all) {
  auto list = all_terminals(cli, all);
  tell_not_asked(cli, "pty list");
  if (cli.json_wanted()) {
    auto out = json::array();
    for (const auto& p : list)
      out.push_back(mcp::pty(p));
    cli.io().print(out);
    return code::ok;
  }
  if (list.empty()) {
    cli.io().line(all ? "(no terminals)" : none_in_scope(cli, "terminals"));
    return code::ok;
  }
  const auto nodes = node_names(cli);
  std::vector<std::string> head{"ID", "NAME", "STATE", "PID", "OUTPUT"};
  std::vector<std::vector<std::string>> rows;
  rows.reserve(list.size());
  for (const auto& p : list) {
    rows.push_back({short_id(p.id()), p.name().empty() ? "-" : p.name(), state_of(p), std::to_string(p.pid()), byte_count(p.end())});
    if (!nodes.empty())
      rows.back().push_back(name_of_node(nodes, p.node_id()));
    rows.back().push_back(joined({p.argv().begin(), p.argv().end()}));
  }
  if (!nodes.empty())
    head.emplace_back("NODE");
  head.emplace_back("COMMAND");
  cli.io().painted_line(table(head, rows));
  return code::ok;
}

struct prune_options {
  bool all_scopes = false;
  bool dry_run = false;
};

int run_prune(invocation& cli, const prune_options& o) {
  auto list = all_terminals(cli, o.all_scopes);
  tell_not_asked(cli, "pty prune");
  std::erase_if(list, [](const auto& p) { return p.running(); });
  auto pruned = json::array();
  std::size_t kept = 0;
  for (const auto& p : list) {
    v1::ForgetPtyRequest request;
    request.set_pty_id(p.id());
    try {
      if (!o.dry_run)
        cli.node().ptys.forget(request);
    } catch (const call_failed& f) {
      // The others go all the same.
      cli.io().error(short_id(p.id()) + " stays: " + f.what());
      ++kept;
      continue;
    }
    pruned.push_back(mcp::pty(p));
    if (!cli.json_wanted())
      cli.io().line((o.dry_run ? "would remove " : "removed ") + short_id(p.id()) + (p.name().empty() ? "" : "  " + p.name()) + "  " + state_of(p));
  }
  if (cli.json_wanted())
    cli.io().print({{"ok", kept == 0}, {"dry_run", o.dry_run}, {"removed", pruned}});
  else if (list.empty())
    cli.io().line(o.all_scopes ? "no terminal has ended" : "no terminal of scope " + cli.scope() + " has ended");
  return kept == 0 ? code::ok : code::refused;
}

// -- read ----------------------------------------------------------------------------------

struct read_options {
  std::string who;
  std::int64_t from = -1;
  std::int64_t bytes = 0;
  bool follow = false;
  bool raw = false;
};

struct read_state {
  std::uint64_t next = 0;
  std::uint64_t first = 0;
  bool started = false;
  bool ended = false;
  int exit_status = 0;
  int signal = 0;
  std::string data; // with --json everything
  output_filter filter{output_filter::target::bytes};
};

bool take(invocation& cli, read_state& state, const v1::PtyChunk& chunk) {
  if (chunk.gap() != 0)
    cli.io().error(counted(chunk.gap(), "byte") + " before offset " + std::to_string(chunk.offset()) + (chunk.gap() == 1 ? " is" : " are") +
                   " no longer kept");
  if (!std::exchange(state.started, true))
    state.first = chunk.offset();
  if (!chunk.data().empty() || chunk.gap() != 0)
    state.next = chunk.offset() + chunk.data().size();
  if (cli.json_wanted())
    state.data += chunk.data();
  else
    cli.io().raw(state.filter.take(chunk.data()));
  if (chunk.ended()) {
    state.ended = true;
    state.exit_status = chunk.exit_status();
    state.signal = chunk.signal();
  }
  return !state.ended;
}

/// What a terminal shows in itself is its output once more, without end.
void require_another(const invocation& cli, const v1::PtyInfo& terminal, const char* what_else) {
  if (!terminal.id().empty() && terminal.id() == cli.env().get("SWARM_SPAWN_ID"))
    throw failure(code::refused,
                  "you are in this terminal (" + (terminal.name().empty() ? short_id(terminal.id()) : terminal.name()) + "); " + what_else);
}

int run_read(invocation& cli, const read_options& o) {
  const auto terminal = terminal_named(cli, o.who, reach::all_scopes);
  if (o.follow && cli.io().out_is_terminal())
    require_another(cli, terminal, "follow it from another one, or leave --follow out");
  v1::ReadPtyRequest request;
  request.set_id(terminal.id());
  request.set_from(static_cast<std::uint64_t>(std::max<std::int64_t>(o.from, 0)));
  request.set_follow(o.follow);
  request.set_tail(o.from < 0 && o.bytes > 0);
  request.set_max_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(o.bytes, 0)));
  read_state state;
  state.next = request.from();
  if (!o.raw && cli.io().out_is_terminal())
    state.filter = output_filter{output_filter::target::terminal};
  interrupt_guard guard{[&] { cli.node().coordination.cancel(); }};
  std::atomic<bool> late = false;
  ticker timer{0, nullptr, o.follow ? bounded_by_timeout(cli, 0) : 0, [&] {
                 late = true;
                 cli.node().coordination.cancel();
               }};
  // A stream that was cut goes on at the next offset: every byte is printed once.
  for (auto end = stream_end::lost; !late && (end == stream_end::lost || end == stream_end::too_slow);) {
    end = cli.node().ptys.read(request, [&](const v1::PtyChunk& chunk) { return take(cli, state, chunk); });
    request.set_from(state.next);
    request.set_tail(request.tail() && !state.started);
    // What has come counts: of --bytes only the rest is asked for.
    if (const auto taken = state.next > state.first ? state.next - state.first : 0; !o.follow && state.started && o.bytes > 0) {
      if (taken >= static_cast<std::uint64_t>(o.bytes))
        break;
      request.set_max_bytes(static_cast<std::uint64_t>(o.bytes) - taken);
    }
    if (end == stream_end::lost)
      cli.node().finder.expect_return();
  }
  if (!cli.json_wanted())
    cli.io().raw(state.filter.finish());
  if (cli.json_wanted())
    cli.io().print({{"id", request.id()},
                    {"from", state.first},
                    {"next", state.next},
                    {"data", state.data},
                    {"ended", state.ended},
                    {"exit_status", state.ended && state.signal == 0 ? json(state.exit_status) : json(nullptr)},
                    {"signal", state.ended && state.signal != 0 ? json(state.signal) : json(nullptr)}});
  if (late && !state.ended)
    throw failure(code::deadline, "stopped following: the time of --timeout is up; go on with --from " + std::to_string(state.next));
  return guard.interrupted() ? code::interrupted : code::ok;
}

// -- send, resize, kill, attach --------------------------------------------------------------

struct send_options {
  std::string who;
  std::vector<std::string> text;
  bool enter = false;
  bool from_stdin = false;
  bool ends = false;
  std::int64_t fence = 0;
};

std::string standard_input() {
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

int run_send(invocation& cli, const send_options& o) {
  auto text = o.from_stdin ? standard_input() : joined(o.text);
  if (text.empty() && !o.enter && !o.ends)
    throw usage("pty send needs text, --enter, --stdin or --end-of-input");
  if (o.fence < 0)
    throw usage("--fence takes the number of the claim that the worker works under; `swarmctl claim --json` and the event task.claimed show it");
  const auto terminal = terminal_named(cli, o.who, reach::this_scope);
  const auto& id = terminal.id();
  if (o.ends && !terminal.pipes())
    throw failure(code::refused, "--end-of-input is for a worker on pipes; at a terminal a program takes Ctrl-D for the end");
  // A terminal makes a newline of what the key Enter sends; a pipe does not.
  if (o.enter)
    text += terminal.pipes() ? '\n' : '\r';
  std::uint64_t accepted = 0;
  for (std::size_t at = 0; at < text.size(); at += limits::pty_input_bytes_max) {
    v1::SendPtyRequest request;
    request.set_pty_id(id);
    request.set_data(text.substr(at, limits::pty_input_bytes_max));
    request.set_fence(static_cast<std::uint64_t>(o.fence));
    accepted += cli.node().ptys.send(request).accepted();
  }
  if (o.ends) {
    v1::SendPtyRequest end; // no bytes end the program's input
    end.set_pty_id(id);
    end.set_fence(static_cast<std::uint64_t>(o.fence));
    cli.node().ptys.send(end);
  }
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"id", id}, {"accepted", accepted}});
  else
    cli.io().line("sent " + counted(accepted, "byte") + " to " + short_id(id));
  return code::ok;
}

int run_resize(invocation& cli, const std::string& who, const size_options& o) {
  v1::ResizePtyRequest request;
  request.set_pty_id(terminal_named(cli, who, reach::this_scope).id());
  *request.mutable_size() = size_of(o);
  auto info = cli.node().ptys.resize(request);
  if (cli.json_wanted())
    cli.io().print(mcp::pty(info));
  else
    cli.io().line("resized " + short_id(info.id()) + " to " + std::to_string(info.size().columns()) + "x" + std::to_string(info.size().rows()));
  return code::ok;
}

/// TERM, SIGTERM or 15.
int parse_signal(std::string_view text) {
  int number = -1;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && number >= 0 && number <= 64)
    return number;
  auto name = text.starts_with("SIG") ? text.substr(3) : text;
  for (int n = 1; n < NSIG; ++n)
    if (const auto* known = sigabbrev_np(n); known && name == known)
      return n;
  throw usage("--signal takes a name such as TERM, or a number from 0 to 64; 0 = hang up, terminate, then kill");
}

/// Throws `failure` when its program has ended.
v1::PtyInfo kill_one(const invocation& cli, const std::string& who, v1::PtyInfo terminal, int signal) {
  v1::KillPtyRequest request;
  request.set_pty_id(terminal.id());
  request.set_signal(signal);
  // Of one that is not in the list the node says how it is with it.
  if (terminal.running() || terminal.scope().empty())
    terminal = cli.node().ptys.kill(request);
  if (terminal.running())
    return terminal;
  auto when = terminal.ended_at_ms() > 0 ? ", " + duration(std::max<std::int64_t>(cli.now_ms() - terminal.ended_at_ms(), 0)) + " ago" : "";
  throw failure(code::refused, who + " has ended already (" + state_of(terminal) + when + ")");
}

int run_kill(invocation& cli, const std::vector<std::string>& names, const std::string& named) {
  const auto signal = named.empty() ? 0 : parse_signal(named);
  const auto* done = signal == 0 ? "ended " : "signalled ";
  if (names.size() == 1) {
    auto info = kill_one(cli, names.front(), terminal_named(cli, names.front(), reach::this_scope), signal);
    if (cli.json_wanted())
      cli.io().print(mcp::pty(info));
    else
      cli.io().line(done + short_id(info.id()));
    return code::ok;
  }
  auto all = json::array();
  bool failed = false;
  std::set<std::string> told; // one may be named twice
  for (const auto& who : names) {
    try {
      auto terminal = terminal_named(cli, who, reach::this_scope);
      if (!told.insert(terminal.id()).second)
        continue;
      auto info = kill_one(cli, who, std::move(terminal), signal);
      all.push_back(mcp::pty(info));
      if (!cli.json_wanted())
        cli.io().line(done + short_id(info.id()));
    } catch (const failure& f) {
      if (f.exit_status != code::refused)
        throw;
      cli.io().error(f.what()); // the others are killed all the same
      failed = true;
    }
  }
  if (cli.json_wanted())
    cli.io().print(all);
  return failed ? code::refused : code::ok;
}

/// As it is printed on keyboards.
std::string name_of_key(char key) {
  auto c = static_cast<unsigned char>(key);
  return c < 0x20 ? "Ctrl-" + std::string(1, static_cast<char>(c + '@')) : std::string(1, key);
}

struct attach_options {
  std::string who;
  std::string detach_key;
};

/// --detach-key, else that of config.toml.
char detach_key(const invocation& cli, const attach_options& o) {
  if (!o.detach_key.empty()) {
    if (auto key = parse_detach_key(o.detach_key))
      return *key;
    throw usage(concat({"--detach-key", detach_key_words}));
  }
  auto configured = read_terminal_config(cli.config_file);
  if (!configured)
    throw failure(code::refused, configured.failure());
  return configured->detach_key;
}

int run_attach(invocation& cli, const attach_options& o) {
  auto key = detach_key(cli, o);
  auto terminal = terminal_named(cli, o.who, reach::this_scope);
  require_another(cli, terminal, "attach to another one, see: swarmctl pty list");
  const auto& id = terminal.id();
  attach_settings settings;
  settings.detach_key = key;
  settings.may_leave = isatty(STDIN_FILENO) == 1;
  // With nobody to type, the end of the input means to leave a program that runs, and to see the output of one that has ended.
  settings.stay = !settings.may_leave && !terminal.running();
  settings.patience = std::chrono::milliseconds{milliseconds_of(cli.flags.timeout_s, "--timeout")};
  settings.away_notice =
    "\r\n[swarm: the node is away, and this terminal comes back with it; keys are not kept until then; " + name_of_key(key) + " leaves]\r\n";
  settings.unknown_notice =
    "\r\n[swarm: the node went away with keys on their way: whether the last ones have arrived is not known, and keys are not kept "
    "until it is back; look at the line before you go on]\r\n";
  settings.dropped_notice = "\r\n[swarm: keys that were typed while the node was away are not sent; look at the line before you go on]\r\n";
  if (settings.may_leave && cli.io().out_is_terminal() && cli.env().get("TERM") != "linux" && cli.env().get("TERM") != "dumb")
    settings.title = escape_control((terminal.name().empty() ? short_id(id) : terminal.name()) + " (" + name_of_key(key) + " leaves)", false);
  settings.give_up = [&cli] { cli.node().coordination.cancel(); };
  if (settings.may_leave && cli.io().out_is_terminal())
    cli.io().error("attached to " + (terminal.name().empty() ? short_id(id) : terminal.name() + " (" + short_id(id) + ")") + "; " + name_of_key(key) +
                   " leaves it");
  auto end = attach_terminal(cli.node().ptys, id, settings);
  if (end.detached) {
    cli.io().error("detached from " + short_id(id) + "; the program goes on");
    return code::ok;
  }
  if (end.signal == 0 && end.exit_status < 0) {
    cli.io().error("the program was lost with its keeper: how it ended is not known");
    return code::refused;
  }
  cli.io().error(end.signal != 0 ? "the program ended by signal " + std::to_string(end.signal)
                                 : "the program ended with exit status " + std::to_string(end.exit_status));
  return end.signal != 0 ? 128 + end.signal : end.exit_status;
}

// -- declarations ------------------------------------------------------------------------------

CLI::App* of_terminal(CLI::App& app, const char* name, const char* help, std::string& who) {
  auto* sub = app.add_subcommand(name, help);
  option(*sub, "pty", who, terminal_words, argument::terminal)->required();
  return sub;
}

void build_pty_reading(CLI::App& app, invocation& cli) {
  auto all = std::make_shared<bool>(false);
  auto* list = app.add_subcommand("list", "list terminals");
  flag(*list, "--all", *all, "of every scope");
  on_run(*list, cli, [all, &cli] { return run_list(cli, *all); });
  auto p = std::make_shared<prune_options>();
  auto* prune = app.add_subcommand("prune", "take terminals whose programs have ended out of the list; swarmctl logs TASK still has their output");
  flag(*prune, "--all-scopes", p->all_scopes, "of every scope");
  flag(*prune, "--dry-run", p->dry_run, "only say which");
  on_run(*prune, cli, [p, &cli] { return run_prune(cli, *p); });
  auto r = std::make_shared<read_options>();
  auto* read = of_terminal(app, "read", "print a terminal's output", r->who);
  option(*read, "--from", r->from, "start at this offset (the oldest kept)");
  option(*read, "--bytes", r->bytes, "at most this many; without --from the last ones");
  flag(*read, "--follow", r->follow, "go on until the program ends");
  flag(*read, "--raw", r->raw, "control characters as they are on a terminal too, not only colours; into a pipe or file they always are");
  on_run(*read, cli, [r, &cli] { return run_read(cli, *r); });
}

void build_pty_writing(CLI::App& app, invocation& cli) {
  auto s = std::make_shared<send_options>();
  auto* send = of_terminal(app, "send", "type into a terminal", s->who);
  words(*send, "text", s->text, "what to type");
  flag(*send, "--enter", s->enter, "and press Enter");
  flag(*send, "--end-of-input", s->ends, "and end the input of a worker on pipes");
  flag(*send, "--stdin", s->from_stdin, "type what comes in on standard input");
  option(*send, "--fence", s->fence, "only while the worker in this terminal works under this claim");
  on_run(*send, cli, [s, &cli] { return run_send(cli, *s); });
  auto size = std::make_shared<size_options>();
  auto resized = std::make_shared<std::string>();
  auto* resize = of_terminal(app, "resize", "set the size of a terminal (that of this one)", *resized);
  size_flags(*resize, *size);
  on_run(*resize, cli, [size, resized, &cli] { return run_resize(cli, *resized, *size); });
  auto killed = std::make_shared<std::vector<std::string>>();
  auto signal = std::make_shared<std::string>();
  auto* kill = app.add_subcommand("kill", "end the program and everything below it, or those of several terminals");
  words(*kill, "pty", *killed, terminal_words, argument::terminal)->required();
  option(*kill, "--signal", *signal, "send only this signal: TERM, or its number");
  on_run(*kill, cli, [killed, signal, &cli] { return run_kill(cli, *killed, *signal); });
  auto a = std::make_shared<attach_options>();
  auto* attach = of_terminal(app, "attach", "use a terminal from here; Ctrl-] detaches, or the key that config.toml names", a->who);
  option(*attach, "--detach-key", a->detach_key, "key that detaches, such as ctrl-] (default) or ctrl-a; config.toml: [terminal] detach_key");
  on_run(*attach, cli, [a, &cli] { return run_attach(cli, *a); });
}

void build_pty(CLI::App& app, invocation& cli) {
  auto n = std::make_shared<new_options>();
  auto* create = app.add_subcommand("new", "start a program on a terminal of its own; without a command, the shell");
  option(*create, "--name", n->name, "name of the terminal, at most 128 bytes");
  option(*create, "--directory", n->directory, "working directory (the current one)", argument::directory);
  option(*create, "--identity", cli.flags.identity, identity_words);
  option(*create, "--env", n->variables, variable_words);
  add_placement(*create, n->placement, "this one");
  flag(*create, "--explain", n->placement.explain, "say why the program runs on the node it does");
  size_flags(*create, n->size);
  on_run(*create, cli, [n, &cli] { return run_new(cli, *n); });
  build_pty_reading(app, cli);
  build_pty_writing(app, cli);
}

constexpr verb verbs[] = {
  {"pty", subject::workers, "manage terminals: new, list, prune, read, send, resize, kill, attach",
   "  swarmctl pty new --name build --json -- make -j2\n"
   "  swarmctl pty new --on gpu-box --name train -- ./train.sh\n"
   "  swarmctl pty read build --follow\n"
   "  swarmctl pty send build \"q\" --enter\n"
   "  swarmctl pty attach build\n"
   "  swarmctl pty prune --dry-run",
   build_pty, nullptr, "new"},
};

} // namespace

std::span<const verb> pty_verbs() { return verbs; }

} // namespace swarm::cli
