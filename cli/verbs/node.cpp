// up, down, status, graph, backup, version.
#include "actors/base/limits.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "cli/persons.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "cli/verbs/graph_conversations.hpp"
#include "cli/verbs/hosts_asked.hpp"
#include "cli/verbs/reference.hpp"
#include "gateway/client/node_start.hpp"
#include "gateway/json/shapes.hpp"

#include <algorithm>
#include <iostream>
#include <optional>
#include <tuple>
#include <vector>

#include <unistd.h>

namespace swarm::cli {

namespace {

void need_running(invocation& cli) {
  cli.node().finder.never_start();
  if (cli.node().finder.running())
    return;
  if (cli.node().finder.is_kept_down())
    throw failure(code::no_node,
                  "the node of " + cli.node().finder.state_directory() + " was stopped with swarmctl down, and stays so until: swarmctl up");
  const auto dir = cli.node().finder.state_directory();
  throw failure(code::no_node,
                cli.elsewhere() ? "no node is running for " + dir + "; start one there, over ssh with: swarmctl up" : no_node_text(state_dir{dir}));
}

json restrictions_row(bool known, const v1::Restrictions& r) {
  if (!known)
    return nullptr;
  return {{"no_new_privileges", r.no_new_privileges()}, {"seccomp", r.seccomp()}, {"unit", r.unit().empty() ? json(nullptr) : json(r.unit())}};
}

json refusals_row(const v1::NodeStatus& s) {
  auto out = json::array();
  for (const auto& r : s.refusals())
    out.push_back({{"who", r.who()}, {"operation", r.operation()}, {"count", r.count()}, {"last_at_ms", r.last_at_ms()}});
  return out;
}

/// "12 calls: session decide_approval 3, agent node_shutdown 2, …"
std::string refusals_text(const v1::NodeStatus& s) {
  constexpr int shown = 6;
  std::vector<v1::RefusalCount> all{s.refusals().begin(), s.refusals().end()};
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple{-a.last_at_ms(), a.who(), a.operation()} < std::tuple{-b.last_at_ms(), b.who(), b.operation()};
  });
  std::uint64_t sum = 0;
  for (const auto& r : all)
    sum += r.count();
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), shown); ++i)
    out += concat({i == 0 ? ": " : ", ", all[i].who(), " ", all[i].operation(), " ", std::to_string(all[i].count())});
  return counted(sum, "call") + out + (all.size() > shown ? ", …" : "");
}

json status_row(const v1::NodeStatus& s) {
  return {{"pid", s.pid()},
          {"version", s.version()},
          {"node", s.node_name()},
          {"node_id", s.node_id()},
          {"state_dir", s.state_dir()},
          {"uptime_s", s.uptime_ms() / 1000},
          {"keeper_pid", s.keeper_pid()},
          {"keeper_refused", s.keeper_refused().empty() ? json(nullptr) : json(s.keeper_refused())},
          {"restrictions", restrictions_row(s.has_restrictions(), s.restrictions())},
          {"keeper_restrictions", restrictions_row(s.has_keeper_restrictions(), s.keeper_restrictions())},
          {"not_dumpable", s.not_dumpable()},
          {"has_passphrase", s.has_passphrase()},
          {"connections", s.connections()},
          {"refusals", refusals_row(s)},
          {"scopes", s.scopes()},
          {"instances", s.sessions()},
          {"open_tasks", s.open_tasks()},
          {"locks", s.locks()},
          {"ptys", s.ptys()},
          {"calls_in_flight", s.calls_in_flight()},
          {"commits", s.commits()},
          {"commands", s.commands()},
          {"schema_version", s.schema_version()},
          {"low_disk", s.low_disk()},
          {"integrity", s.integrity()}};
}

v1::ClusterView cluster_if_known(const invocation& cli) {
  try {
    return cli.node().admin.nodes();
  } catch (const call_failed&) {
    return {}; // Not everybody may ask that.
  }
}

/// The home of the cluster, as this node sees it; none without a cluster.
std::optional<v1::ClusterNode> home_of(const v1::ClusterView& view) {
  for (const auto& n : view.nodes())
    if (n.home())
      return n;
  return std::nullopt;
}

