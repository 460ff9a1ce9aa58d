#include "gateway/session/lock_target.hpp"

#include <filesystem>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"

namespace swarm::mcp {

namespace {

namespace fs = std::filesystem;

/// The first part of `path` that is a symbolic link, or empty.
std::string first_link(const std::string& path) {
  std::error_code ec;
  for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    auto part = path.substr(0, slash);
    if (fs::is_symlink(fs::symlink_status(part, ec)))
      return part;
    if (slash == path.npos)
      return {};
  }
}

/// real_path stops at a link whose target does not exist; the file that a write through it would make is the target.
std::string canonical(const std::string& path) {
  constexpr int links_max = 40; // as the kernel
  auto out = path;
  for (int i = 0; i < links_max; ++i) {
    std::error_code ec;
    out = real_path(out);
    auto link = first_link(out);
    if (link.empty())
      return out;
    auto target = fs::read_symlink(link, ec);
    if (ec)
      return path;
    out = (fs::path{link}.parent_path() / target).string() + out.substr(link.size());
  }
  return path;
}

/// What of `path` does not exist yet: a directory that is there may be called [id].
std::string missing_part(const std::string& path) {
  std::error_code ec;
  for (std::size_t slash = 0; slash != path.npos;) {
    auto next = path.find('/', slash + 1);
    if (!fs::exists(fs::symlink_status(path.substr(0, next), ec)))
      return path.substr(slash);
    slash = next;
  }
  return {};
}

} // namespace

std::string follow_links(const std::string& path, const std::string& root) {
  if (domain::is_fabric_name(path) || path.empty() || path.front() != '/')
    return path;
  auto real = canonical(path);
  if (root.empty() || real == path)
    return real;
  auto real_root = canonical(root);
  return is_inside(real_root, real) ? path_from(root, path_below(real_root, real)) : real;
}

std::string scope_of_files(const v1::Session& s) { return s.checkout().empty() && s.scope().starts_with('/') ? s.scope() : std::string{}; }

std::optional<std::string> why_not_lockable(const std::string& path, const std::string& scope) {
  if (domain::is_fabric_name(path))
    return std::nullopt;
  if (missing_part(path).find_first_of("*?[") != std::string::npos)
    return concat({path, " is a pattern, and no file has that name: lock the files that it fits one by one, or their directory"});
  const auto locked = repository_path(path, scope);
  if (!scope.starts_with('/') || locked != path)
    return std::nullopt;
  std::error_code ec;
  const auto other = git_root(fs::path{path}.parent_path().string());
  const bool is_ours = is_inside(other, scope) && is_inside(scope, path);
  if (is_ours || !fs::exists(fs::symlink_status(other + "/.git", ec)))
    return std::nullopt;
  return concat({path, " lies in the repository ", other, ", which has locks of its own: lock it there, with --scope ", other});
}

} // namespace swarm::mcp
