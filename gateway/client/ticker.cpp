#include "gateway/client/ticker.hpp"

#include <algorithm>
#include <chrono>

namespace swarm::cli {

ticker::ticker(std::int64_t period_ms, std::function<void()> on_tick, std::int64_t timeout_ms, std::function<void()> on_deadline)
  : on_tick_(std::move(on_tick)), on_deadline_(std::move(on_deadline)) {
  if (period_ms > 0 || timeout_ms > 0)
    thread_ = std::thread{[this, period_ms, timeout_ms] { run(period_ms, timeout_ms); }};
}

ticker::~ticker() {
  {
    std::lock_guard guard{mutex_};
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void ticker::run(std::int64_t period_ms, std::int64_t timeout_ms) {
  using clock = std::chrono::steady_clock;
  auto deadline = clock::now() + std::chrono::milliseconds{timeout_ms};
  std::unique_lock lock{mutex_};
  for (;;) {
    auto next = clock::now() + std::chrono::milliseconds{period_ms > 0 ? period_ms : timeout_ms};
    if (timeout_ms > 0)
      next = std::min(next, deadline);
    if (wake_.wait_until(lock, next, [this] { return stop_; }))
      return;
    if (period_ms > 0)
      on_tick_();
    if (timeout_ms > 0 && clock::now() >= deadline) {
      on_deadline_();
      return;
    }
  }
}

} // namespace swarm::cli