int print_status(invocation& cli, const v1::NodeStatus& s, const std::string& recovery_copy = {}) {
  auto& io = cli.io();
  const auto view = cluster_if_known(cli);
  const auto home = home_of(view);
  const auto name_there = name_in_cluster(view, s.node_name());
  if (cli.json_wanted()) {
    auto row = status_row(s);
    row["cluster"] = home ? json{{"home", home->info().node_name()},
                                 {"link", link_text(home->link())},
                                 {"last_heard_ms", home->last_heard_ms()},
                                 {"name", name_there.empty() ? s.node_name() : name_there}}
                          : json(nullptr);
    if (!recovery_copy.empty())
      row["recovery_copy"] = recovery_copy; // it is there this once
    io.print(row);
    return code::ok;
  }
  io.painted_line(io.paint(colour::bold, s.node_name()) + "  " + io.paint(colour::green, "up " + duration(s.uptime_ms())) +
                  io.paint(colour::none, "  pid " + std::to_string(s.pid()) + "  version " + s.version()));
  io.line("  state      " + s.state_dir());
  io.line("  keeper     " + (s.keeper_pid() != 0          ? "pid " + std::to_string(s.keeper_pid())
                             : s.keeper_refused().empty() ? std::string{"is starting"}
                                                          : "NOT TAKEN OVER: " + s.keeper_refused()));
  io.line(concat({"  live       ", counted(s.scopes(), "scope"), ", ", counted(s.sessions(), "instance"), ", ", counted(s.open_tasks(), "open task"),
                  ", ", counted(s.locks(), "lock"), ", ", counted(s.ptys(), "terminal")}));
  if (home)
    io.line("  cluster    home " + home->info().node_name() + ", " + link_state(*home, cli.now_ms()) +
            (has_revoked_us(*home) ? "; run: swarmctl leave" : ""));
  if (!name_there.empty())
    io.line("  name       " + name_is_taken(s.node_name(), name_there));
  io.line(concat({"  store      ", counted(s.commands(), "command"), " in ", counted(s.commits(), "commit"), ", integrity ", s.integrity(),
                  s.low_disk() ? ", LOW DISK: nothing that grows it is accepted" : ""}));
  if (!s.refusals().empty())
    io.line("  refused    " + refusals_text(s) + "; the log says why");
  return code::ok;
}

struct up_options {
  bool foreground = false;
  bool take_keeper = false;
  std::string name;
  cluster_options cluster;
};

/// A node that runs without the keeper that it did not take over is started again, with it.
void take_keeper(invocation& cli) {
  auto& finder = cli.node().finder;
  finder.take_keeper();
  if (!finder.running() || cli.node().admin.status().keeper_refused().empty())
    return;
  v1::ShutdownRequest request;
  request.set_keep_keeper(true);
  const auto pid = cli.node().admin.shutdown(request).pid();
  if (!finder.wait_for_exit(pid, limits::server_wait_max().count()))
    throw failure(code::refused, "the node that runs (pid " + std::to_string(pid) + ") does not stop; look into its log");
}

int run_up(invocation& cli, const up_options& o) {
  if (o.foreground && o.take_keeper)
    throw usage("--foreground and --take-keeper exclude each other: swarmd --take-keeper does both");
  if (o.foreground && !o.cluster.listen.empty())
    throw usage("--foreground and --listen exclude each other: a node remembers where it listens");
  if (o.foreground) {
    if (cli.node().finder.running())
      throw failure(code::refused, "a node is running already; stop it with: swarmctl down");
    cli.node().finder.start_in_foreground(o.name);
  }
  if (o.take_keeper)
    take_keeper(cli);
  cli.node().finder.start(o.name);
  auto s = cli.node().admin.status();
  // Also when none ran a moment ago: of several who start it at once, one gives the name.
  if (!o.name.empty() && o.name != s.node_name())
    throw failure(code::refused, "a node named " + s.node_name() + " is running already; stop it with: swarmctl down");
  std::string recovery_copy;
  if (!o.cluster.listen.empty())
    recovery_copy = found_cluster(cli, o.cluster);
  print_status(cli, s, recovery_copy);
  const auto view = cluster_if_known(cli);
  if (const auto unreached = unreached_home(view); !unreached.empty())
    cli.io().error("the node runs, but " + unreached);
  const auto name_there = o.name.empty() ? std::string{} : name_in_cluster(view, s.node_name());
  if (name_there.empty())
    return code::ok;
  throw failure(code::refused, "the node runs, but " + name_is_taken(s.node_name(), name_there));
}

