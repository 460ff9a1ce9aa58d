// swarmctl.
#include "actors/base/atomic_file.hpp"
#include "actors/base/limits_config.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/standard_streams.hpp"
#include "cli/app.hpp"
#include "gateway/client/client.hpp"

#include <algorithm>
#include <cstdlib>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace {

/// Empty when it has been removed.
std::string working_directory() {
  std::error_code ec;
  auto path = std::filesystem::current_path(ec);
  return ec ? "" : path.string();
}

/// As if SIGPIPE had ended it, which this program does not take for the sake of its sockets; any other reason is said.
void end_without_output(const std::string& program, const std::error_code& error) {
  if (error == std::errc::broken_pipe)
    std::quick_exit(128 + SIGPIPE);
  const bool closed = error == std::errc::bad_file_descriptor;
  swarm::write_all(STDERR_FILENO, program + ": the output cannot be written: " + (closed ? "standard output is closed" : error.message()) + "\n");
  std::quick_exit(swarm::cli::code::refused);
}

int run_command_line(std::string program, std::vector<std::string> args) {
  using namespace swarm::cli;
  auto env = environment::of_process();
  auto io = console::of_process(!env.get("NO_COLOR").empty() || env.get("TERM") == "dumb",
                                [program](const std::error_code& error) { end_without_output(program, error); });
  client_settings settings;
  try {
    settings.dir = swarm::default_state_dir();
  } catch (const std::exception& e) {
    io.error(std::string{"swarmctl: "} + e.what());
    return code::no_node;
  }
  // What swarmctl says of the node's bounds is what the node was told. A file that is wrong keeps a node from starting, which then says so itself.
  // So does swarmctl config, whose subject it is.
  const bool is_about_the_file = std::find(args.begin(), args.end(), "config") != args.end();
  if (auto wrong = swarm::configure_limits(settings.dir.config_file()); wrong && !is_about_the_file && swarm::living_owner(settings.dir.lock_file()))
    io.error("swarmctl: " + *wrong + "; going on with the default limits");
  settings.token = env.get("SWARM_TOKEN");
  settings.in_worker = env.in_worker();
  auto dir = settings.dir;
  client node{std::move(settings)};
  invocation cli{{node, node, node, node, node}, env, io, swarm::system_clock_port(), working_directory()};
  cli.program = std::move(program);
  cli.recent = recent_things::of_this_terminal(dir);
  cli.config_file = dir.config_file();
  // Everything is written. Leaving through `node` would tear gRPC down, which costs more than the call.
  auto status = run(cli, std::move(args));
  std::quick_exit(status == code::interrupted && is_without_reader(STDOUT_FILENO) ? 128 + SIGPIPE : status);
}

} // namespace

int main(int argc, char** argv) {
  swarm::open_standard_streams();
  signal(SIGPIPE, SIG_IGN);
  // Else the next file that is opened would be taken for standard input.
  if (fcntl(STDIN_FILENO, F_GETFD) < 0)
    open("/dev/null", O_RDONLY);
  std::vector<std::string> args{argv + 1, argv + argc};
  // Under swarm-mcp's name without a verb, it is that program's MCP server.
  const bool is_swarm_mcp = argc > 0 && std::filesystem::path{argv[0]}.filename() == "swarm-mcp";
  if (is_swarm_mcp && (args.empty() || args.front() == "serve"))
    args = {"mcp"};
  return run_command_line(is_swarm_mcp ? "swarm-mcp" : "swarmctl", std::move(args));
}
