#include "actors/domain/harness.hpp"

#include <algorithm>

namespace swarm::domain {

bool is_agent(std::string_view name) noexcept { return std::find(agents.begin(), agents.end(), name) != agents.end(); }

bool is_driven(std::string_view name) noexcept { return name == "claude"; }

bool is_harness(std::string_view name) noexcept { return name == exec_harness || name == shell_harness || is_agent(name); }

std::string harness_names() {
  auto out = std::string(exec_harness) + ", " + std::string(shell_harness);
  for (auto agent : agents)
    out += ", " + std::string(agent);
  return out;
}

std::string launcher_variable(std::string_view agent) {
  std::string out = "SWARM_HARNESS_";
  for (char c : agent)
    out += c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c;
  return out;
}

} // namespace swarm::domain
