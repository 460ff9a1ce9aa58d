#include "services/driver/held_paths.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fnmatch.h>

#include "actors/agents/json_view.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/writes.hpp"

namespace swarm::driver {

namespace {

constexpr std::string_view away = "; the node that could let it pass does not answer. Try again later";

std::vector<shell::written_path> paths_of(const internal::HookQuestion& q, const std::string& home) {
  const auto input = agents::json_view::of(q.input());
  if (q.tool() == "Bash")
    return shell::paths_written_by(input["command"].text(), {.directory = q.directory(), .home = home});
  auto path = input["file_path"].text();
  if (path.empty())
    path = input["notebook_path"].text();
  if (path.empty())
    return {};
  return {{.path = normalize_path(path, q.directory())}};
}

bool lies_in(std::string_view path, std::string_view directory) {
  return path == directory || directory == "/" || (path.starts_with(directory) && path[directory.size()] == '/');
}

/// Writing `w`, by this name, changes what is held.
bool meets(const shell::written_path& w, const std::string& name, const std::string& held) {
  if (w.pattern)
    return fnmatch(name.c_str(), held.c_str(), 0) == 0 || lies_in(name.substr(0, name.find_first_of("*?[\\")), held);
  return lies_in(name, held) || (w.tree && lies_in(held, name));
}

} // namespace

std::string held_against(const internal::Locks& held, const internal::HookQuestion& question, const std::string& home) {
  if (held.paths().empty() && !held.more())
    return {};
  if (question.too_long())
    return concat({"Peers hold files, and what this tool writes is not known", away});
  for (const auto& w : paths_of(question, home)) {
    if (held.more())
      return concat({"Peers hold more files than the driver knows of, and ", w.path, " may be one of them", away});
    const auto real = w.pattern ? w.path : target_path(w.path);
    for (const auto& path : held.paths())
      if (meets(w, w.path, path) || meets(w, real, path) || meets(w, real, real_path(path)))
        return concat({"A peer holds ", path, away});
  }
  return {};
}

} // namespace swarm::driver
