// ui, init, install, serve: commands of swarm-mcp that are not here, and what does their work.
#include "cli/verbs.hpp"

namespace swarm::cli {

namespace {

void build_nothing(CLI::App&, context&) {}

constexpr verb verbs[] = {
  {.name = "ui",
   .summary = "not here: swarm-ui's command queue; see pty, dispatch and spawn",
   .examples = "  swarmctl ui list    is refused; use: swarmctl pty list",
   .build = build_nothing,
   .refusal = "there is no queue of commands for swarm-ui here. Instead of ui spawn: swarmctl dispatch or swarmctl spawn; of ui prompt: "
              "swarmctl prompt-peer or swarmctl pty send; of ui list: swarmctl pty list and swarmctl spawns. Nothing replaces ui move and "
              "ui organize"},
  {.name = "serve",
   .summary = "not here yet: the MCP server comes with a later version",
   .examples = "  swarmctl serve    is refused; the commands need no server of their own, swarmctl up starts the node",
   .build = build_nothing,
   .refusal = "the MCP server comes with a later version. Until then agents call swarmctl; the node starts by itself"},
  {.name = "init",
   .summary = "not here yet: there is no MCP server to enter into a project's configuration",
   .examples = "  swarmctl init    is refused; agents call swarmctl as it is",
   .build = build_nothing,
   .refusal = "it enters the MCP server into a project's .mcp.json, and that server comes with a later version. Until then agents call "
              "swarmctl; see: swarmctl --help"},
  {.name = "install",
   .summary = "not here yet: there is no MCP server to enter into the agents' configuration",
   .examples = "  swarmctl install    is refused; agents call swarmctl as it is",
   .build = build_nothing,
   .refusal = "it enters the MCP server into the agents' own configuration, and that server comes with a later version. Until then agents "
              "call swarmctl; see: swarmctl --help"},
};

} // namespace

std::span<const verb> elsewhere_verbs() { return verbs; }

} // namespace swarm::cli
