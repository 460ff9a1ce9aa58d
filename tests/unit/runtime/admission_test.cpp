#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "actors/runtime/admission.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::admission;

TEST_CASE("a principal has its own bound, and all together have theirs") {
  admission a{{.total = 3, .per_principal = 2, .per_caller = 3, .for_operator = 0}};
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
    admission a{{.total = 2, .per_principal = 2, .per_caller = 2, .for_operator = 0}};
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
  admission a{{.total = 8, .per_principal = 3, .per_caller = 8, .for_operator = 0}};
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

TEST_CASE("a caller has one share for all the principals it acts as") {
  admission a{{.total = 10, .per_principal = 3, .per_caller = 4, .for_operator = 0}};
  std::vector<admission::slot> held;
  for (const auto* session : {"s1", "s2", "s3", "s4", "s1", "s2"})
    if (auto slot = a.enter(session, "a worker"))
      held.push_back(std::move(*slot));
  CHECK(held.size() == 4);
  CHECK_FALSE(a.enter("s5", "a worker"));
  CHECK(a.enter("s1", "another worker"));
  held.pop_back();
  CHECK(a.enter("s5", "a worker"));
}

TEST_CASE("the last calls are kept for the operator") {
  admission a{{.total = 3, .per_principal = 3, .per_caller = 3, .for_operator = 1}};
  auto one = a.enter("s1", "x"), two = a.enter("s2", "y");
  REQUIRE(two);
  CHECK_FALSE(a.enter("s3", "z"));
  CHECK(a.enter("operator/", "p", true));
  one.reset();
  CHECK(a.enter("s3", "z"));
}
