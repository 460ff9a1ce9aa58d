// Virtual time, what is to happen in it, and what it costs this machine.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "actors/base/clock.hpp"
#include "tools/simulate.d/settings.hpp"

namespace swarm::simulate {

/// What falls on one moment happens in the order in which it was planned.
class schedule final : public clock_port {
public:
  micros now() const { return now_; }
  void at(micros when, std::function<void()> what) { due_.push({std::max(when, now_), ++planned_, std::move(what)}); }
  void in(micros wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }

  /// All that is due until then, or until `enough` says so.
  void run_until(micros end, const std::function<bool()>& enough = {}) {
    while (!due_.empty() && due_.top().when <= end && !(enough && enough())) {
      auto next = std::move(const_cast<entry&>(due_.top())); // it goes at once
      due_.pop();
      now_ = next.when;
      next.what();
    }
    if (!(enough && enough()))
      now_ = std::max(now_, end);
  }

  std::int64_t unix_ms() const override { return 1'700'000'000'000 + boot_ms(); }
  std::int64_t boot_ms() const override { return now_ / one_ms; }

private:
  struct entry {
    micros when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const entry& other) const { return std::pair{when, order} > std::pair{other.when, other.order}; }
  };
  std::priority_queue<entry> due_;
  std::uint64_t planned_ = 0;
  micros now_ = 3'600 * one_second; // zero is special in places
};

/// Time of the processor that this thread has taken.
inline std::int64_t processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

/// What it takes to look at that twice, which is much of what is short.
inline std::int64_t looking_ns() {
  static const auto took = [] {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 10'000; ++i) {
      auto from = processor_ns();
      least = std::min(least, processor_ns() - from);
    }
    return least;
  }();
  return took;
}

/// Adds what passes until its end to a sum. Of nested ones only the outermost adds anything.
class charged {
public:
  explicit charged(std::int64_t& sum) : sum_(sum), outermost_(depth_++ == 0), from_(outermost_ ? processor_ns() : 0) {}
  ~charged() {
    --depth_;
    if (outermost_)
      sum_ += std::max<std::int64_t>(0, processor_ns() - from_ - looking_ns());
  }
  charged(const charged&) = delete;
  charged& operator=(const charged&) = delete;

private:
  static inline int depth_ = 0;
  std::int64_t& sum_;
  bool outermost_;
  std::int64_t from_;
};

} // namespace swarm::simulate
