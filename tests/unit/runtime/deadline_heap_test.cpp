#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/runtime/deadline_heap.hpp"
#include "actors/runtime/defaults.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using heap = runtime::deadline_heap<std::string>;

TEST_CASE("keys come out by deadline, equal ones in the order they were set, and not before their time") {
  heap h;
  h.set("late", 30);
  h.set("x", 10);
  h.set("y", 10);
  CHECK(h.next() == 10);
  CHECK_FALSE(h.take_due(9));
  CHECK(h.take_due(10) == "x");
  CHECK(h.take_due(10) == "y");
  CHECK_FALSE(h.take_due(10));
  CHECK(h.next() == 30);
  CHECK(h.take_due(99) == "late");
  CHECK(h.empty());
  CHECK_FALSE(h.next());
}

TEST_CASE("a new deadline applies, the one that it replaces does not") {
  heap h;
  h.set("a", 10);
  h.set("a", 20);
  CHECK(h.size() == 1);
  CHECK_FALSE(h.take_due(10));
  CHECK(h.next() == 20);
  h.set("a", 5);
  CHECK(h.take_due(5) == "a");
  CHECK_FALSE(h.take_due(100));
}

TEST_CASE("a cancelled key never comes due") {
  heap h;
  h.set("a", 10);
  CHECK(h.cancel("a"));
  CHECK_FALSE(h.cancel("a"));
  CHECK_FALSE(h.take_due(100));
  CHECK_FALSE(h.next());
}

TEST_CASE("the heap agrees with a plain map under any sequence of operations") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng{seed};
    heap h;
    std::map<std::string, std::int64_t> model;
    for (int i = 0; i < 400; ++i) {
      auto key = std::to_string(rng() % 12);
      auto now = static_cast<std::int64_t>(rng() % 100);
      switch (rng() % 4) {
        case 0:
        case 1:
          h.set(key, now);
          model[key] = now;
          break;
        case 2: REQUIRE(h.cancel(key) == (model.erase(key) == 1)); break;
        default: {
          auto taken = h.take_due(now);
          auto least = std::ranges::min_element(model, {}, [](const auto& e) { return e.second; });
          REQUIRE(taken.has_value() == (least != model.end() && least->second <= now));
          if (taken) {
            REQUIRE(model.at(*taken) == least->second);
            model.erase(*taken);
          }
        }
      }
      REQUIRE(h.size() == model.size());
    }
  }
}

namespace {

struct sleeper_state {
  static inline const char* name = "sleeper";
  runtime::single_timer timer;
};

caf::behavior sleeper(caf::stateful_actor<sleeper_state>* self, const clock_port* clock, std::vector<std::int64_t>* woken, int* ticks) {
  runtime::install_defaults(self);
  return {
    [=](std::int64_t deadline) { self->state.timer.arm(self, clock->boot_ms(), deadline); },
    [=](tick_atom, std::uint64_t stamp) {
      ++*ticks;
      if (self->state.timer.fired(stamp))
        woken->push_back(clock->boot_ms());
    },
  };
}

} // namespace

TEST_CASE("one timer is armed: an earlier deadline supersedes, a later one does not") {
  test::quiet silence;
  test::world<> w;
  std::vector<std::int64_t> woken;
  int ticks = 0;
  auto a = w.sys.spawn(sleeper, &w.clock, &woken, &ticks);
  w.settle();
  w.tell(a, std::int64_t{1'000});
  w.tell(a, std::int64_t{2'000}); // an earlier wake-up is on its way
  w.tell(a, std::int64_t{400});   // supersedes
  w.advance(399ms);
  CHECK(woken.empty());
  w.advance(1ms);
  CHECK(woken == std::vector<std::int64_t>{400});
  w.advance(10s);
  CHECK(ticks == 2); // the superseded one fired and was told apart
  CHECK(woken.size() == 1);
  w.tell(a, std::int64_t{0}); // long past: at once
  w.advance(0ms);
  CHECK(woken.size() == 2);
  w.end(a);
}
