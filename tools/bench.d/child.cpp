#include "tools/bench.d/child.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swarm::bench {

namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& t : texts)
    out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

/// Without what would change the programs under test.
std::vector<std::string> plain_environment() {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e)
    if (std::strncmp(*e, "SWARM_", 6) != 0 && std::strncmp(*e, "ETCD_", 5) != 0 && std::strncmp(*e, "GRPC_", 5) != 0)
      out.emplace_back(*e);
  return out;
}

/// Who is to be ended with us; lock-free, because a signal handler reads it.
std::array<std::atomic<pid_t>, 96> living{};

void end_all(int signal) {
  for (auto& slot : living)
    if (auto pid = slot.load(); pid != 0)
      kill(pid, SIGKILL);
  _exit(128 + signal);
}

void remember(pid_t pid) {
  static const bool installed = [] {
    for (auto s : {SIGINT, SIGTERM, SIGHUP})
      std::signal(s, end_all);
    return true;
  }();
  pid_t none = 0;
  for (auto& slot : living)
    if (installed && slot.compare_exchange_strong(none, pid))
      return;
    else
      none = 0;
}

void forget(pid_t pid) {
  for (auto& slot : living)
    if (auto expected = pid; slot.compare_exchange_strong(expected, 0))
      return;
}

/// The number behind "name:" in a file of /proc; 0 when it is not there.
std::uint64_t field(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name + ":", 0) == 0)
      return std::stoull(line.substr(name.size() + 1));
  return 0;
}

} // namespace

child::child(std::vector<std::string> argv, std::vector<std::string> extra_environment, int inherit, int standard) {
  auto environment = plain_environment();
  environment.insert(environment.end(), extra_environment.begin(), extra_environment.end());
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  for (int fd : {0, 1})
    if (standard >= 0)
      posix_spawn_file_actions_adddup2(&files, standard, fd);
  if (inherit >= 0)
    posix_spawn_file_actions_adddup2(&files, inherit, inherit);
  auto error = posix_spawnp(&pid_, argv[0].c_str(), &files, nullptr, pointers(argv).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw std::runtime_error("cannot start " + argv[0] + ": " + std::strerror(error));
  remember(pid_);
}

child& child::operator=(child&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

child::~child() {
  if (pid_ != 0)
    end(SIGKILL);
}

int child::end(int signal) {
  auto pid = std::exchange(pid_, 0);
  if (pid == 0)
    return -1;
  if (signal != 0)
    kill(pid, signal);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  forget(pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::uint64_t voluntary_switches(pid_t pid) {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    sum += field(task.path() / "status", "voluntary_ctxt_switches");
  return sum;
}

std::uint64_t anonymous_memory(pid_t pid) { return field("/proc/" + std::to_string(pid) + "/status", "RssAnon") * 1024; }

int free_port() {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no free port on the loopback");
  return ntohs(address.sin_port);
}

} // namespace swarm::bench
