#include "cli/recent.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

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

/// Terminals come and go: the files that were not written for longest make room.
void make_room(const fs::path& directory) {
  std::error_code ec;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const auto& f : fs::directory_iterator{directory, ec})
    files.emplace_back(f.last_write_time(ec), f.path());
  if (files.size() < limits::recent_files_max)
    return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + limits::recent_files_max / 2 < files.size(); ++i)
    fs::remove(files[i].second, ec);
}

} // namespace

recent_things recent_things::of_this_terminal(const state_dir& dir) {
  auto me = read_process(getpid());
  if (!me || me->terminal == 0)
    return {};
  auto since = pid_start_time(me->session).value_or(0);
  return recent_things{dir.recent_dir() / concat({me->terminal, "-", me->session, "-", since})};
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
