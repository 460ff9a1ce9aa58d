#include "actors/agents/ancestry.hpp"

#include <algorithm>
#include <array>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

using names = std::span<const std::string_view>;

constexpr int walk_attempts = 5;
constexpr std::array<std::string_view, 6> multiplexers{"tmux", "screen", "zellij", "dtach", "abduco", "shpool"};
constexpr std::array<std::string_view, 12> editors{"code",  "codium", "cursor", "windsurf", "zed",  "zed-editor",
                                                   "emacs", "vim",    "nvim",   "idea",     "subl", "kate"};
constexpr std::array<std::string_view, 6> service_managers{"systemd", "init", "runit", "dinit", "s6-svscan", "openrc-init"};
constexpr std::array<std::string_view, 4> script_interpreters{"node", "nodejs", "bun", "deno"};
// Of node and python: what follows is theirs, or there is no script.
constexpr std::array<std::string_view, 9> options_with_value{"-r", "--require", "--import", "--loader",    "--experimental-loader",
                                                             "-W", "-X",        "-C",       "--conditions"};

bool holds(names list, std::string_view word) { return std::find(list.begin(), list.end(), word) != list.end(); }

bool is_part_of(names parts, std::string_view path) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return path.find(part) != path.npos; });
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// A replaced file's path has something behind it, and the packages of some programs call them .exe everywhere.
std::string_view program_in(std::string_view path) { return without_suffix(base_name(without_suffix(path, " (deleted)")), ".exe"); }

/// Of a process whose executable may not be seen, its own word has to do: "tmux: server" is tmux, SCREEN is screen.
std::string program_of(const look& l) {
  if (!l.executable.empty())
    return std::string{program_in(l.executable)};
  std::string_view word = !l.arguments.empty() && !l.arguments[0].empty() ? std::string_view{l.arguments[0]} : l.name;
  word = word.substr(0, word.find_first_of(": "));
  auto out = std::string{program_in(word)};
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return out;
}

bool is_python(std::string_view program) { return program.starts_with("python"); }
bool is_interpreter(std::string_view program) { return holds(script_interpreters, program) || is_python(program); }

struct script {
  std::string_view path;
  std::string_view module;
};

/// The first argument that is no option.
script script_of(const look& l, bool python) {
  for (std::size_t i = 1; i < l.arguments.size(); ++i) {
    std::string_view word = l.arguments[i];
    if (python && word == "-m")
      return {{}, i + 1 < l.arguments.size() ? std::string_view{l.arguments[i + 1]} : std::string_view{}};
    if (word == "-c" || word == "-e" || word == "-p" || word == "--eval")
      return {};
    if (holds(options_with_value, word))
      ++i;
    else if (word == "run" && program_of(l) != "node" && !python)
      continue; // bun run SCRIPT, deno run SCRIPT
    else if (!word.starts_with('-'))
      return {word, {}};
  }
  return {};
}

std::string_view script_name(std::string_view path) {
  auto out = base_name(path);
  for (auto suffix : {".js", ".cjs", ".mjs", ".py"})
    out = without_suffix(out, suffix);
  return out;
}

bool is_of(const agent& a, const look& l, const std::string& program, const script& s) {
  if (holds(a.looks.helpers, l.name))
    return false;
  if (program == a.name || l.name == a.name || is_part_of(a.looks.executables, l.executable))
    return true;
  if (!s.path.empty() && (script_name(s.path) == a.name || is_part_of(a.looks.scripts, s.path)))
    return true;
  return std::any_of(a.looks.modules.begin(), a.looks.modules.end(),
                     [&](std::string_view m) { return s.module == m || (s.module.starts_with(m) && s.module.substr(m.size()).starts_with('.')); });
}

std::optional<lineage> climb(const process_view& all, pid_t pid) {
  auto at = all.process(pid);
  if (!at)
    return std::nullopt;
  lineage out;
  while (at->parent > 0 && at->pid != at->parent) {
    if (out.processes.size() >= limits::process_ancestors_max)
      return std::nullopt;
    auto parent = all.process(at->parent);
    auto again = all.process(at->pid);
    if (!again || again->parent != at->parent || again->start != at->start)
      return std::nullopt;
    out.processes.push_back(std::move(*at));
    if (!parent) {
      out.hidden = true; // it lives, or its child would have another parent by now
      return out;
    }
    // A parent younger than its child is another process with a recycled number.
    if (parent->start > again->start)
      return std::nullopt;
    at = std::move(parent);
  }
  out.processes.push_back(std::move(*at));
  return out;
}

look look_at(const process_view& all, const named_process& p) {
  look out{all.executable_of(p.pid).value_or(""), p.name, {}};
  // Arguments tell something where the executable is an interpreter's, or cannot be seen.
  if (out.executable.empty() || is_interpreter(program_in(out.executable)))
    out.arguments = all.arguments_of(p.pid);
  return out;
}

bool is_manager(const named_process& p, const look& l) { return p.pid == 1 || holds(service_managers, program_of(l)); }

/// A server of terminals has left the shell in which somebody started it. One that has not is no more than a program of that name.
bool has_left(const process_view& all, const lineage& line, std::size_t at) {
  if (at + 1 >= line.processes.size())
    return true;
  const auto& parent = line.processes[at + 1];
  return is_manager(parent, look_at(all, parent));
}

