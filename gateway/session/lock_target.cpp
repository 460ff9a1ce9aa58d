#include "gateway/session/lock_target.hpp"

#include <filesystem>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/lock_paths.hpp"

namespace swarm::mcp {

namespace {

namespace fs = std::filesystem;

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
  auto real = target_path(path);
  if (root.empty() || real == path)
    return real;
  auto real_root = target_path(root);
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
  return concat({path, " lies in the repository ", other, ", which has locks of its own: lock it there, with --scope ", other,
                 " and a session of that scope (swarmctl register ", shell_quoted(other), ")"});
}

} // namespace swarm::mcp
