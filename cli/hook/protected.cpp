#include "cli/hook/protected.hpp"

#include <algorithm>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"
#include "cli/profile.hpp"

namespace swarm::cli {

std::vector<std::string> protected_directories(const environment& env, const std::string& state_directory) {
  std::vector<std::string> out;
  auto add = [&](const std::string& path) {
    auto normal = path.starts_with('/') ? normalize_path(path, "/") : std::string{};
    // A mistake in a variable must not stop every write.
    if (normal.size() > 1 && std::find(out.begin(), out.end(), normal) == out.end())
      out.push_back(std::move(normal));
  };
  auto add_below = [&](const std::string& variable, const std::string& below_home, const std::string& name) {
    if (auto given = env.get(variable); !given.empty())
      add(given + "/" + name);
    if (auto home = env.get("HOME"); !home.empty())
      add(home + below_home + "/" + name);
  };
  add(state_directory);
  add_below("XDG_STATE_HOME", "/.local/state", "swarm");
  add_below("XDG_CONFIG_HOME", "/.config", "swarm");
  add(profile_directory(env));
  return out;
}

std::string reason_against(const tool_use& use, std::span<const std::string> directories) {
  for (const auto* list : {&use.paths, &use.named})
    for (const auto& written : *list)
      if (const auto* directory = shell::reached_directory(written, directories))
        return concat({"swarm denied ", escape_control(use.tool, false), " for ", escape_control(written.path, false), ": ",
                       escape_control(*directory, false),
                       " holds the node's state or swarm's settings, which say who may do what. No agent writes there, whatever it was asked to do. "
                       "Tell the person what you wanted to change, and go on without it."});
  return {};
}

} // namespace swarm::cli
