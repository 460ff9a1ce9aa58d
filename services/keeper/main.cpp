// swarm-keeper: the parent of a node's worker processes. Started by swarmd; outlives it.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <getopt.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "actors/base/limits_config.hpp"
#include "actors/base/local_socket.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/restrictions.hpp"
#include "actors/base/standard_streams.hpp"
#include "services/keeper/daemon.hpp"
#include "services/keeper/server.hpp"

namespace {

using namespace swarm;

constexpr int usage_error = 2;
constexpr int backlog = 64;

struct options {
  state_dir dir;
  int ready_fd = -1;
  std::chrono::milliseconds idle_exit = limits::keeper_idle_exit();
};

constexpr const char* help = "Usage: swarm-keeper --state-dir DIR [--ready-fd N] [--idle-exit-ms N]\n"
                             "\n"
                             "The parent of the worker processes of one node. swarmd starts it; it runs in the background\n"
                             "and lives on while it has programs or a swarmd.\n"
                             "\n"
                             "  --state-dir DIR     the node's state directory\n"
                             "  --ready-fd N        write one byte to descriptor N when ready\n"
                             "  --idle-exit-ms N    end after N ms without programs and swarmd (60000)\n"
                             "  --help, --version\n"
                             "\n"
                             "Exit status: 0 started, 1 cannot start, 2 usage, 75 another one runs.\n";

[[noreturn]] void bad_usage(const std::string& text) {
  std::fprintf(stderr, "swarm-keeper: %s\nTry 'swarm-keeper --help'.\n", text.c_str());
  std::exit(usage_error);
}

long number(const char* option, const char* text) {
  char* end = nullptr;
  errno = 0;
  auto n = std::strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || n < 0 || n > 1'000'000'000)
    bad_usage(std::string{option} + " needs a number, not '" + text + "'");
  return n;
}

options parse(int argc, char** argv) {
  static const option table[] = {{"state-dir", required_argument, nullptr, 's'},
                                 {"ready-fd", required_argument, nullptr, 'r'},
                                 {"idle-exit-ms", required_argument, nullptr, 'i'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {"version", no_argument, nullptr, 'v'},
                                 {nullptr, 0, nullptr, 0}};
  options o;
  for (int c = 0; (c = getopt_long(argc, argv, "", table, nullptr)) != -1;) {
    switch (c) {
      case 's': o.dir.root = absolute_path(optarg); break;
      case 'r': o.ready_fd = static_cast<int>(number("--ready-fd", optarg)); break;
      case 'i': o.idle_exit = std::chrono::milliseconds{number("--idle-exit-ms", optarg)}; break;
      case 'h': std::fputs(help, stdout); std::exit(0);
      case 'v': std::puts("swarm-keeper " SWARM_VERSION); std::exit(0);
      default: std::exit(usage_error);
    }
  }
  if (optind < argc)
    bad_usage(std::string{"unexpected argument '"} + argv[optind] + "'");
  if (o.dir.root.empty())
    bad_usage("--state-dir is needed");
  if (o.ready_fd >= 0 && (o.ready_fd <= STDERR_FILENO || fcntl(o.ready_fd, F_GETFD) < 0))
    bad_usage("--ready-fd names no open descriptor above 2");
  return o;
}

int keep(const options& o) {
  prepare(o.dir);
  if (auto wrong = configure_limits(o.dir.config_file()))
    throw std::runtime_error(*wrong);
  auto lock = take_ownership(keeper::lock_file(o.dir));
  if (!lock) {
    std::fprintf(stderr, "swarm-keeper: another keeper runs in %s\n", o.dir.root.c_str());
    return keeper::exit_owned;
  }
  auto listener = listen_at(o.dir.keeper_socket(), backlog);
  keeper::log_file log{o.dir.log_dir() / "keeper.log", system_clock_port()};
  std::vector<int> kept{lock.get(), listener.get()};
  if (o.ready_fd >= 0)
    kept.push_back(o.ready_fd);
  keeper::daemonise(log, kept);
  sign_ownership(lock.get());
  // Once more: those who connect see the process that has called it last, and that one was only this one's parent.
  if (listen(listener.get(), backlog) != 0)
    throw std::runtime_error(std::string{"cannot listen: "} + std::strerror(errno));
  keeper::server server{o.dir, std::move(listener), system_clock_port(), log, o.idle_exit};
  if (unique_fd ready{o.ready_fd}; ready && write(ready.get(), "R", 1) != 1)
    log.line("nobody waits for the ready byte");
  server.run();
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  swarm::open_standard_streams();
  auto o = parse(argc, argv);
  try {
    keeper::require_clean_environment(argv);
    forbid_inspection(); // after the last program that it executes
    return keep(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "swarm-keeper: %s\n", e.what());
    return 1;
  }
}
