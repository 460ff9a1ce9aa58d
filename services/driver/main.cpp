// swarm-driver: between swarmd and the agent of one conversation. Started by the keeper; outlives swarmd.
//
// Its input and output are the keeper's pipes. The keeper holds the only other end of the input, so an input at its end means that swarmd has closed
// it or that the keeper is gone, and nobody can say anything any more: the driver ends its agent, then itself. It usually does not come to that: the
// keeper's death kills the driver, as the driver's death kills the agent. Standard error is the same pipe as the output, so nothing is written to it
// once frames may be.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <google/protobuf/stubs/logging.h>

#include "actors/agents/driver_limits.hpp"
#include "actors/base/restrictions.hpp"
#include "actors/base/standard_streams.hpp"
#include "actors/shell/protected.hpp"
#include "services/driver/shell.hpp"

namespace {

using namespace swarm;

constexpr int usage_error = 2;
constexpr const char* help = "Usage: swarm-driver claude [--resume SESSION] [--generation N] [--limits NAME=VALUE,...] -- PROGRAM [ARGUMENT...]\n"
                             "\n"
                             "Drives the agent of one conversation by the agent's own protocol. swarmd has it started by swarm-keeper,\n"
                             "and speaks to it by its standard input and output, which are pipes.\n"
                             "\n"
                             "  --resume SESSION    the agent's own name of the session that it goes on with\n"
                             "  --generation N      the attempt that prompts and answers have to be for; otherwise that of the first hello\n"
                             "  --limits NAME=VALUE,...  of swarmd, as its configuration has them: the driver reads none\n"
                             "  --help, --version\n"
                             "\n"
                             "Exit status: 0 ended as it was told, 1 cannot start or its input is no protocol, 2 usage.\n";

[[noreturn]] void bad_usage(const std::string& text) {
  std::fprintf(stderr, "swarm-driver: %s\nTry 'swarm-driver --help'.\n", text.c_str());
  std::exit(usage_error);
}

struct options {
  driver::settings settings;
  std::vector<std::string> argv;
};

std::uint64_t number(const char* text) {
  char* end = nullptr;
  errno = 0;
  const auto n = std::strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-' || n == 0)
    bad_usage(std::string{"--generation needs a number from 1, not '"} + text + "'");
  return n;
}

options parse(int argc, char** argv) {
  static const option table[] = {{"resume", required_argument, nullptr, 'r'}, {"generation", required_argument, nullptr, 'g'},
                                 {"limits", required_argument, nullptr, 'l'}, {"help", no_argument, nullptr, 'h'},
                                 {"version", no_argument, nullptr, 'v'},      {nullptr, 0, nullptr, 0}};
  options o;
  std::string harness;
  for (int c = 0; (c = getopt_long(argc, argv, "-", table, nullptr)) != -1;) {
    switch (c) {
      case 1:
        if (!harness.empty())
          bad_usage(std::string{"unexpected argument '"} + optarg + "'; the agent's program stands after --");
        harness = optarg;
        break;
      case 'r': o.settings.resume = optarg; break;
      case 'g': o.settings.generation = number(optarg); break;
      case 'l':
        if (auto why = agents::set_driver_limits(optarg))
          bad_usage("--limits: " + *why);
        break;
      case 'h': std::fputs(help, stdout); std::exit(0);
      case 'v': std::puts("swarm-driver " SWARM_VERSION); std::exit(0);
      default: std::exit(usage_error);
    }
  }
  o.argv.assign(argv + optind, argv + argc);
  if (harness != "claude")
    bad_usage(harness.empty() ? "name the agent: claude" : "no driver for '" + harness + "'; it drives claude");
  if (o.argv.empty() || o.argv.front().empty())
    bad_usage("the agent's program is missing, after --");
  if (o.settings.resume.starts_with('-'))
    bad_usage("--resume needs the name of a session, not '" + o.settings.resume + "'");
  return o;
}

driver::workplace place_of_work() {
  auto variable = [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string{value != nullptr ? value : ""};
  };
  std::error_code ec;
  const auto config = variable("XDG_CONFIG_HOME").empty() ? variable("HOME") + "/.config" : variable("XDG_CONFIG_HOME");
  const auto profiles = variable("SWARM_MCP_PROFILE_DIR").empty() ? config + "/swarm-mcp" : variable("SWARM_MCP_PROFILE_DIR");
  return {.directory = std::filesystem::current_path(ec).string(),
          .home = variable("HOME"),
          .kept_out = shell::fabric_directories(variable, {variable("SWARM_HOME"), profiles}),
          .variables = shell::file_variables(variable)};
}

int drive(options o) {
  sigset_t ends;
  sigemptyset(&ends);
  for (int s : {SIGTERM, SIGINT, SIGHUP, SIGCHLD})
    sigaddset(&ends, s);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  unique_fd signals{signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK)};
  for (int fd : {STDIN_FILENO, STDOUT_FILENO})
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  prctl(PR_SET_CHILD_SUBREAPER, 1); // what the agent's tools leave behind is found below the driver
  o.settings.version = SWARM_VERSION;
  o.settings.at = place_of_work();
  driver::shell shell{std::move(o.settings), std::move(o.argv), signals.get(), system_clock_port()};
  return shell.run();
}

} // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  mallopt(M_MMAP_THRESHOLD, 128 * 1024); // else it rises with the first long line, and later ones are kept when they are done with
  auto o = parse(argc, argv);
  google::protobuf::SetLogHandler(nullptr);
  forbid_inspection();
  try {
    return drive(std::move(o));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "swarm-driver: %s\n", e.what());
    return 1;
  }
}
