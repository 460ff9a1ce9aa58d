#include "cli/hook/protected.hpp"

#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"
#include "cli/profile.hpp"

namespace swarm::cli {

std::vector<std::string> protected_directories(const environment& env, const std::string& state_directory) {
  return shell::fabric_directories([&](const std::string& name) { return env.get(name); }, {state_directory, profile_directory(env)});
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
