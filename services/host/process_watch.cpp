#include "services/host/process_watch.hpp"

#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

#include <poll.h>
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

process_watch::begun process_watch::begin(std::uint64_t id, wanted& w) {
  auto pidfd = open_pidfd(static_cast<pid_t>(w.pid));
  // Only a process that is known to have ended has ended: its session would lose its locks.
  if (!pidfd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    return begun::no_room;
  if (!pidfd)
    return begun::gone;
  // The start time is read after the descriptor was opened: if it fits, the descriptor is that very process.
  auto started = pid_start_time(static_cast<pid_t>(w.pid));
  pollfd ended{pidfd->get(), POLLIN, 0};
  if (!started && poll(&ended, 1, 0) == 0)
    return begun::no_room; // it lives, and there is no descriptor to read its time with
  if (started.value_or(0) != w.pid_start)
    return begun::gone;
  epoll_event e{};
  e.events = EPOLLIN | EPOLLONESHOT;
  e.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd->get(), &e) != 0)
    return begun::no_room;
  watched_.emplace(id, watched{std::move(*pidfd), std::move(w.gone)});
  return begun::watching;
}

std::uint64_t process_watch::watch(std::int64_t pid, std::uint64_t pid_start, std::function<void()> gone) {
  wanted w{pid, pid_start, std::move(gone)};
  {
    std::lock_guard guard{mutex_};
    auto id = next_++;
    switch (begin(id, w)) {
      case begun::watching: return id;
      case begun::no_room: waiting_.emplace(id, std::move(w)); return id;
      case begun::gone: break;
    }
  }
  w.gone();
  return 0;
}

void process_watch::begin_waiting() {
  std::vector<std::function<void()>> ended;
  {
    std::lock_guard guard{mutex_};
    while (!waiting_.empty()) {
      auto i = waiting_.begin();
      auto now = begin(i->first, i->second);
      if (now == begun::no_room)
        break;
      if (now == begun::gone)
        ended.push_back(std::move(i->second.gone));
      waiting_.erase(i);
    }
  }
  for (const auto& gone : ended)
    gone();
}

void process_watch::forget(std::uint64_t id) {
  {
    std::lock_guard guard{mutex_};
    watched_.erase(id); // closing the descriptor takes it out of epoll
    waiting_.erase(id);
  }
  begin_waiting();
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
    begin_waiting();
  }
}

} // namespace swarm
