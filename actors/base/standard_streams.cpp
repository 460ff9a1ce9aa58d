#include "actors/base/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace swarm {

void open_standard_streams() {
  for (auto fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // Opening takes the lowest free number, which is this one. For reading only, or lost output would be taken for written.
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", O_RDONLY);
}

} // namespace swarm
