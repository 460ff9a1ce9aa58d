#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "actors/runtime/admission.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::admission;
using runtime::rate_quota;

TEST_CASE("a principal has its own bound, and all together have theirs") {
  admission a{3, 2};
  auto one = a.enter("x");
  auto two = a.enter("x");
  CHECK(one);
  CHECK(two);
  CHECK_FALSE(a.enter("x"));
  auto three = a.enter("y");
  CHECK(three);
  CHECK_FALSE(a.enter("z"));
  CHECK(a.in_flight() == 3);
  one.reset();
  CHECK(a.in_flight("x") == 1);
  CHECK(a.enter("z"));
  CHECK(a.in_flight() == 2); // that last one was freed at once
}

TEST_CASE("a moved slot is freed once, and a slot may outlive the admission") {
  std::optional<admission::slot> kept;
  {
    admission a{2, 2};
    auto s = a.enter("x");
    auto t = std::move(*s);
    s.reset();
    CHECK(a.in_flight() == 1);
    auto other = a.enter("x");
    *other = std::move(t); // frees what it held
    CHECK(a.in_flight() == 1);
    kept = std::move(other);
    CHECK(a.in_flight("x") == 1);
  }
  kept.reset();
}

TEST_CASE("under many threads no bound is ever exceeded and every slot comes back") {
  admission a{8, 3};
  std::atomic<int> inside{0}, inside_x{0}, admitted{0}, refused{0}, too_many{0};
  std::vector<std::thread> crowd;
  for (int t = 0; t < 8; ++t)
    crowd.emplace_back([&, t] {
      auto mine = t < 5;
      std::string who = mine ? "x" : "y" + std::to_string(t);
      for (int i = 0; i < 4'000; ++i) {
        std::vector<admission::slot> held;
        for (int n = 0; n < 2; ++n) {
          auto s = a.enter(who);
          if (!s) {
            ++refused;
            continue;
          }
          ++admitted;
          too_many += ++inside > 8;
          if (mine)
            too_many += ++inside_x > 3;
          held.push_back(std::move(*s));
        }
        if (i % 16 == 0)
          std::this_thread::yield();
        inside -= static_cast<int>(held.size());
        if (mine)
          inside_x -= static_cast<int>(held.size());
      }
    });
  for (auto& t : crowd)
    t.join();
  CHECK(too_many == 0);
  CHECK(admitted > 1'000);
  CHECK(admitted + refused == 8 * 4'000 * 2);
  CHECK(a.in_flight() == 0);
  CHECK(a.in_flight("x") == 0);
}

TEST_CASE("a bucket gives its burst at once and then its rate") {
  manual_clock clock;
  rate_quota q{clock, 60, 3};
  for (int i = 0; i < 3; ++i)
    CHECK(q.take("x"));
  CHECK_FALSE(q.take("x"));
  CHECK(q.take("y")); // has a bucket of its own
  CHECK(q.wait_ms("x") == 1'000);
  clock.advance(999ms);
  CHECK_FALSE(q.take("x"));
  clock.advance(1ms);
  CHECK(q.wait_ms("x") == 0);
  CHECK(q.take("x"));
  CHECK_FALSE(q.take("x"));
  clock.advance(1h);
  for (int i = 0; i < 3; ++i)
    CHECK(q.take("x"));
  CHECK_FALSE(q.take("x")); // rest does not add up beyond the burst
}

TEST_CASE("the number of remembered keys is bounded, and full buckets make room") {
  manual_clock clock;
  rate_quota q{clock, 60, 1, 2};
  CHECK(q.take("a"));
  CHECK(q.take("b"));
  CHECK_FALSE(q.take("c"));
  clock.advance(1s);
  CHECK(q.take("c"));
}
