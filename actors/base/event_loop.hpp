// One thread waiting for descriptors and deadlines: epoll and a timerfd.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "actors/base/clock.hpp"
#include "actors/base/unique_fd.hpp"

namespace swarm {

class event_loop {
public:
  using token = std::uint64_t; // 0 is nobody
  using handler = std::function<void(std::uint32_t events)>;
  using action = std::function<void()>;

  /// Throws std::runtime_error when the system has no descriptors left. The clock must be the machine's.
  explicit event_loop(const clock_port&);

  /// The handler may remove itself and others. 0 when the descriptor cannot be watched.
  token watch(int fd, std::uint32_t events, handler);
  void change(token, std::uint32_t events);
  /// To be called before the descriptor is closed.
  void remove(token);

  token after(std::chrono::milliseconds, action);
  void cancel(token);

  /// Runs until stop(). `end_of_turn` is called after each batch of events; `quiet` says that none had come. While it returns true, work is left: the
  /// loop then does not sleep, and calls it again.
  void run(const std::function<bool(bool quiet)>& end_of_turn);
  void stop() noexcept { stopped_ = true; }

private:
  struct watched {
    int fd;
    std::uint32_t events;
    std::shared_ptr<handler> call;
  };

  void arm();
  void fire_due();

  const clock_port& clock_;
  unique_fd epoll_;
  unique_fd timer_;
  bool stopped_ = false;
  token last_ = 0;
  std::map<token, watched> watched_;
  std::map<std::pair<std::int64_t, token>, action> timers_;
};

} // namespace swarm