void build_up(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<up_options>();
  flag(app, "--foreground", o->foreground, "stay in this terminal until Ctrl-C");
  flag(app, "--take-keeper", o->take_keeper, "take over the keeper that runs, also with other restrictions than those that this node has");
  option(app, "--node-name", o->name, "name of the node (the host's)");
  option(app, "--listen", o->cluster.listen,
         "HOST:PORT at which other hosts reach this node, which becomes the home of a cluster; an address of this host that they can call");
  option(app, "--passphrase-file", o->cluster.passphrase_file,
         "with --listen: file whose first line is the passphrase of the cluster's authority; - = standard input", argument::file);
  flag(app, "--insecure-ca", o->cluster.insecure, "with --listen: keep the authority's key without a passphrase, for trials");
  on_run(app, cli, [o, &cli] { return run_up(cli, *o); });
}

struct down_options {
  bool keep_programs = false;
  bool yes = false;
};

/// What runs on terminals or pipes of this node, and ends with it. Empty also when that cannot be found out: stopping must work all the same.
std::vector<v1::PtyInfo> programs_of_node(const invocation& cli) {
  try {
    auto id = cli.node().admin.status().node_id();
    auto all = all_terminals(cli, true);
    std::erase_if(all, [&](const auto& p) { return !p.running() || (!p.node_id().empty() && p.node_id() != id); });
    return all;
  } catch (const call_failed& f) {
    cli.io().error(std::string{"which programs run could not be found out: "} + f.what());
    return {};
  }
}

/// Conversations whose turn ends with the node: their agents work, or ask somebody. Empty as above.
std::vector<v1::Conversation> turns_of_node(const invocation& cli) {
  std::vector<v1::Conversation> out;
  try {
    const auto id = cli.node().admin.status().node_id();
    for (const auto& scope : all_scopes(cli, "down")) {
      auto q = cli.query();
      q.set_scope(scope);
      q.mutable_list_conversations()->set_open_only(true);
      for (auto& c : all_rows<v1::Conversation>(cli, std::move(q)))
        if (c.node_id() == id && !c.open_turn().empty())
          out.push_back(std::move(c));
    }
  } catch (const failure& f) {
    cli.io().error(std::string{"which conversations are at work could not be found out: "} + f.what());
  }
  return out;
}

std::string one_turn(const v1::Conversation& c) {
  return concat({short_id(c.id()), "  ", c.harness(), c.state() == v1::Conversation::BLOCKED ? " (asks somebody)  " : "  ", c.title()});
}

std::string one_program(const v1::PtyInfo& p) {
  auto command = joined({p.argv().begin(), p.argv().end()});
  return short_id(p.id()) + "  " + (p.name().empty() ? "" : p.name() + "  ") + command;
}

