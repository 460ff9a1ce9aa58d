#include "actors/base/standard_streams.hpp"

#include <cerrno>
#include <initializer_list>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace swarm;

namespace {

/// The exit status of a process that runs this with the standard streams closed.
template <class F>
int without_streams(F body) {
  auto pid = fork();
  if (pid == 0) {
    for (auto fd : {0, 1, 2})
      close(fd);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

} // namespace

TEST_CASE("what is opened later does not get the number of a standard stream that was closed") {
  CHECK(without_streams([] {
          open_standard_streams();
          return open("/dev/null", O_RDONLY) > STDERR_FILENO;
        }) == 0);
}

TEST_CASE("closed standard input is empty, and a write to closed output fails") {
  CHECK(without_streams([] {
          open_standard_streams();
          char c = 0;
          return read(STDIN_FILENO, &c, 1) == 0 && write(STDOUT_FILENO, "x", 1) == -1 && errno == EBADF;
        }) == 0);
}

TEST_CASE("standard streams that are open stay as they are") {
  CHECK(without_streams([] {
          int ends[2];
          return pipe(ends) == 0 && dup2(ends[1], 2) == 2 && (open_standard_streams(), write(2, "x", 1) == 1);
        }) == 0);
}
