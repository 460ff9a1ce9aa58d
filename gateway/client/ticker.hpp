// A thread that ticks, and that ends a wait at its deadline.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace swarm::cli {

/// Calls `on_tick` every period (0 = never) and `on_deadline` once after `timeout_ms` (0 = never), on a thread of its own.
class ticker {
public:
  ticker(std::int64_t period_ms, std::function<void()> on_tick, std::int64_t timeout_ms, std::function<void()> on_deadline);
  ~ticker();
  ticker(const ticker&) = delete;
  ticker& operator=(const ticker&) = delete;

private:
  void run(std::int64_t period_ms, std::int64_t timeout_ms);

  std::function<void()> on_tick_;
  std::function<void()> on_deadline_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

} // namespace swarm::cli
