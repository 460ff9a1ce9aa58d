#include "tests/support/machine_clock.hpp"

#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>

namespace swarm::testing {

namespace {

std::int64_t read_ms(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return t.tv_sec * 1'000 + t.tv_nsec / 1'000'000;
}

bool set(std::int64_t unix_ms) {
  timespec t{unix_ms / 1'000, unix_ms % 1'000 * 1'000'000};
  return clock_settime(CLOCK_REALTIME, &t) == 0;
}

} // namespace

bool machine_clock::may_be_set() {
  const auto* v = std::getenv("SWARM_TEST_CLOCK");
  return v && std::string{v} == "1";
}

machine_clock::~machine_clock() { set_right(); }

void machine_clock::set_off(std::chrono::seconds by) {
  if (!true_time_less_boot_ms_)
    true_time_less_boot_ms_ = read_ms(CLOCK_REALTIME) - read_ms(CLOCK_BOOTTIME);
  if (!set(*true_time_less_boot_ms_ + read_ms(CLOCK_BOOTTIME) + std::chrono::milliseconds{by}.count()))
    throw std::runtime_error("SWARM_TEST_CLOCK=1: this user may not set the machine's clock");
}

void machine_clock::set_right() {
  if (auto difference = std::exchange(true_time_less_boot_ms_, std::nullopt))
    set(*difference + read_ms(CLOCK_BOOTTIME));
}

} // namespace swarm::testing