std::string mark_of(const process_view& all, pid_t pid, const std::optional<pid_t>& server) {
  const auto environment = all.environment_of(pid);
  if (!environment)
    return {};
  auto of_server = server ? all.environment_of(*server) : std::nullopt;
  for (const auto& a : agents::all())
    for (const auto& m : a.marks) {
      auto value = variable_in(*environment, m.name);
      if (!value || value->empty() || (!m.value.empty() && *value != m.value))
        continue;
      // The panes of a server that was first started by an agent have its variables, and are people's.
      if (of_server && variable_in(*of_server, m.name) == value)
        continue;
      return std::string{m.name} + "=" + *value;
    }
  return {};
}

/// The service manager's child that a process comes from, and the kernel session of the manager itself.
struct managed {
  std::size_t child;
  pid_t session;
};

using known_agents = std::function<const agent*(const process_stat&)>;

/// A process that an agent leaves behind stays in the agent's process group unless it is led out, and is younger.
bool an_agent_may_have_left(const process_view& all, const named_process& p, const known_agents& is_known) {
  const auto group = all.group(p.group);
  return std::any_of(group.begin(), group.end(), [&](const named_process& other) {
    return other.start <= p.start && other.pid != p.pid && (is_known(other) || recognise(look_at(all, other)));
  });
}

bool is_orphaned(const process_view& all, const lineage& line, const managed& by, const known_agents& is_known) {
  for (std::size_t i = 0; i <= by.child; ++i)
    if (line.processes[i].session == line.processes[i].pid)
      return false;
  // In a container the first process may be a person's shell or script: what it starts is in its session, and so is what it has taken over.
  const auto& child = line.processes[by.child];
  return child.session != by.session || an_agent_may_have_left(all, child, is_known);
}

role role_of(const process_view& all, const lineage& line, std::size_t at, const look& l) {
  const auto program = program_of(l);
  if (holds(multiplexers, program))
    return has_left(all, line, at) ? role::multiplexer : role::plain;
  if (is_manager(line.processes[at], l))
    return role::service_manager;
  return holds(editors, program) ? role::editor : role::plain;
}

} // namespace

const agent* recognise(const look& l) {
  const auto program = program_of(l);
  const auto s = is_interpreter(program) ? script_of(l, is_python(program)) : script{};
  for (const auto& a : all())
    if (is_of(a, l, program, s))
      return &a;
  return nullptr;
}

std::string name_of(const look& l) {
  auto program = program_of(l);
  if (is_interpreter(program))
    if (auto s = script_of(l, is_python(program)); !s.path.empty() || !s.module.empty())
      return std::string{s.path.empty() ? s.module : base_name(s.path)};
  return program;
}

std::optional<lineage> lineage_of(const process_view& all, pid_t pid) {
  if (pid <= 0)
    return std::nullopt;
  for (int i = 0; i < walk_attempts; ++i)
    if (auto line = climb(all, pid))
      return line;
  return std::nullopt;
}

standing standing_of(const process_view& all, const lineage& line, uid_t us, const known_agents& is_known_root) {
  standing out;
  std::optional<managed> by;
  for (std::size_t i = 0; i < line.processes.size(); ++i) {
    const auto& p = line.processes[i];
    const auto seen = look_at(all, p);
    relative r{p.pid, p.start, name_of(seen), role_of(all, line, i, seen), nullptr};
    const auto is_closed = seen.executable.empty() && all.user_of(p.pid).value_or(us) != us;
    if (r.is == role::service_manager && !by && i > 0)
      by = managed{i - 1, p.session};
    if (is_closed) {
      out.end = p.pid == 1 ? walk_end::top : walk_end::stranger;
    } else if ((r.agent = is_known_root(p)) || ((r.is == role::plain || r.is == role::service_manager) && (r.agent = recognise(seen)))) {
      r.is = role::agent;
      out.root = i;
      out.end = walk_end::agent;
    } else if (r.is == role::multiplexer) {
      out.end = walk_end::multiplexer;
    }
    out.chain.push_back(std::move(r));
    if (is_closed || out.root || out.end == walk_end::multiplexer)
      break;
  }
  if (out.end == walk_end::top && line.hidden) {
    // The first process of the machine, which another user's eyes may not see, has only itself in its session.
    const auto& last = line.processes.back();
    if (last.parent == 1 && !by)
      by = managed{line.processes.size() - 1, 1};
    else
      out.end = walk_end::hidden;
  }
  if (out.root)
    return out;
  out.mark = mark_of(all, line.processes.front().pid, out.end == walk_end::multiplexer ? std::optional{out.chain.back().pid} : std::nullopt);
  out.is_orphan = out.end == walk_end::top && by && is_orphaned(all, line, *by, is_known_root);
  return out;
}

bool runs_for(const process_view& all, pid_t pid, pid_t agent) {
  const auto line = lineage_of(all, pid);
  if (!line)
    return false;
  for (const auto& p : line->processes)
    if (p.pid == agent || recognise(look_at(all, p)))
      return p.pid == agent;
  return false;
}

std::string reason_for_suspicion(const process_view& all, pid_t pid, uid_t us) {
  const auto line = lineage_of(all, pid);
  if (!line)
    return {};
  const auto at = standing_of(all, *line, us);
  if (at.root)
    return concat({"this process was started by the agent ", at.chain[*at.root].agent->name, " (process ", at.chain[*at.root].pid, ")"});
  if (!at.mark.empty())
    return "this process has " + at.mark + " in its environment, which agents set for the commands of their tools";
  return at.is_orphan ? "who started this process has ended, or is a container's first process beside an agent" : std::string{};
}

} // namespace swarm::agents
