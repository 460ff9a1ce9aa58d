#include "actors/base/clock.hpp"

#include <ctime>

namespace swarm {

namespace {

std::int64_t read_ms(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

class machine_clock final : public clock_port {
public:
  std::int64_t unix_ms() const override { return read_ms(CLOCK_REALTIME); }
  std::int64_t boot_ms() const override { return read_ms(CLOCK_BOOTTIME); }
};

} // namespace

const clock_port& system_clock_port() {
  static const machine_clock c;
  return c;
}

} // namespace swarm
