#include "gateway/session/lock_target.hpp"

#include <filesystem>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/lock_paths.hpp"

namespace swarm::mcp {

namespace {

namespace fs = std::filesystem;

std::string canonical(const std::string& path) {
  std::error_code ec;
  auto out = fs::weakly_canonical(path, ec);
  return ec || out.empty() ? path : normalize_path(out.string(), "/");
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

std::optional<std::string> why_not_lockable(const std::string& path) {
  std::error_code ec;
  if (domain::is_fabric_name(path) || path.find_first_of("*?[") == path.npos || fs::exists(fs::symlink_status(path, ec)))
    return std::nullopt;
  return concat({path, " is a pattern, and no file has that name: lock the files that it fits one by one, or their directory"});
}

} // namespace swarm::mcp
