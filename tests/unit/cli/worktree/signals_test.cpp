// Signals that wait for the end of a step.
#include "cli/worktree/signals.hpp"

#include <thread>

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace swarm::cli;

namespace {

bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

/// What becomes of a process that gets SIGTERM on a thread of its own while it holds signals: its status as waitpid gives it.
int status_of_child(bool takes) {
  auto pid = fork();
  if (pid == 0) {
    {
      signals_held outer;
      {
        signals_held inner;
        std::thread{[] { raise(SIGTERM); }}.join();
      }
      if (takes && !outer.take())
        _exit(1);
    }
    _exit(7);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

} // namespace

TEST_CASE("a held signal ends the process when nothing holds it any more whichever thread got it") {
  auto status = status_of_child(false);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("a held signal that somebody answers for ends nothing") {
  auto status = status_of_child(true);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  signals_held held;
  CHECK_FALSE(held.take());
  CHECK_FALSE(readable(held.arrival()));
  raise(SIGHUP);
  CHECK(readable(held.arrival()));
  CHECK(held.take());
  CHECK_FALSE(readable(held.arrival()));
}
