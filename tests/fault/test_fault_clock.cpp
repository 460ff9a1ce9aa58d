// gRPC while the wall clock jumps: deadlines, and attempts to connect, which it times by two clockworks of its own.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "actors/base/unique_fd.hpp"
#include "tests/fault/fault_world.hpp"
#include "tests/support/machine_clock.hpp"
#include "tests/support/node_process.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

void pass(unsigned ms) { poll(nullptr, 0, static_cast<int>(ms)); }

/// So many alarms that one falls due at almost any moment, as in a node with many calls.
class alarms {
public:
  alarms(std::size_t number, unsigned seed) : alarms_(number), running_(number) {
    for (std::size_t i = 0; i < number; ++i)
      arm(i, std::minstd_rand{seed + static_cast<unsigned>(i)});
  }
  ~alarms() {
    stopped_ = true;
    CHECK(eventually([&] { return running_ == 0; }));
  }
  bool go_on() const {
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

/// A channel to somebody who hangs up at once, so that it tries again and again.
class attempts {
public:
  attempts() {
    auto path = dir_.text() + "/socket";
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    REQUIRE((bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && listen(listener_.get(), 8) == 0));
    thread_ = std::thread{[this] {
      for (;;) {
        unique_fd caller{accept(listener_.get(), nullptr, nullptr)};
        if (caller.get() < 0)
          return;
        ++attempts_;
      }
    }};
    grpc::ChannelArguments a;
    for (const auto* name : {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS})
      a.SetInt(name, 100);
    channel_ = grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), a);
  }
  ~attempts() {
    channel_ = nullptr;
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  bool go_on() const {
    return eventually([this, before = attempts_.load()] {
      channel_->GetState(true);
      return attempts_ > before + 2;
    });
  }

private:
  temp_dir dir_;
  unique_fd listener_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::shared_ptr<grpc::Channel> channel_;
  std::atomic<std::size_t> attempts_{0};
  std::thread thread_;
};

} // namespace

TEST_CASE("gRPC's deadlines and attempts to connect go on when the wall clock is set back" * doctest::skip(!machine_clock::may_be_set())) {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  machine_clock clock;
  alarms due{8, seed};
  attempts tried;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    clock.set_off(700s);
    pass(10 + static_cast<unsigned>(rng() % 150));
    clock.set_right();
    REQUIRE(due.go_on());
    REQUIRE(tried.go_on());
  }
}
