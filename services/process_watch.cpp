#include "services/process_watch.hpp"

#include <stdexcept>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "actors/base/process.hpp"

namespace swarm {

process_watch::process_watch() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC)) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = 0;
  if (!epoll_ || !stop_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &e) != 0)
    throw std::runtime_error("cannot watch processes: no epoll");
  thread_ = std::thread([this] { run(); });
}

process_watch::~process_watch() {
  std::uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  thread_.join();
}

std::uint64_t process_watch::watch(std::int64_t pid, std::uint64_t pid_start, std::function<void()> gone) {
  auto pidfd = open_pidfd(static_cast<pid_t>(pid));
  // The start time is read after the descriptor was opened: if it fits, the descriptor is that very process.
  if (!pidfd || pid_start_time(static_cast<pid_t>(pid)).value_or(0) != pid_start) {
    gone();
    return 0;
  }
  std::lock_guard guard{mutex_};
  auto id = next_++;
  epoll_event e{};
  e.events = EPOLLIN | EPOLLONESHOT;
  e.data.u64 = id;
  auto fd = pidfd->get();
  watched_.emplace(id, watched{std::move(*pidfd), std::move(gone)});
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e);
  return id;
}

void process_watch::forget(std::uint64_t id) {
  std::lock_guard guard{mutex_};
  watched_.erase(id); // closing the descriptor takes it out of epoll
}

void process_watch::run() {
  pthread_setname_np(pthread_self(), "swarm.pidfd");
  for (;;) {
    epoll_event events[16];
    auto n = epoll_wait(epoll_.get(), events, 16, -1);
    for (int i = 0; i < n; ++i) {
      auto id = events[i].data.u64;
      if (id == 0)
        return;
      std::function<void()> gone;
      {
        std::lock_guard guard{mutex_};
        if (auto node = watched_.extract(id); !node.empty())
          gone = std::move(node.mapped().gone);
      }
      if (gone)
        gone();
    }
  }
}

} // namespace swarm
