#include "gateway/client/node_start.hpp"

#include "actors/base/environment.hpp"
#include "actors/base/owner.hpp"
#include "gateway/client/failure.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

struct descriptor {
  int fd = -1;
  explicit descriptor(int n) : fd(n) {}
  ~descriptor() { reset(); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  void reset() {
    if (fd >= 0)
      close(fd);
    fd = -1;
  }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts)
    out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> arguments(const state_dir& dir, const std::string& node_name) {
  std::vector<std::string> out{swarmd_path().string(), "--state-dir", dir.root.string()};
  if (!node_name.empty()) {
    out.push_back("--node-name");
    out.push_back(node_name);
  }
  return out;
}

void prepare_or_fail(const state_dir& dir) {
  try {
    prepare(dir);
  } catch (const std::exception& e) {
    throw failure(code::no_node, e.what());
  }
  if (access(swarmd_path().c_str(), X_OK) != 0)
    throw failure(code::no_node, "no node is running and there is no " + swarmd_path().string() + " to start one");
}

std::string log_tail(const std::filesystem::path& log) {
  std::ifstream in(log, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  constexpr std::size_t shown = 2000;
  return text.size() > shown ? text.substr(text.size() - shown) : text;
}

pid_t spawn(std::vector<std::string> args, const std::filesystem::path& log, int ready) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, ready, ready); // same number: glibc takes close-on-exec off
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t standard;
  sigemptyset(&none);
  sigemptyset(&standard);
  for (auto s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD})
    sigaddset(&standard, s);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  auto environment = clean_environment();
  pid_t pid = 0;
  auto error = posix_spawn(&pid, args[0].c_str(), &files, &attributes, pointers(args).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw failure(code::no_node, "cannot start " + args[0] + ": " + std::strerror(error));
  return pid;
}

/// Exit status, or -1 if it has not ended by then.
int exit_status_within(pid_t pid, int timeout_ms) {
  descriptor fd{static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
  pollfd p{fd.fd, POLLIN, 0};
  if (fd.fd >= 0 && poll(&p, 1, timeout_ms) <= 0)
    return -1;
  int status = 0;
  if (waitpid(pid, &status, 0) != pid)
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// What the node says of its start; empty when it ended without a word, nothing when it is late.
std::optional<std::string> await_report(int fd, std::int64_t timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  int n = 0;
  do
    n = poll(&p, 1, static_cast<int>(timeout_ms));
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return std::nullopt;
  std::array<char, 4096> bytes;
  auto got = read(fd, bytes.data(), bytes.size()); // it is written in one go
  return std::string{bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

} // namespace

std::filesystem::path swarmd_path() {
  std::error_code ec;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  return self.parent_path() / "swarmd";
}

start_outcome start_node(const state_dir& dir, const std::string& node_name, std::int64_t timeout_ms) {
  prepare_or_fail(dir);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw failure(code::no_node, std::string{"cannot make a pipe: "} + std::strerror(errno));
  descriptor in{ends[0]};
  descriptor out{ends[1]};
  auto args = arguments(dir, node_name);
  args.insert(args.end(), {"--detach", "--ready-fd", std::to_string(out.fd)});
  auto log = dir.log_dir() / "swarmd.start.log";
  auto pid = spawn(std::move(args), log, out.fd);
  out.reset();
  auto report = await_report(in.fd, timeout_ms);
  // Before it has detached itself it writes into a log of its own.
  constexpr int settle_ms = 5000;
  auto status = report && report->empty() ? exit_status_within(pid, settle_ms) : 0;
  if (!report)
    throw failure(code::deadline, "swarmd did not become ready in time; look into " + dir.log_dir().string());
  if (report->starts_with(start_report::ready))
    return start_outcome::started;
  if (report->starts_with(start_report::owned))
    return start_outcome::owned;
  auto why = report->starts_with(start_report::failed) ? report->substr(1) : status != 0 ? log_tail(log) : std::string{};
  throw failure(code::no_node, "swarmd could not start" + (why.empty() ? "; look into " + dir.log_dir().string() : ": " + why));
}

void become_node(const state_dir& dir, const std::string& node_name) {
  prepare_or_fail(dir);
  auto args = arguments(dir, node_name);
  auto environment = clean_environment();
  execve(args[0].c_str(), pointers(args).data(), pointers(environment).data());
  throw failure(code::no_node, "cannot start " + args[0] + ": " + std::strerror(errno));
}

} // namespace swarm::cli
