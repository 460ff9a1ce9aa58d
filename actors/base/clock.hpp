// The time port: everything that needs the time is given one of these.
#pragma once

#include <chrono>
#include <cstdint>

namespace swarm {

class clock_port {
public:
  virtual ~clock_port() = default;
  /// Unix milliseconds, for what is stored and shown.
  virtual std::int64_t unix_ms() const = 0;
  /// Milliseconds of a clock that never jumps and runs in suspend (CLOCK_BOOTTIME), for leases and ages.
  virtual std::int64_t boot_ms() const = 0;
};

/// The machine's clocks.
const clock_port& system_clock_port();

/// Moves only when told to.
class manual_clock final : public clock_port {
public:
  explicit manual_clock(std::int64_t start_ms = 1'700'000'000'000) : now_(start_ms) {}
  std::int64_t unix_ms() const override { return now_; }
  std::int64_t boot_ms() const override { return now_; }
  void advance(std::chrono::milliseconds d) { now_ += d.count(); }

private:
  std::int64_t now_;
};

} // namespace swarm
