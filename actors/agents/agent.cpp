#include "actors/agents/agent.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "actors/agents/programs.hpp"
#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

std::span<const agent> all() {
  static const std::array programs{claude, codex, opencode, gemini, hermes};
  return programs;
}

const agent* find(std::string_view name) noexcept {
  for (const auto& a : all())
    if (name == a.name)
      return &a;
  return nullptr;
}

std::vector<std::string> arguments(std::string_view name, const start& s) {
  const auto* a = find(name);
  return a && a->arguments ? a->arguments(s) : std::vector<std::string>{};
}

std::vector<std::string> environment(std::string_view name, const start& s) {
  const auto* a = find(name);
  return a && a->environment ? a->environment(s) : std::vector<std::string>{};
}

std::string shared_file(const start& s, const char* path) {
  namespace fs = std::filesystem;
  const auto directory = share_directory(s.share, s.swarmctl);
  std::error_code ec;
  return !directory.empty() && fs::exists(directory / path, ec) ? (directory / path).string() : std::string{};
}

std::string obstacle(std::string_view name, const start& s) {
  const auto* a = find(name);
  if (!a || !a->needs || !shared_file(s, a->needs->path).empty())
    return {};
  auto directory = share_directory(s.share, s.swarmctl);
  return concat({a->needs->without, " is not there, ",
                 directory.empty() ? "and no share/swarm-fabric is beside the directory of " + s.swarmctl : (directory / a->needs->path).string(),
                 ". Install the whole package, or set SWARM_SHARE to the directory that has agents/", name,
                 " (deploy/ of the source tree); then dispatch again"});
}

bool has_early_hooks(std::string_view name) noexcept {
  const auto* a = find(name);
  return a && a->has_early_hooks;
}

nlohmann::ordered_json hook_entry(const agent& a, const hook_spec& h, const std::string& command) {
  using json = nlohmann::ordered_json;
  json handler{{"type", "command"}, {"command", command}};
  if (a.what == program::gemini) {
    handler["name"] = std::string{"swarm-"} + h.verb;
    handler["timeout"] = h.timeout_s * 1000;
  } else {
    handler["timeout"] = h.timeout_s;
  }
  json entry = json::object();
  if (h.matcher)
    entry["matcher"] = h.matcher;
  entry["hooks"] = json::array({handler});
  return entry;
}

std::string hook_command(const agent& a, const hook_spec& h, const std::string& swarmctl) {
  return concat({shell_quoted(swarmctl), " hook ", a.name, " ", h.verb});
}

} // namespace swarm::agents
