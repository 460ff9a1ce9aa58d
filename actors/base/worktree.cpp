#include "actors/base/worktree.hpp"

#include <filesystem>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"

namespace fs = std::filesystem;

namespace swarm {

namespace {

constexpr std::string_view pointer_prefix = "gitdir:";
constexpr std::size_t config_bytes_max = 64 * 1024;

/// The first `bytes` bytes of a regular file; empty for anything else.
std::string read_start(const fs::path& file, std::size_t bytes) {
  // A FIFO must not hold us.
  unique_fd fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode))
    return {};
  std::string out(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    auto n = read(fd.get(), out.data() + size, bytes - size);
    if (n <= 0)
      break;
    size += static_cast<std::size_t>(n);
  }
  out.resize(size);
  return out;
}

/// The only line of a file that names a directory, made absolute against `base`; empty unless that directory exists.
std::string directory_named_by(const fs::path& file, std::string_view prefix, const fs::path& base) {
  auto text = read_start(file, limits::path_bytes_max() + pointer_prefix.size() + 2);
  std::string_view line = trimmed(text);
  if (!line.starts_with(prefix))
    return {};
  line = trimmed(line.substr(prefix.size()));
  if (line.empty() || line.size() > limits::path_bytes_max() || line.find_first_of(std::string_view{"\n\0", 2}) != std::string_view::npos)
    return {};
  // Through symbolic links, where `..` means what the system means by it.
  std::error_code ec;
  auto out = fs::canonical(base / fs::path{line}, ec);
  return ec || !fs::is_directory(out, ec) ? std::string{} : out.string();
}

bool is_repository(const fs::path& git_directory) {
  std::error_code ec;
  // A symbolic HEAD of old repositories may point to a branch that has no commit yet.
  return fs::symlink_status(git_directory / "HEAD", ec).type() != fs::file_type::not_found && !ec && fs::is_directory(git_directory / "objects", ec);
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c + ('a' - 'A'));
  return out;
}

/// core.worktree of a configuration file, which says where the worktree of a submodule is; empty when it is not set.
std::string configured_tree(const fs::path& config) {
  auto text = read_start(config, config_bytes_max);
  std::string out;
  bool in_core = false;
  for (std::string_view rest = text; !rest.empty();) {
    auto end = std::min(rest.find('\n'), rest.size());
    auto line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with('['))
      in_core = lower(line) == "[core]";
    auto equals = line.find('=');
    if (!in_core || equals == std::string_view::npos || lower(trimmed(line.substr(0, equals))) != "worktree")
      continue;
    auto value = trimmed(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    out = value;
  }
  return out;
}

/// Where the main worktree of a repository is. A bare one has none: then its own directory stands for it.
std::string main_root(const fs::path& common) {
  if (common.filename() == ".git")
    return common.parent_path().string();
  for (const auto* config : {"config.worktree", "config"}) {
    auto tree = configured_tree(common / config);
    if (tree.empty())
      continue;
    std::error_code ec;
    auto out = fs::canonical(common / tree, ec);
    if (!ec)
      return out.string();
  }
  return common.string();
}

bool same_directory(const std::string& a, const std::string& b) {
  struct stat x {};
  struct stat y {};
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum class kind { none, broken, main, apart, linked }; // apart: its git directory lies elsewhere, as a submodule's does

/// What `directory` is the root of.
kind tree_at(const fs::path& directory, git_tree& out) {
  auto entry = directory / ".git";
  struct stat st {};
  if (stat(entry.c_str(), &st) != 0) {
    std::error_code ec;
    return fs::symlink_status(entry, ec).type() == fs::file_type::symlink ? kind::broken : kind::none;
  }
  out.root = out.repository = directory.string();
  if (S_ISDIR(st.st_mode)) {
    out.git_directory = out.common_directory = entry.string();
    return is_repository(entry) ? kind::main : kind::broken;
  }
  auto own = directory_named_by(entry, pointer_prefix, directory);
  if (own.empty())
    return kind::broken;
  out.git_directory = own;
  struct stat common_file {};
  if (stat((own + "/commondir").c_str(), &common_file) != 0) {
    out.common_directory = own;
    return is_repository(own) ? kind::apart : kind::broken;
  }
  out.common_directory = directory_named_by(own + "/commondir", "", own);
  if (out.common_directory.empty() || !is_repository(out.common_directory))
    return kind::broken;
  out.repository = main_root(out.common_directory);
  out.linked = true;
  return kind::linked;
}

} // namespace

std::optional<git_tree> find_git_tree(const std::string& path) {
  std::optional<git_tree> inner;
  for (fs::path p{path};; p = p.parent_path()) {
    git_tree found;
    switch (tree_at(p, found)) {
      case kind::none: break;
      case kind::broken: return inner;
      case kind::linked: return found;
      case kind::main: return inner ? inner : found;
      case kind::apart:
        // The tree around it may be a linked one.
        if (!inner)
          inner = found;
        break;
    }
    if (!p.has_relative_path())
      return inner;
  }
}

std::string scope_of_worker_tree(const std::string& directory) {
  auto tree = find_git_tree(directory);
  if (!tree || !tree->linked)
    return {};
  auto record =
    nlohmann::json::parse(read_start(fs::path{tree->git_directory} / worker_record_file, limits::worktree_record_bytes_max), nullptr, false);
  auto scope = record.is_object() ? record.find("scope") : record.end();
  if (scope == record.end() || !scope->is_string())
    return {};
  auto name = scope->get<std::string>();
  return is_named_scope(name) || name == normalize_path(name, "/") ? name : std::string{};
}

std::string repository_path(const std::string& path, std::string_view scope) {
  auto tree = find_git_tree(path);
  if (!tree || !tree->linked)
    return path;
  auto home = !scope.empty() && scope.front() == '/' ? find_git_tree(std::string{scope}) : std::nullopt;
  if (home && same_directory(home->common_directory, tree->common_directory))
    tree->repository = home->root;
  if (path == tree->root)
    return tree->repository;
  return normalize_path(std::string_view{path}.substr(tree->root == "/" ? 1 : tree->root.size() + 1), tree->repository);
}

std::string path_in_tree(const git_tree& tree, const std::string& path, std::string_view scope) {
  if (!tree.linked || (!scope.empty() && is_inside(tree.root, scope)))
    return path;
  for (const auto& repository : {std::string_view{tree.repository}, scope})
    if (!repository.empty() && repository.front() == '/' && path != repository && is_inside(repository, path))
      return normalize_path(path_below(repository, path), tree.root);
  return path;
}

} // namespace swarm