/// Whether to go on. Asks only somebody who can answer.
bool agreed(invocation& cli, const down_options& o, const std::vector<v1::PtyInfo>& programs, const std::vector<v1::Conversation>& turns = {}) {
  const bool nothing_ends = programs.empty() && turns.empty();
  if (o.yes || o.keep_programs || nothing_ends || cli.json_wanted() || isatty(STDIN_FILENO) != 1 || !cli.io().err_is_terminal())
    return true;
  std::string question;
  if (!programs.empty())
    question =
      counted(programs.size(), "program") + (programs.size() == 1 ? " runs on this node and ends with it:" : " run on this node and end with it:");
  for (const auto& p : programs)
    question += "\n  " + escape_control(one_program(p), false);
  if (!turns.empty())
    question += (question.empty() ? "" : "\n") + counted(turns.size(), "conversation") +
                (turns.size() == 1 ? " is at work, and its turn fails:" : " are at work, and their turns fail:");
  for (const auto& c : turns)
    question += "\n  " + escape_control(one_turn(c), false);
  cli.io().error(question);
  cli.io().raw_error("End them? [y/N] (--keep-programs lets them go on) ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void tell_ended(const invocation& cli, const std::vector<v1::PtyInfo>& programs) {
  if (programs.empty())
    return;
  std::string text = "ended " + counted(programs.size(), "program") + ":";
  for (const auto& p : programs)
    text += "\n  " + escape_control(one_program(p), false);
  cli.io().error(text);
}

void tell_failed(const invocation& cli, const std::vector<v1::Conversation>& turns) {
  if (turns.empty())
    return;
  std::string text = "ended the turn of " + counted(turns.size(), "conversation") + ":";
  for (const auto& c : turns)
    text += "\n  " + escape_control(one_turn(c), false);
  cli.io().error(text);
}

json ended_rows(const std::vector<v1::PtyInfo>& programs) {
  auto ended = json::array();
  for (const auto& p : programs)
    ended.push_back(mcp::pty(p));
  return ended;
}

/// What an earlier `down --keep-programs`, or a crash, has left. Empty also when that cannot be found out.
std::vector<v1::PtyInfo> programs_without_node(const invocation& cli) {
  try {
    return cli.node().finder.kept_programs();
  } catch (const call_failed& f) {
    cli.io().error(std::string{"which programs run could not be found out: "} + f.what());
    return {};
  }
}

/// A process that owns the state directory without answering comes up, then it is true, or is on its way out. One that does neither is refused.
bool await_owner(invocation& cli) {
  const state_dir dir{cli.node().finder.state_directory()};
  if (!living_owner(dir.lock_file()))
    return false;
  owner_news news{dir.lock_file(), dir.socket()};
  if (cli.node().finder.running())
    return true;
  news.wait(std::chrono::milliseconds{milliseconds_of(cli.flags.timeout_s, "--timeout")});
  if (cli.node().finder.running())
    return true;
  if (living_owner(dir.lock_file()))
    throw failure(code::refused, no_node_text(dir));
  return false;
}

/// No node runs, so the mark is written that keeps others from starting one, and what goes on without it is ended. Nothing when a node has come up
/// meanwhile.
std::optional<int> keep_down(invocation& cli, const down_options& o) {
  if (!cli.elsewhere() && await_owner(cli))
    return std::nullopt;
  auto programs = cli.elsewhere() || o.keep_programs ? std::vector<v1::PtyInfo>{} : programs_without_node(cli);
  if (!agreed(cli, o, programs))
    throw failure(code::refused, "nothing was stopped");
  bool programs_go_on = !cli.elsewhere() && cli.node().finder.keep_down();
  if (cli.node().finder.running())
    return std::nullopt;
  if (!programs.empty()) {
    programs = cli.node().finder.end_kept_programs();
    if (programs.empty() && cli.node().finder.running())
      return std::nullopt; // they are its own again
    programs_go_on = false;
  }
  tell_ended(cli, programs);
  if (programs_go_on && !o.keep_programs)
    throw failure(code::refused, "programs in terminals go on without a node; to end them: swarmctl up, then swarmctl down");
  if (cli.json_wanted())
    cli.io().print({{"ok", true}, {"pid", nullptr}, {"ended", ended_rows(programs)}});
  else
    cli.io().line(std::string{"no node is running"} + (programs_go_on ? "; programs in terminals go on" : "") +
                  (cli.elsewhere() ? "" : "; it stays down until: swarmctl up"));
  return code::ok;
}

int run_down(invocation& cli, const down_options& o) {
  cli.node().finder.never_start();
  if (!cli.node().finder.running())
    if (auto status = keep_down(cli, o))
      return *status;
  refuse_who_is_not_operator(cli, [&] {
    v1::ShutdownRequest harmless;
    harmless.set_keep_keeper(true);
    cli.node().admin.shutdown(harmless);
  });
  auto programs = o.keep_programs ? std::vector<v1::PtyInfo>{} : programs_of_node(cli);
  const auto turns = o.keep_programs ? std::vector<v1::Conversation>{} : turns_of_node(cli);
  if (!agreed(cli, o, programs, turns))
    throw failure(code::refused, "nothing was stopped");
  v1::ShutdownRequest request;
  request.set_keep_keeper(o.keep_programs);
  request.set_stays_down(true);
  auto began = cli.boot_ms();
  auto pid = cli.node().admin.shutdown(request).pid();
  auto left = milliseconds_of(cli.flags.timeout_s, "--timeout") - (cli.boot_ms() - began);
  // A user who reads "stopped" may start another one or move the state directory.
  if (!cli.node().finder.wait_for_exit(pid, left))
    throw failure(code::deadline, "the node is still stopping (pid " + std::to_string(pid) + ")");
  tell_ended(cli, programs);
  tell_failed(cli, turns);
  if (cli.json_wanted()) {
    cli.io().print({{"ok", true}, {"pid", pid}, {"ended", ended_rows(programs)}});
  } else {
    cli.io().line("stopped the node (pid " + std::to_string(pid) + ")" + (o.keep_programs ? "; programs in terminals go on" : "") +
                  "; it stays down until: swarmctl up");
  }
  return code::ok;
}

void build_down(CLI::App& app, invocation& cli) {
  auto o = std::make_shared<down_options>();
  flag(app, "--keep-programs", o->keep_programs, "let programs in terminals go on, and the agents of conversations");
  flag(app, "--yes", o->yes, "end them without a question");
  on_run(app, cli, [o, &cli] { return run_down(cli, *o); });
}

void build_status(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] {
    need_running(cli);
    return print_status(cli, cli.node().admin.status());
  });
}

