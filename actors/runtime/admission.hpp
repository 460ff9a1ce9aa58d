// Nothing enters the actor graph without a slot: CAF's mailboxes have no bound of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "actors/base/clock.hpp"
#include "actors/base/limits.hpp"

namespace swarm::runtime {

/// Counts calls in flight, in total and per principal. Thread-safe; never blocks for long (one mutex, no calls out).
class admission {
public:
  explicit admission(std::size_t total_max = limits::calls_in_flight_max(),
                     std::size_t per_principal_max = limits::calls_in_flight_per_principal_max());

  /// One call in flight. Freed by its destructor, on any thread, also after the admission itself is gone.
  class slot {
  public:
    slot(slot&&) noexcept = default;
    slot& operator=(slot&& other) noexcept;
    ~slot();

  private:
    friend class admission;
    struct state;
    slot(std::shared_ptr<state> owner, std::string principal);
    void leave() noexcept;

    std::shared_ptr<state> owner_;
    std::string principal_;
  };

  /// Nothing when a bound is reached: answer errc::overloaded.
  std::optional<slot> enter(std::string_view principal);

  std::size_t in_flight() const;
  std::size_t in_flight(std::string_view principal) const;

private:
  std::shared_ptr<slot::state> state_;
};

/// A token bucket per key, for instance spawns per minute of a principal. Thread-safe.
class rate_quota {
public:
  /// `burst`: what may be taken at once after a rest; at least 1. `clock` outlives the quota; its boot_ms is read.
  rate_quota(const clock_port& clock, std::size_t per_minute, std::size_t burst, std::size_t keys_max = limits::quota_keys_max());

  /// False when the key's bucket is empty, or when `keys_max` keys are already below their burst: answer errc::overloaded.
  bool take(std::string_view key);
  /// Milliseconds until take() can succeed; 0 when it would now.
  std::int64_t wait_ms(std::string_view key) const;

private:
  struct bucket {
    double tokens;
    std::int64_t at_ms;
  };

  double refilled(const bucket& b, std::int64_t now_ms) const;
  bool make_room(std::int64_t now_ms);

  const clock_port& clock_;
  const double per_ms_;
  const double burst_;
  const std::size_t keys_max_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, bucket> buckets_; // a full bucket need not be remembered
};

} // namespace swarm::runtime
