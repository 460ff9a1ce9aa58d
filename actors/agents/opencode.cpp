#include "actors/agents/programs.hpp"

namespace swarm::agents {

namespace {

using json = nlohmann::ordered_json;

constexpr needed_file plugin{"agents/opencode/swarm.js", "OpenCode would work without looking at locks and could not be woken: its plugin"};

std::vector<std::string> environment_of(const start& s) {
  json config{{"mcp", {{"swarm", {{"type", "local"}, {"command", json::array({s.swarmctl, "mcp"})}, {"enabled", true}}}}}};
  config["plugin"] = json::array({"file://" + shared_file(s, plugin.path)});
  return {"OPENCODE_CONFIG_CONTENT=" + config.dump()};
}

constexpr std::string_view executables[] = {"/opencode-ai/bin/"}; // opencode.exe, or a hidden file
constexpr std::string_view scripts[] = {"/opencode-ai/"};
constexpr environment_mark marks[] = {{"OPENCODE", "1"}};

} // namespace

constinit const agent opencode{.what = program::opencode,
                               .name = "opencode",
                               .title = "OpenCode",
                               .runtime = "opencode",
                               .variables = "OPENCODE",
                               .settings = {"XDG_CONFIG_HOME", "opencode", ".config/opencode"},
                               .dialect = json_dialect::comments_and_trailing_commas,
                               .has_early_hooks = true,
                               .needs = &plugin,
                               .looks = {.executables = executables, .scripts = scripts},
                               .marks = marks,
                               .environment = environment_of};

} // namespace swarm::agents
