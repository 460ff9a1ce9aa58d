#include "cli/verbs/interrupt.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/output.hpp"

namespace swarm::cli {

namespace {

// Globals, because a signal handler can reach nothing else. Only one guard may live at a time.
std::array<int, 2> signal_pipe{-1, -1};
constexpr std::array watched{SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, watched.size()> previous;

void on_signal(int) {
  auto saved = errno;
  char byte = 1;
  [[maybe_unused]] auto n = write(signal_pipe[1], &byte, 1);
  errno = saved;
}

} // namespace

interrupt_guard::interrupt_guard(std::function<void()> on_interrupt) : on_interrupt_(std::move(on_interrupt)) {
  if (pipe2(signal_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(stop_, O_CLOEXEC) != 0)
    return; // then Ctrl-C simply ends the process
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (std::size_t i = 0; i < watched.size(); ++i)
    sigaction(watched[i], &action, &previous[i]);
  thread_ = std::thread{[this] { wait(); }};
}

interrupt_guard::~interrupt_guard() {
  if (thread_.joinable()) {
    for (std::size_t i = 0; i < watched.size(); ++i)
      sigaction(watched[i], &previous[i], nullptr);
    close(stop_[1]);
    thread_.join();
    close(stop_[0]);
  }
  for (auto& fd : signal_pipe)
    if (fd >= 0)
      close(std::exchange(fd, -1));
}

void interrupt_guard::wait() {
  // With no events requested, poll reports only that the other end is closed. It ignores a negative descriptor.
  std::array<pollfd, 3> fds{pollfd{signal_pipe[0], POLLIN, 0}, pollfd{stop_[0], POLLIN, 0},
                            pollfd{is_pipe(STDOUT_FILENO) ? STDOUT_FILENO : -1, 0, 0}};
  for (;;) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR)
      continue;
    if (fds[1].revents != 0)
      return;
    char byte = 0;
    const bool reader_left = std::exchange(fds[2].revents, short{0}) != 0;
    if (reader_left)
      fds[2].fd = -1;
    else if (read(signal_pipe[0], &byte, 1) != 1)
      continue;
    interrupted_ = true;
    on_interrupt_();
  }
}

} // namespace swarm::cli
