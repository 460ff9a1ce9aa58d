#include "actors/base/child_process.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace swarm {

namespace {

struct spawn_setup {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  spawn_setup() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~spawn_setup() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  spawn_setup(const spawn_setup&) = delete;
  spawn_setup& operator=(const spawn_setup&) = delete;
};

} // namespace

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts)
    out.push_back(const_cast<char*>(text.c_str())); // execve's declaration is older than const; it changes nothing
  out.push_back(nullptr);
  return out;
}

child_start start_child(const child_options& o) {
  spawn_setup setup;
  auto failed = [](int error) { return child_start{-1, {error, std::generic_category()}}; };
  // One after the other in the child: a descriptor of ours must not have the number of one that is set before it is used.
  std::vector<unique_fd> moved;
  auto lowest = std::max(o.further_as, STDERR_FILENO) + 1;
  auto give = [&](int ours, int as) {
    moved.emplace_back(fcntl(ours, F_DUPFD_CLOEXEC, lowest));
    return moved.back() ? posix_spawn_file_actions_adddup2(&setup.files, moved.back().get(), as) : errno;
  };
  for (int n = 0; n < 3; ++n) {
    auto error = 0;
    auto ours = o.standard[static_cast<std::size_t>(n)];
    if (ours >= 0)
      error = give(ours, n);
    else if (n == STDERR_FILENO && !o.errors_into.empty())
      error = posix_spawn_file_actions_addopen(&setup.files, n, o.errors_into.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    else if (n != STDERR_FILENO || !o.errors_as_ours)
      error = posix_spawn_file_actions_addopen(&setup.files, n, "/dev/null", n == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    if (error != 0)
      return failed(error);
  }
  if (o.further >= 0)
    if (auto error = give(o.further, o.further_as); error != 0)
      return failed(error);
  // Whatever else is open here, also what somebody forgot to mark. Closing what is not open is no error.
  for (int n = STDERR_FILENO + 1; n < lowest; ++n)
    if (n != o.further_as)
      posix_spawn_file_actions_addclose(&setup.files, n);
  posix_spawn_file_actions_addclosefrom_np(&setup.files, lowest);
  if (!o.directory.empty())
    if (auto error = posix_spawn_file_actions_addchdir_np(&setup.files, o.directory.c_str()); error != 0)
      return failed(error);
  sigset_t masked, all;
  sigemptyset(&masked);
  if (o.without_interrupts)
    sigaddset(&masked, SIGINT);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &masked);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  auto flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (o.own_session ? POSIX_SPAWN_SETSID : 0);
  posix_spawnattr_setflags(&setup.attributes, static_cast<short>(flags));
  child_start out;
  auto spawn = o.on_path ? posix_spawnp : posix_spawn;
  auto error =
    spawn(&out.pid, o.arguments.front().c_str(), &setup.files, &setup.attributes, pointers_to(o.arguments).data(), pointers_to(o.environment).data());
  return error != 0 ? failed(error) : out;
}

int wait_for_child(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pipe_ends make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  return {unique_fd{ends[0]}, unique_fd{ends[1]}};
}

} // namespace swarm
