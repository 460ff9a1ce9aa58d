#include "actors/base/standard_streams.hpp"

#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace swarm {

void open_standard_streams() {
  for (auto fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // Opening takes the lowest free number, which is this one. For reading only, or lost output would be taken for written.
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", O_RDONLY);
}

namespace {

/// Before the libraries' own: one of them makes a descriptor before main begins.
[[gnu::constructor(101)]] void open_before_all() { open_standard_streams(); }

} // namespace

} // namespace swarm
