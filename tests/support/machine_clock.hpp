// The wall clock of this machine: that of all hosts of a test, and of whatever else runs there. Set only with SWARM_TEST_CLOCK=1.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace swarm::testing {

class machine_clock {
public:
  static bool may_be_set();

  machine_clock() = default;
  machine_clock(const machine_clock&) = delete;
  machine_clock& operator=(const machine_clock&) = delete;
  /// Sets it right.
  ~machine_clock();

  /// True time plus so much, until set_right(). Throws when this user may not.
  void set_off(std::chrono::seconds by);
  void set_right();

private:
  std::optional<std::int64_t> true_time_less_boot_ms_; // while it is off
};

} // namespace swarm::testing
