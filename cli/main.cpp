// swarmctl.
#include "actors/base/limits_config.hpp"
#include "cli/app.hpp"
#include "gateway/client/client.hpp"

#include <cstdlib>

#include <signal.h>
#include <unistd.h>

namespace {

std::string working_directory() {
  std::error_code ec;
  auto path = std::filesystem::current_path(ec);
  return ec ? "/" : path.string();
}

int run_command_line(std::string program, std::vector<std::string> args) {
  using namespace swarm::cli;
  auto env = environment::of_process();
  auto io = console::of_process(!env.get("NO_COLOR").empty() || env.get("TERM") == "dumb");
  client_settings settings;
  try {
    settings.dir = swarm::default_state_dir();
  } catch (const std::exception& e) {
    io.error(std::string{"swarmctl: "} + e.what());
    return code::no_node;
  }
  // What swarmctl says of the node's bounds is what the node was told. A file that is wrong is the node's matter, which may run.
  if (auto wrong = swarm::configure_limits(settings.dir.config_file()))
    io.error("swarmctl: " + *wrong + "; going on with the default limits");
  settings.token = env.get("SWARM_TOKEN");
  settings.in_worker = env.in_worker();
  client node{std::move(settings)};
  invocation cli{{node, node, node, node}, env, io, swarm::system_clock_port(), working_directory()};
  cli.program = std::move(program);
  // Everything is written. Leaving through `node` would tear gRPC down, which costs more than the call.
  std::quick_exit(run(cli, std::move(args)));
}

} // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> args{argv + 1, argv + argc};
  // Under swarm-mcp's name without a verb, it is that program's MCP server.
  const bool is_swarm_mcp = argc > 0 && std::filesystem::path{argv[0]}.filename() == "swarm-mcp";
  if (is_swarm_mcp && (args.empty() || args.front() == "serve"))
    args = {"mcp"};
  return run_command_line(is_swarm_mcp ? "swarm-mcp" : "swarmctl", std::move(args));
}