json graph_row(const v1::GraphNode& n) {
  return {{"path", n.path()},         {"kind", n.kind()},       {"state", n.state()},   {"age_ms", n.age_ms()},
          {"restarts", n.restarts()}, {"mailbox", n.mailbox()}, {"detail", n.detail()}, {"node", n.node().empty() ? json(nullptr) : json(n.node())}};
}

/// Parents come before children, so the depth is the number of nodes above whose path is a prefix.
std::vector<std::size_t> depths(const v1::ActorGraph& graph) {
  std::vector<std::size_t> out;
  std::vector<std::string> above;
  std::string node;
  for (const auto& n : graph.nodes()) {
    if (std::exchange(node, n.node()) != n.node())
      above.clear();
    while (!above.empty() && n.path().rfind(above.back() + "/", 0) != 0)
      above.pop_back();
    out.push_back(above.size());
    above.push_back(n.path());
  }
  return out;
}

std::string last_part(const v1::ActorGraph& graph, int i, std::size_t depth) {
  const auto& path = graph.nodes(i).path();
  if (depth == 0)
    return graph.nodes(i).node().empty() ? path : path + " of " + graph.nodes(i).node();
  // The parent's path is known exactly; a scope's own name contains slashes.
  for (int p = i - 1; p >= 0; --p)
    if (graph.nodes(p).node() == graph.nodes(i).node() && path.rfind(graph.nodes(p).path() + "/", 0) == 0)
      return path.substr(graph.nodes(p).path().size() + 1);
  return path;
}

int run_graph(invocation& cli, bool here) {
  need_running(cli);
  v1::GraphRequest request;
  request.set_here(here);
  if (!cli.flags.scope.empty())
    request.set_scope(cli.scope());
  auto graph = cli.node().admin.graph(request);
  add_conversations(cli, graph);
  if (cli.json_wanted()) {
    auto nodes = json::array();
    for (const auto& n : graph.nodes())
      nodes.push_back(graph_row(n));
    cli.io().print({{"nodes", nodes}});
    return code::ok;
  }
  auto& io = cli.io();
  auto depth = depths(graph);
  for (int i = 0; i < graph.nodes_size(); ++i) {
    const auto& n = graph.nodes(i);
    auto at = depth[static_cast<std::size_t>(i)];
    auto is = [&](auto... states) { return ((n.state() == states) || ...); };
    auto c = is("waiting", "silent") ? colour::red : is("ending", "ended") ? colour::yellow : colour::green;
    io.painted_line(std::string(at * 2, ' ') + io.paint(colour::bold, last_part(graph, i, at)) + "  " + io.paint(colour::dim, n.kind()) + "  " +
                    io.paint(c, n.state()) +
                    io.paint(colour::none, concat({"  age ", duration(n.age_ms()), "  restarts ", n.restarts(), "  mailbox ", n.mailbox(),
                                                   n.detail().empty() ? "" : "  ", n.detail()})));
  }
  return code::ok;
}

void build_graph(CLI::App& app, invocation& cli) {
  auto here = std::make_shared<bool>(false);
  flag(app, "--here", *here, "only this node, not the others of its cluster");
  on_run(app, cli, [here, &cli] { return run_graph(cli, *here); });
}

