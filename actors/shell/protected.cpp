#include "actors/shell/protected.hpp"

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/words.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fnmatch.h>

namespace swarm::shell {

namespace {

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    auto part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty())
      out.emplace_back(part);
  }
  return out;
}

/// Leading directories without a wildcard, as a path.
std::string literal_part(std::string_view pattern) {
  auto special = std::min(pattern.find_first_of("*?["), pattern.size());
  auto slash = pattern.rfind('/', special);
  return plain(pattern.substr(0, slash == pattern.npos ? 0 : slash));
}

bool reaches(const written_path& written, const std::vector<std::string>& path, const std::vector<std::string>& directory) {
  auto common = std::min(path.size(), directory.size());
  for (std::size_t i = 0; i < common; ++i)
    if (written.pattern ? fnmatch(path[i].c_str(), directory[i].c_str(), 0) != 0 : path[i] != directory[i])
      return false;
  return path.size() >= directory.size() || written.tree;
}

} // namespace

std::vector<std::string> fabric_directories(const std::function<std::string(const std::string&)>& variable, const std::vector<std::string>& further) {
  std::vector<std::string> out;
  auto add = [&](const std::string& path) {
    auto normal = path.starts_with('/') ? normalize_path(path, "/") : std::string{};
    // A mistake in a variable must not stop every write.
    if (normal.size() > 1 && std::find(out.begin(), out.end(), normal) == out.end())
      out.push_back(std::move(normal));
  };
  auto add_below = [&](const std::string& name, const std::string& below_home, const std::string& directory) {
    if (auto given = variable(name); !given.empty())
      add(given + "/" + directory);
    if (auto home = variable("HOME"); !home.empty())
      add(home + below_home + "/" + directory);
  };
  for (const auto& path : further)
    add(path);
  add_below("XDG_STATE_HOME", "/.local/state", "swarm");
  add_below("XDG_CONFIG_HOME", "/.config", "swarm");
  return out;
}

std::map<std::string, std::string> file_variables(const std::function<std::string(const std::string&)>& variable) {
  std::map<std::string, std::string> out;
  for (const auto* name :
       {"SWARM_HOME", "SWARM_MCP_PROFILE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"})
    if (auto value = variable(name); !value.empty())
      out.emplace(name, std::move(value));
  return out;
}

const std::string* reached_directory(const written_path& written, std::span<const std::string> directories) {
  std::vector<std::vector<std::string>> spellings{parts_of(written.path)};
  if (!written.pattern) {
    spellings.push_back(parts_of(target_path(written.path)));
  } else if (auto literal = literal_part(written.path); !literal.empty()) {
    // Only what comes before the first wildcard can be resolved.
    auto real = parts_of(target_path(literal));
    std::string quoted;
    for (const auto& part : real) {
      quoted += '/';
      for (auto c : part)
        add_quoted(quoted, c);
    }
    auto all = parts_of(quoted);
    const auto& given = spellings.front();
    all.insert(all.end(), given.begin() + static_cast<std::ptrdiff_t>(std::min(parts_of(literal).size(), given.size())), given.end());
    spellings.push_back(std::move(all));
  }
  for (const auto& directory : directories)
    for (const auto& name : {directory, target_path(directory)}) {
      auto parts = parts_of(name);
      if (!parts.empty() && std::any_of(spellings.begin(), spellings.end(), [&](const auto& s) { return reaches(written, s, parts); }))
        return &directory;
    }
  return nullptr;
}

} // namespace swarm::shell
