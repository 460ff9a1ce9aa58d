// ui, serve: commands of swarm-mcp that are not here or have another name here.
#include "cli/verb.hpp"

namespace swarm::cli {

namespace {

void build_nothing(CLI::App&, invocation&) {}

void build_mcp(CLI::App& app, invocation& cli) {
  for (const auto& v : mcp_verbs())
    if (std::string_view{v.name} == "mcp")
      v.build(app, cli);
}

constexpr verb verbs[] = {
  {.name = "ui",
   .about = subject::agents,
   .summary = "not available: swarm-ui's command queue; use pty, dispatch or spawn",
   .examples = "  swarmctl ui list    is refused; use: swarmctl pty list",
   .build = build_nothing,
   .refusal = "there is no queue of commands for swarm-ui here. Instead of ui spawn: swarmctl dispatch or swarmctl spawn; of ui prompt: "
              "swarmctl prompt-peer or swarmctl pty send; of ui list: swarmctl pty list and swarmctl spawns. Nothing replaces ui move and "
              "ui organize"},
  {.name = "serve",
   .about = subject::agents,
   .summary = "swarm-mcp's name for mcp",
   .examples = "  swarmctl serve",
   .build = build_mcp,
   .node = node_choice::told,
   .only_here = agents_are_here},
};

} // namespace

std::span<const verb> elsewhere_verbs() { return verbs; }

} // namespace swarm::cli
