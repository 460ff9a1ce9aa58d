#include "actors/domain/lock_paths.hpp"

#include "actors/base/paths.hpp"

namespace swarm::domain {

bool is_fabric_name(std::string_view path) noexcept { return path.starts_with(lock_name_prefix); }

bool lock_covers(std::string_view held, std::string_view path) noexcept {
  if (held == path)
    return true;
  if (path.empty() || held.empty() || is_fabric_name(held) || is_fabric_name(path))
    return false;
  return held == "." ? path.front() != '/' : is_inside(held, path);
}

bool locks_conflict(std::string_view path_a, std::string_view path_b) noexcept { return lock_covers(path_a, path_b) || lock_covers(path_b, path_a); }

std::vector<std::string> covering_paths(const std::string& path) {
  std::vector<std::string> out{path};
  if (path.empty() || is_fabric_name(path) || path == "." || path == "/")
    return out;
  for (auto slash = path.rfind('/'); slash != path.npos && slash > 0; slash = path.rfind('/', slash - 1))
    out.push_back(path.substr(0, slash));
  out.emplace_back(path.front() == '/' ? "/" : ".");
  return out;
}

std::optional<std::string> below_prefix(const std::string& path) {
  if (is_fabric_name(path))
    return std::nullopt;
  if (path == ".")
    return std::string{};
  return path == "/" ? path : path + "/";
}

} // namespace swarm::domain
