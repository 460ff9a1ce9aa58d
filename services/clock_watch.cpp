#include "services/clock_watch.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/// Of gRPC 1.51, though not of what it publishes: whoever waits for the next deadline looks at it anew. An alarm before all others does the
/// same, but not when a deadline has passed while the clock was set. gRPC is linked statically (ADR 0002): another one does not link.
void grpc_kick_poller();

namespace swarm {

namespace {

unique_fd checked(int fd, const char* what) {
  if (fd < 0)
    throw std::system_error{errno, std::generic_category(), what};
  return unique_fd{fd};
}

/// Readable when the clock is set; otherwise in some centuries.
void arm(int timer) {
  itimerspec never{};
  never.it_value.tv_sec = std::int64_t{1} << 33;
  timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr);
}

} // namespace

clock_watch::clock_watch()
  : timer_(checked(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
    stop_(checked(eventfd(0, EFD_CLOEXEC), "eventfd")) {
  arm(timer_.get());
  thread_ = std::thread{[this] { run(); }};
}

clock_watch::~clock_watch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] auto told = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void clock_watch::run() const {
  pollfd fds[] = {{timer_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return;
    if (fds[1].revents != 0)
      return;
    if (fds[0].revents == 0)
      continue;
    std::uint64_t times = 0;
    [[maybe_unused]] auto said = read(timer_.get(), &times, sizeof times); // ECANCELED
    arm(timer_.get());
    grpc_kick_poller();
  }
}

} // namespace swarm
