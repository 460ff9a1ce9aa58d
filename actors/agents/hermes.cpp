#include "actors/agents/programs.hpp"

namespace swarm::agents {

constinit const agent hermes{.what = program::hermes,
                             .name = "hermes",
                             .title = "Hermes",
                             .runtime = "hermes",
                             .variables = "HERMES",
                             .settings = {"HERMES_HOME", "", ".hermes"},
                             .has_early_hooks = false};

} // namespace swarm::agents
