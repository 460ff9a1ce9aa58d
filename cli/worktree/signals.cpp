#include "cli/worktree/signals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

constexpr std::array held{SIGINT, SIGTERM, SIGHUP};

// Globals, because a signal handler can reach nothing else. The descriptor stays open: a handler on another thread may be about to write.
std::array<struct sigaction, held.size()> previous;
int depth = 0;
int event = -1;
std::atomic<int> first = 0;

void on_signal(int signal) {
  auto saved = errno;
  int none = 0;
  first.compare_exchange_strong(none, signal);
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = write(event, &one, sizeof one);
  errno = saved;
}

void forget_signals() {
  first = 0;
  std::uint64_t count = 0;
  [[maybe_unused]] auto n = read(event, &count, sizeof count);
}

} // namespace

signals_held::signals_held() {
  if (depth++ > 0)
    return;
  if (event < 0)
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  forget_signals();
  // Not a mask, which is of this thread alone: the call's own threads would take the signal.
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < held.size(); ++i) {
    sigaction(held[i], nullptr, &previous[i]);
    if (previous[i].sa_handler != SIG_IGN)
      sigaction(held[i], &action, nullptr);
  }
}

signals_held::~signals_held() {
  if (--depth > 0)
    return;
  for (std::size_t i = 0; i < held.size(); ++i)
    sigaction(held[i], &previous[i], nullptr);
  if (auto signal = first.exchange(0); signal != 0)
    raise(signal);
}

int signals_held::arrival() const noexcept { return event; }

bool signals_held::take() noexcept {
  bool came = first != 0;
  forget_signals();
  return came;
}

} // namespace swarm::cli
