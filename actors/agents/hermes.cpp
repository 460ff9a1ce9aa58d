#include "actors/agents/programs.hpp"

namespace swarm::agents {

namespace {

constexpr std::string_view scripts[] = {"/hermes-agent/"};
constexpr std::string_view modules[] = {"hermes_cli"};

} // namespace

constinit const agent hermes{.what = program::hermes,
                             .name = "hermes",
                             .title = "Hermes",
                             .runtime = "hermes",
                             .variables = "HERMES",
                             .settings = {"HERMES_HOME", "", ".hermes"},
                             .has_early_hooks = false,
                             .looks = {.scripts = scripts, .modules = modules}};

} // namespace swarm::agents
