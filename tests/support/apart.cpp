#include "tests/support/apart.hpp"

#include <csignal>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/agents/ancestry.hpp"

namespace swarm::testing {

namespace {

constexpr const char* done_variable = "SWARM_TEST_APART";

void forget_agents() {
  for (const auto& a : agents::all())
    for (const auto& m : a.marks)
      unsetenv(std::string{m.name}.c_str());
  setenv(done_variable, "1", 1);
}

/// The leader of a kernel session, which waits for the program and ends it when `starter` ends.
[[noreturn]] void lead(char** argv, const unique_fd& starter, int result) {
  setsid();
  const auto program = fork();
  if (program == 0) {
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  const auto ended = open_pidfd(program);
  pollfd both[] = {{starter.get(), POLLIN, 0}, {ended ? ended->get() : -1, POLLIN, 0}};
  while (poll(both, 2, -1) < 0) {
  }
  if (both[0].revents != 0)
    kill(program, SIGKILL);
  int status = 0;
  waitpid(program, &status, 0);
  (void)!write(result, &status, sizeof status);
  _exit(0);
}

} // namespace

std::optional<int> run_apart(char** argv) {
  if (std::getenv(done_variable) || agents::reason_for_suspicion(system_processes(), getpid(), geteuid()).empty())
    return std::nullopt;
  forget_agents();
  int ends[2];
  auto us = open_pidfd(getpid());
  if (!us || pipe2(ends, O_CLOEXEC) != 0)
    return std::nullopt;
  const auto between = fork();
  if (between == 0) {
    close(ends[0]);
    if (fork() == 0)
      lead(argv, *us, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  waitpid(between, nullptr, 0);
  int status = 0;
  if (read(ends[0], &status, sizeof status) != sizeof status)
    return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace swarm::testing
