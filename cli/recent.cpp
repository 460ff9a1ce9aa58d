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
  // Numbers of processes and their start times begin anew with each boot.
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  // Containers that share a state directory count their processes each for itself.
  struct stat pids {};
  auto container = stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
  return concat({boot, "-", container, "-"});
}

std::string file_of(const process_stat& leader) { return concat({place_of_processes(), leader.pid, "-", leader.start}); }

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
    lasts = lasting.contains(file.filename().string());
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

} // namespace

recent_things recent_things::of_this_terminal(const state_dir& dir) {
  auto me = this_process();
  auto leader = me ? leader_of(*me) : std::nullopt;
  if (!leader)
    return {};
  return recent_things{dir.recent_dir() / file_of(*leader)};
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