int run_backup(invocation& cli, const std::string& file, bool with_logs) {
  if (file.empty())
    throw usage("file is empty; give the name of the file to write");
  if (cli.elsewhere() && !file.starts_with('/'))
    throw usage("the node writes the file on its own host: give an absolute path of that host");
  v1::BackupRequest request;
  request.set_path(normalize_path(file, cli.directory()));
  request.set_with_logs(with_logs);
  auto reply = cli.node().admin.backup(request);
  if (cli.json_wanted()) {
    json out{{"ok", true}, {"path", request.path()}, {"bytes", reply.bytes()}, {"pages", reply.pages()}};
    if (with_logs) {
      out["conversations"] = reply.conversations();
      out["conversation_bytes"] = reply.conversation_bytes();
    }
    cli.io().print(out);
    return code::ok;
  }
  cli.io().line("backed up to " + request.path() + " (" + byte_count(reply.bytes()) + ")");
  if (with_logs)
    cli.io().line(concat({"the logs of ", counted(reply.conversations(), "conversation"), " to ", request.path(), ".conversations (",
                          byte_count(reply.conversation_bytes()), ")"}));
  return code::ok;
}

void build_backup(CLI::App& app, invocation& cli) {
  auto file = std::make_shared<std::string>();
  auto with_logs = std::make_shared<bool>(false);
  option(app, "file", *file, "file to write; must not exist", argument::file)->required();
  flag(app, "--with-logs", *with_logs, "also what was said in conversations, in the directory FILE.conversations");
  on_run(app, cli, [file, with_logs, &cli] { return run_backup(cli, *file, *with_logs); });
}

int run_restore(invocation& cli, const std::string& file) {
  if (file.empty())
    throw usage("file is empty; give the name of the backup");
  cli.node().finder.never_start();
  if (cli.node().finder.running())
    throw failure(code::refused, "the node is running; stop it first: swarmctl down");
  auto path = normalize_path(file, cli.directory());
  auto old = cli.node().finder.restore(path);
  if (cli.json_wanted()) {
    cli.io().print({{"ok", true}, {"path", path}, {"replaced", mcp::text_or_null(old)}});
    return code::ok;
  }
  cli.io().line("restored " + path + (old.empty() ? "" : "; what was there before is in " + old));
  cli.io().error("start the node with: swarmctl up. Programs that go on and that the backup does not know end then");
  return code::ok;
}

void build_restore(CLI::App& app, invocation& cli) {
  auto file = std::make_shared<std::string>();
  option(app, "file", *file, "what swarmctl backup has written", argument::file)->required();
  on_run(app, cli, [file, &cli] { return run_restore(cli, *file); });
}

void build_version(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] {
    if (cli.json_wanted())
      cli.io().print({{"version", SWARM_VERSION}});
    else
      cli.io().line("swarmctl " SWARM_VERSION);
    return code::ok;
  });
}

constexpr verb verbs[] = {
  {"up", subject::node, "start the node if it does not run", "  swarmctl up\n  swarmctl up --foreground --node-name workshop", build_up, nullptr, "",
   nullptr, node_choice::current, "this starts a node on this one; there: swarmctl up, over ssh"},
  {"down", subject::node, "stop the node, which then stays down until up, and wait until it has ended", "  swarmctl down --keep-programs",
   build_down},
  {"status", subject::node, "show the node's state", "  swarmctl status --json", build_status},
  {"graph", subject::node, "show the live actors of all nodes; --scope shows those of one scope", "  swarmctl graph\n  swarmctl graph --here --json",
   build_graph},
  {"backup", subject::node, "copy the store while the node runs",
   "  swarmctl backup /var/backups/swarm.db\n  swarmctl backup --with-logs /var/backups/swarm.db", build_backup},
  {"restore", subject::node, "put a backup in the place of the store of a node that is stopped",
   "  swarmctl down\n  swarmctl restore /var/backups/swarm.db\n  swarmctl up", build_restore, nullptr, "", nullptr, node_choice::current,
   "this replaces the store of a node of this host; there: swarmctl restore, over ssh"},
  {"version", subject::node, "print the version of this program", "  swarmctl version", build_version, nullptr, "", nullptr, node_choice::own},
};

} // namespace

std::span<const verb> node_verbs() { return verbs; }

} // namespace swarm::cli
