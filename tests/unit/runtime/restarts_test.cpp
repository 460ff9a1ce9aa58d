#include <doctest/doctest.h>

#include <set>

#include "actors/runtime/restarts.hpp"

using namespace std::chrono_literals;
using namespace swarm::runtime;

namespace {

restart_options plain() {
  restart_options o;
  o.jitter_percent = 0;
  return o;
}

} // namespace

TEST_CASE("waits double up to their maximum and start over after a stable life") {
  backoff waits;
  for (auto expected : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms})
    CHECK(waits.after_failure(plain(), 29'999ms, 1) == expected);
  CHECK(waits.after_failure(plain(), 30s, 1) == 100ms);
  for (int i = 0; i < 100; ++i)
    waits.after_failure(plain(), 0ms, 1);
  CHECK(waits.after_failure(plain(), 0ms, 1) == 5000ms);
}

TEST_CASE("the first failure may cost no wait") {
  backoff waits;
  auto options = at_once_first(plain());
  for (auto expected : {0ms, 100ms, 200ms})
    CHECK(waits.after_failure(options, 0ms, 1) == expected);
  CHECK(waits.after_failure(options, 30s, 1) == 0ms);
}

TEST_CASE("jitter shortens a wait by its share at most, differs between children, and repeats for the same one") {
  std::set<std::chrono::milliseconds> seen;
  restart_options options;
  options.jitter_percent = 20;
  for (std::size_t child = 0; child < 100; ++child) {
    backoff one, same;
    auto wait = one.after_failure(options, 0ms, child);
    CHECK(wait >= 80ms);
    CHECK(wait <= 100ms);
    CHECK(wait == same.after_failure(options, 0ms, child));
    seen.insert(wait);
  }
  CHECK(seen.size() == 21);
}

TEST_CASE("a budget holds for its window and is full again once it was exceeded") {
  restart_budget budget;
  auto options = plain();
  options.max_restarts = 2;
  options.window = 10s;
  CHECK(budget.spend(options, 0));
  CHECK(budget.spend(options, 5'000));
  CHECK_FALSE(budget.spend(options, 10'000));
  CHECK(budget.spend(options, 10'001));
  CHECK(budget.spend(options, 10'002));
  CHECK(budget.spend(options, 20'002)); // the first of these has left the window
  CHECK_FALSE(budget.spend(options, 20'002));
}

TEST_CASE("a child that fails too often rests for a whole window, and every failure is counted") {
  restart_record record;
  auto options = at_once_first(plain());
  options.max_restarts = 3;
  options.window = 60s;
  std::int64_t now = 0;
  for (auto expected : {0ms, 100ms, 200ms}) {
    auto next = record.failed(options, 0ms, now, 1);
    CHECK(next.wait == expected);
    CHECK_FALSE(next.rests);
    now += next.wait.count();
  }
  auto next = record.failed(options, 0ms, now, 1);
  CHECK(next.rests);
  CHECK(next.wait == 60s);
  CHECK_FALSE(record.failed(options, 0ms, now + 60'000, 1).rests);
  CHECK(record.failures() == 5);
}
