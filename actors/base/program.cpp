#include "actors/base/program.hpp"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

namespace swarm {

std::optional<std::string> find_program(const std::string& program, const std::string& path, const std::string& directory) {
  auto runnable = [](const std::string& p) {
    struct stat st {};
    return stat(p.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(p.c_str(), X_OK) == 0;
  };
  auto found = [&](std::string p) -> std::optional<std::string> {
    if (p.front() != '/') {
      if (directory.empty())
        return std::nullopt;
      p = directory + "/" + p;
    }
    return runnable(p) ? std::optional{std::move(p)} : std::nullopt;
  };
  if (program.empty())
    return std::nullopt;
  if (program.find('/') != std::string::npos)
    return found(program);
  for (std::size_t at = 0; at <= path.size();) {
    auto end = std::min(path.find(':', at), path.size());
    if (auto p = end > at ? found(path.substr(at, end - at) + "/" + program) : std::nullopt)
      return p;
    at = end + 1;
  }
  return std::nullopt;
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const auto& v : environment)
    if (v.size() > name.size() && v.compare(0, name.size(), name) == 0 && v[name.size()] == '=')
      return v.substr(name.size() + 1);
  return {};
}

std::string search_path(const std::vector<std::string>& environment) {
  auto path = variable(environment, "PATH");
  return path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path;
}

} // namespace swarm
