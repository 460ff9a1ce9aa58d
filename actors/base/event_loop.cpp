#include "actors/base/event_loop.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <sys/epoll.h>
#include <sys/timerfd.h>

namespace swarm {

namespace {

constexpr std::uint64_t timer_token = 0;

} // namespace

event_loop::event_loop(const clock_port& clock)
  : clock_(clock), epoll_(epoll_create1(EPOLL_CLOEXEC)), timer_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = timer_token;
  if (!epoll_ || !timer_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &e) != 0)
    throw std::runtime_error("cannot create an event loop");
}

event_loop::token event_loop::watch(int fd, std::uint32_t events, handler call) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = ++last_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0)
    return 0;
  watched_.emplace(last_, watched{fd, events, std::make_shared<handler>(std::move(call))});
  return last_;
}

void event_loop::change(token t, std::uint32_t events) {
  auto i = watched_.find(t);
  if (i == watched_.end() || i->second.events == events)
    return;
  epoll_event e{};
  e.events = events;
  e.data.u64 = t;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, i->second.fd, &e);
  i->second.events = events;
}

void event_loop::remove(token t) {
  auto i = watched_.find(t);
  if (i == watched_.end())
    return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, i->second.fd, nullptr);
  watched_.erase(i);
}

event_loop::token event_loop::after(std::chrono::milliseconds delay, action call) {
  auto t = ++last_;
  timers_.emplace(std::pair{clock_.boot_ms() + std::max<std::int64_t>(delay.count(), 0), t}, std::move(call));
  arm();
  return t;
}

void event_loop::cancel(token t) {
  auto i = std::find_if(timers_.begin(), timers_.end(), [t](const auto& timer) { return timer.first.second == t; });
  if (i == timers_.end())
    return;
  timers_.erase(i);
  arm();
}

void event_loop::arm() {
  itimerspec spec{};
  if (!timers_.empty()) {
    // The clock is read in whole milliseconds: one more, or we would wake just before the deadline.
    auto at = timers_.begin()->first.first + 1;
    spec.it_value.tv_sec = at / 1000;
    spec.it_value.tv_nsec = at % 1000 * 1'000'000;
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void event_loop::fire_due() {
  auto now = clock_.boot_ms();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto call = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    call();
  }
  arm();
}

void event_loop::run(const std::function<bool(bool quiet)>& end_of_turn) {
  std::array<epoll_event, 64> ready;
  for (auto left = false; !stopped_;) {
    auto n = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), left ? 0 : -1);
    for (int i = 0; i < n; ++i) {
      const auto& e = ready[static_cast<std::size_t>(i)];
      // A copy: the kernel's structure is packed, so its member may lie anywhere, and a reference to it may not.
      token of_event = e.data.u64;
      if (of_event == timer_token) {
        fire_due();
        continue;
      }
      auto w = watched_.find(of_event);
      if (w == watched_.end())
        continue;
      auto call = w->second.call;
      (*call)(e.events);
    }
    left = end_of_turn(n <= 0);
  }
}

} // namespace swarm
