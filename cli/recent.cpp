#include "cli/recent.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "actors/base/atomic_file.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "actors/base/text.hpp"

namespace swarm::cli {

namespace fs = std::filesystem;

namespace {

const char* name_of(kind_of_thing k) {
  switch (k) {
    case kind_of_thing::task: return "task";
    case kind_of_thing::terminal: return "terminal";
    case kind_of_thing::approval: return "approval";
    case kind_of_thing::conversation: return "conversation";
  }
  return "";
}

/// An array of [kind, node, scope, id], the newest first.
nlohmann::json read_entries(const fs::path& file) {
  std::error_code ec;
  if (auto size = fs::file_size(file, ec); ec || size > limits::recent_file_bytes_max)
    return nlohmann::json::array();
  std::stringstream text;
  text << std::ifstream{file}.rdbuf();
  auto all = nlohmann::json::parse(text.str(), nullptr, false);
  return all.is_array() ? all : nlohmann::json::array();
}

bool is_about(const nlohmann::json& entry, const nlohmann::json& wanted) {
  return entry.is_array() && entry.size() == 4 && entry[3].is_string() && std::equal(wanted.begin(), wanted.end(), entry.begin());
}

nlohmann::json place(kind_of_thing kind, const std::string& node, const std::string& scope) { return {name_of(kind), node, scope}; }

/// What tells the processes of this boot and container from those of others.
std::string place_of_processes() {
  // After a reboot, a process id and a start time may belong to another process.
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  // Containers that share a state directory count their processes each for itself.
  struct stat pids {};
  auto container = stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
  return concat({boot, "-", container, "-"});
}

std::string name_of(const process_stat& p) { return concat({place_of_processes(), p.pid, "-", p.start}); }

/// Behind the process, what else tells the files of a script apart.
constexpr char of_script = '@';

std::string process_in(const std::string& file) { return file.substr(0, file.find(of_script)); }

/// Sessions come and go: the files of those that are over make room, then those that were not written for longest.
void make_room(const fs::path& directory) {
  std::error_code ec;
  std::vector<std::tuple<bool, fs::file_time_type, fs::path>> files;
  for (const auto& f : fs::directory_iterator{directory, ec})
    files.emplace_back(false, f.last_write_time(ec), f.path());
  if (files.size() < limits::recent_files_max)
    return;
  const auto here = place_of_processes();
  std::set<std::string> lasting;
  for (const auto& p : list_processes())
    lasting.insert(concat({here, p.pid, "-", p.start}));
  for (auto& [lasts, written, file] : files)
    lasts = lasting.contains(process_in(file.filename().string()));
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + limits::recent_files_max / 2 < files.size(); ++i)
    fs::remove(std::get<fs::path>(files[i]), ec);
}

/// By the number that /proc has for it, which may show an outer PID namespace than that of getpid().
std::optional<process_stat> this_process() {
  std::error_code ec;
  const auto number = fs::read_symlink("/proc/self", ec).string();
  return number.empty() ? std::nullopt : read_process(std::atoi(number.c_str()));
}

/// The process that tells its session from others of the same number. Empty when it has ended: its start is not known then, and an earlier session of
/// that number may have had it.
std::optional<process_stat> leader_of(const process_stat& me) {
  if (me.session != 0)
    return read_process(me.session);
  // The session began outside of this PID namespace, where its leader has no number: the process with which it came in stands for it.
  auto first = me;
  for (std::size_t i = 0; i < limits::process_ancestors_max && first.parent > 0; ++i) {
    auto parent = read_process(first.parent);
    if (!parent || parent->session != 0)
      break;
    first = *parent;
  }
  return first;
}

std::string command_line_of(pid_t pid) {
  std::stringstream text;
  text << std::ifstream{concat({"/proc/", pid, "/cmdline"})}.rdbuf();
  return text.str();
}

/// `timeout 5 swarmctl …` for instance: its arguments end with those of the process that it runs.
bool only_runs(const process_stat& wrapper, const process_stat& p) {
  const auto line = command_line_of(p.pid);
  return !line.empty() && command_line_of(wrapper.pid).ends_with(std::string(1, '\0') + line);
}

/// A script forks itself for its command substitutions and pipelines.
bool is_forked_as(const process_stat& parent, const process_stat& p) {
  const auto program = executable_of(p.pid);
  return program && program == executable_of(parent.pid) && command_line_of(p.pid) == command_line_of(parent.pid);
}

std::optional<process_stat> parent_process(const process_stat& p) { return p.parent > 0 ? read_process(p.parent) : std::nullopt; }

/// The outermost ancestor that `belongs` ties to the process, each to the one below it.
process_stat outermost(process_stat p, bool (*belongs)(const process_stat& parent, const process_stat&)) {
  for (std::size_t i = 0; i < limits::process_ancestors_max; ++i) {
    auto parent = parent_process(p);
    if (!parent || !belongs(*parent, p))
      break;
    p = *parent;
  }
  return p;
}

/// What runs this program, without a terminal: scripts that were started together share the session of whoever started them.
process_stat script_of(const process_stat& me) {
  const auto command = outermost(me, only_runs);
  const auto script = parent_process(command);
  return script ? outermost(*script, is_forked_as) : command;
}

} // namespace

recent_things recent_things::of_this_terminal(const state_dir& dir) {
  auto me = this_process();
  if (!me)
    return {};
  if (me->terminal == 0) // the leader may end before its scripts do, which keep the number of their session
    return recent_things{dir.recent_dir() / (name_of(script_of(*me)) + of_script + std::to_string(me->session))};
  auto leader = leader_of(*me);
  return leader ? recent_things{dir.recent_dir() / name_of(*leader)} : recent_things{};
}

void recent_things::made(kind_of_thing kind, const std::string& node, const std::string& scope, const std::string& id) const {
  if (file_.empty() || id.empty())
    return;
  auto wanted = place(kind, node, scope);
  auto kept = nlohmann::json::array({{name_of(kind), node, scope, id}});
  for (auto& entry : read_entries(file_))
    if (kept.size() < limits::recent_entries_max && !is_about(entry, wanted))
      kept.push_back(std::move(entry));
  std::error_code ec;
  if (!fs::exists(file_, ec)) {
    fs::create_directory(file_.parent_path(), ec);
    if (!ec)
      fs::permissions(file_.parent_path(), fs::perms::owner_all, ec);
    make_room(file_.parent_path());
  }
  replace_file(file_, kept.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), durability::cached);
}

std::string recent_things::newest(kind_of_thing kind, const std::string& node, const std::string& scope) const {
  if (file_.empty())
    return {};
  auto wanted = place(kind, node, scope);
  for (const auto& entry : read_entries(file_))
    if (is_about(entry, wanted))
      return entry[3].get<std::string>();
  return {};
}

} // namespace swarm::cli
