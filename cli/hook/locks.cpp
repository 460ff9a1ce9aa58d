#include "cli/hook/locks.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/worktree.hpp"
#include "gateway/session/lock_target.hpp"

#include <algorithm>
#include <filesystem>

#include <fnmatch.h>
#include <glob.h>

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;

std::string logical(const std::string& path, const hook_memory& me) {
  const auto& directory = me.directory.empty() ? path : me.directory;
  return repository_path(me.directory.empty() ? path : resolve_file(path, directory, me.file_root, me.root.empty() ? directory : me.root), me.scope);
}

void add(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

/// Length of the leading directories without a wildcard.
std::size_t literal_part(const std::string& pattern) {
  auto special = std::min(pattern.find_first_of("*?[\\"), pattern.size());
  auto slash = pattern.rfind('/', special);
  return slash == pattern.npos ? 0 : slash;
}

bool fits(const shell::written_path& w, const std::string& name, const std::string& path) {
  if (!w.pattern)
    return name == path || (w.tree && is_inside(name, path));
  if (fnmatch(name.c_str(), path.c_str(), FNM_PATHNAME) == 0)
    return true;
  // The path may lie below a directory that matches the pattern.
  if (w.tree)
    for (auto slash = path.rfind('/'); slash != path.npos && slash > 0; slash = path.rfind('/', slash - 1))
      if (fnmatch(name.c_str(), path.substr(0, slash).c_str(), FNM_PATHNAME) == 0)
        return true;
  return false;
}

} // namespace

std::string canonical_path(const std::string& path) { return mcp::follow_links(path, {}); }

std::string lock_name(const std::string& path, const hook_memory& me) {
  return logical(mcp::follow_links(path, me.scope.starts_with('/') ? me.scope : me.root), me);
}

path_matcher::path_matcher(const std::vector<shell::written_path>& written, const hook_memory& me) {
  for (const auto& w : written) {
    entry e;
    e.written = w;
    // Only the part before the first wildcard can be resolved.
    auto fixed = w.pattern ? literal_part(w.path) : w.path.size();
    auto rest = w.path.substr(fixed);
    auto head = fixed == 0 ? "/" : w.path.substr(0, fixed);
    auto real = canonical_path(head);
    auto whole = [&](const std::string& start) { return start == "/" && !rest.empty() ? rest : start + rest; };
    for (const auto& start : {head, real}) {
      add(e.files, whole(start));
      add(e.names, whole(start));
    }
    for (const auto& start : {head, real})
      add(e.names, whole(logical(start, me)));
    auto index = entries_.size();
    if (w.tree || w.pattern)
      wide_.push_back(index);
    else
      for (const auto& name : e.names)
        exact_.emplace(name, index);
    entries_.push_back(std::move(e));
  }
}

const shell::written_path* path_matcher::find(const std::string& lock_path) const {
  auto look = [&](const std::string& path) -> const shell::written_path* {
    if (auto i = exact_.find(path); i != exact_.end())
      return &entries_[i->second].written;
    for (auto i : wide_)
      for (const auto& name : entries_[i].names)
        if (fits(entries_[i].written, name, path))
          return &entries_[i].written;
    return nullptr;
  };
  if (entries_.empty())
    return nullptr;
  if (const auto* found = look(lock_path))
    return found;
  auto real = canonical_path(lock_path);
  return real == lock_path ? nullptr : look(real);
}

const shell::written_path* path_matcher::find_below(const std::string& lock_path) const {
  auto below = [&](const std::string& directory) -> const shell::written_path* {
    for (const auto& e : entries_)
      for (const auto& name : e.names)
        if (name != directory && is_inside(directory, name))
          return &e.written;
    return nullptr;
  };
  const auto* found = entries_.empty() ? nullptr : below(lock_path);
  if (found || entries_.empty())
    return found;
  auto real = canonical_path(lock_path);
  return real == lock_path ? nullptr : below(real);
}

std::optional<std::set<std::string>> lock_names(const std::vector<shell::written_path>& written, const hook_memory& me) {
  std::set<std::string> out;
  std::error_code ec;
  auto take = [&](const std::string& path) {
    auto type = fs::status(path, ec).type();
    bool is_file =
      type == fs::file_type::not_found || type == fs::file_type::regular || type == fs::file_type::directory || type == fs::file_type::none;
    if (is_file)
      out.insert(lock_name(path, me));
    return out.size() <= limits::hook_paths_max;
  };
  auto take_all = [&](const std::string& path, bool tree) {
    if (!take(path))
      return false;
    if (tree && fs::symlink_status(path, ec).type() == fs::file_type::directory)
      for (auto i = fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, ec);
           !ec && i != fs::recursive_directory_iterator(); i.increment(ec))
        if (!i->is_directory(ec) && !take(i->path().string()))
          return false;
    return true;
  };
  for (const auto& w : written) {
    if (w.missing)
      continue;
    if (!w.pattern) {
      if (!take_all(w.path, w.tree))
        return std::nullopt;
      continue;
    }
    glob_t found{};
    auto status = glob(w.path.c_str(), GLOB_NOSORT, nullptr, &found);
    bool good = status == 0 || status == GLOB_NOMATCH;
    for (std::size_t i = 0; good && i < found.gl_pathc; ++i)
      good = take_all(normalize_path(found.gl_pathv[i], "/"), w.tree);
    globfree(&found);
    if (!good)
      return std::nullopt;
  }
  return out;
}

bool path_matcher::is_written(const shell::written_path& w, const std::string& file) const {
  auto real = canonical_path(file);
  for (const auto& e : entries_)
    if (&e.written == &w)
      for (const auto& name : e.files)
        if (fits(w, name, file) || fits(w, name, real) || is_inside(file, name) || is_inside(real, name))
          return true;
  return false;
}

std::vector<std::string> repositories_around(const std::vector<shell::written_path>& written) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  std::error_code ec;
  for (const auto& w : written)
    for (fs::path at{canonical_path(w.pattern ? w.path.substr(0, literal_part(w.path)) : w.path)}; seen.insert(at.string()).second;
         at = at.parent_path())
      if (at.has_relative_path() && fs::exists(fs::symlink_status(at / ".git", ec)))
        out.push_back(at.string());
  return out;
}

bool has_several_trees(const std::string& path) {
  auto tree = find_git_tree(path);
  std::error_code ec;
  return tree && (tree->linked || fs::is_directory(tree->common_directory + "/worktrees", ec));
}

std::string file_of_holder(const std::string& lock_path, const v1::Session& holder) {
  const auto tree = find_git_tree(holder.directory());
  return tree ? path_in_tree(*tree, lock_path, holder.scope()) : lock_path;
}

} // namespace swarm::cli
