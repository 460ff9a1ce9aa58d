// gRPC's deadlines while the wall clock jumps.
#include <atomic>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <poll.h>

#include "services/clock_watch.hpp"
#include "tests/fault/fault_world.hpp"
#include "tests/support/machine_clock.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

void pass(unsigned ms) { poll(nullptr, 0, static_cast<int>(ms)); }

/// So many alarms that one falls due at almost any moment, as in a node with many calls.
class ticking {
public:
  ticking(std::size_t alarms, unsigned seed) : alarms_(alarms), running_(alarms) {
    for (std::size_t i = 0; i < alarms; ++i)
      arm(i, std::minstd_rand{seed + static_cast<unsigned>(i)});
  }
  ~ticking() {
    stopped_ = true;
    CHECK(eventually([&] { return running_ == 0; }));
  }
  bool goes_on() const {
    return eventually([this, before = ticks_.load()] { return ticks_ > before + 2 * alarms_.size(); });
  }

private:
  void arm(std::size_t i, std::minstd_rand rng) {
    constexpr unsigned longest_ms = 12;
    auto in = gpr_time_from_millis(1 + static_cast<std::int64_t>(rng() % longest_ms), GPR_TIMESPAN);
    alarms_[i].Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), in), [this, i, rng](bool) {
      ++ticks_;
      if (stopped_)
        --running_;
      else
        arm(i, rng);
    });
  }

  std::vector<grpc::Alarm> alarms_;
  std::atomic<std::size_t> running_;
  std::atomic<std::size_t> ticks_{0};
  std::atomic<bool> stopped_{false};
};

} // namespace

TEST_CASE("deadlines of gRPC go on when the wall clock is set back, also those that have passed meanwhile" *
          doctest::skip(!machine_clock::may_be_set())) {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  clock_watch watch;
  machine_clock clock;
  ticking alarms{8, seed};
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    clock.set_off(700s);
    pass(10 + static_cast<unsigned>(rng() % 10));
    clock.set_right();
    REQUIRE(alarms.goes_on());
  }
}
