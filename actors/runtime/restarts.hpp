// When what has failed is started again: the one policy of supervisors and of every other parent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace swarm::runtime {

struct restart_options {
  /// A failure that no other one came shortly before costs no wait.
  bool first_at_once = false;
  /// The wait before a restart doubles with each failure in a row ...
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};
  /// ... until the child has lived this long.
  std::chrono::milliseconds stable_after{30'000};
  /// Waits are shortened by at most this share of them, in percent, so that children that failed together do not start together.
  unsigned jitter_percent = 20;
  /// More restarts than this within `window` are too many.
  std::size_t max_restarts = 5;
  std::chrono::milliseconds window{60'000};
};

inline restart_options at_once_first(restart_options options) {
  options.first_at_once = true;
  return options;
}

/// The waits of one child.
class backoff {
public:
  /// The child failed after it had lived this long. How long to wait; `salt` tells children apart, equal ones wait equally long.
  std::chrono::milliseconds after_failure(const restart_options&, std::chrono::milliseconds lived, std::size_t salt);

private:
  std::uint32_t in_a_row_ = 0;
};

/// The restarts of one child, or of all children of a supervisor.
class restart_budget {
public:
  /// False when this restart is one too many; then the budget is full again. `now_ms` of a clock that only goes forward.
  bool spend(const restart_options&, std::int64_t now_ms);

private:
  std::deque<std::int64_t> recent_; // at most max_restarts
};

/// What a parent that must not give up keeps of a child that fails: waits, and a rest of a whole window when there were too many.
class restart_record {
public:
  struct decision {
    std::chrono::milliseconds wait{0};
    /// It fails too often: callers are refused with errc::unavailable until the wait is over.
    bool rests = false;
  };
  decision failed(const restart_options&, std::chrono::milliseconds lived, std::int64_t now_ms, std::size_t salt);

  /// Failures so far.
  std::uint64_t failures() const noexcept { return failures_; }

private:
  backoff waits_;
  restart_budget budget_;
  std::uint64_t failures_ = 0;
};

} // namespace swarm::runtime
