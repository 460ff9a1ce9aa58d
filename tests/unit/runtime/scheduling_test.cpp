#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/scheduling.hpp"
#include "actors/runtime/system.hpp"

using namespace swarm;
using namespace std::chrono_literals;

namespace {

struct running {
  explicit running(std::size_t workers) : cfg(runtime::make_config<>(workers)), sys(cfg) {}
  caf::actor_system_config cfg;
  caf::actor_system sys;
};

/// Adds one and asks the next; the last one answers.
caf::behavior step(caf::event_based_actor* self, caf::actor next, std::atomic<std::thread::id>* where) {
  runtime::install_defaults(self);
  return {[self, next, where](int n) {
    *where = std::this_thread::get_id();
    auto answer = self->make_response_promise();
    if (next)
      answer.delegate(next, n + 1);
    else
      answer.deliver(n);
    return answer;
  }};
}

/// An actor that does this with each number it is sent.
template <class F>
caf::actor taker(caf::actor_system& sys, F f) {
  return sys.spawn([f](caf::event_based_actor* self) -> caf::behavior {
    runtime::install_defaults(self);
    return {[f, self](int n) { f(self, n); }};
  });
}

} // namespace

TEST_CASE("what a guest sends runs on the guest's own thread, and it is back when that is done") {
  running r{2};
  std::vector<std::atomic<std::thread::id>> where(4);
  std::vector<caf::actor> steps;
  for (std::size_t i = 0; i < where.size(); ++i)
    steps.push_back(r.sys.spawn(step, steps.empty() ? caf::actor{} : steps.back(), &where[i]));
  std::atomic<int> got{0};
  auto asker =
    taker(r.sys, [&](caf::event_based_actor* self, int first) { self->request(steps.back(), caf::infinite, first).then([&](int n) { got = n; }); });
  // The actors begin on a worker; only then is there nothing for a worker to do.
  {
    caf::scoped_actor me{r.sys};
    me->request(steps.back(), 10s, 1).receive([](int) {}, [](const caf::error&) {});
  }
  auto here = std::this_thread::get_id();
  auto calls = 0;
  // A worker that is just going to sleep may still hold one of them: then the answer comes a moment later, from there.
  for (auto end = std::chrono::steady_clock::now() + 10s; calls == 0 && std::chrono::steady_clock::now() < end;) {
    got = 0;
    runtime::run_here(
      r.sys, [&] { caf::anon_send(asker, 1); }, [&] { return got != 0; });
    if (got == 4 && where.front().load() == here)
      ++calls;
    while (got != 4)
      std::this_thread::yield();
  }
  CHECK(calls == 1);
  for (const auto& w : where)
    CHECK(w.load() == here);
  runtime::ask_to_end(asker);
  for (auto& s : steps)
    runtime::ask_to_end(s);
}

TEST_CASE("an actor that is about to block gives away what waits on its worker") {
  running r{2};
  std::promise<void> released;
  auto helper = taker(r.sys, [&](caf::event_based_actor*, int) { released.set_value(); });
  std::promise<bool> outcome;
  auto blocker = taker(r.sys, [&](caf::event_based_actor* self, int n) {
    self->send(helper, n);
    runtime::before_blocking();
    outcome.set_value(released.get_future().wait_for(20s) == std::future_status::ready);
  });
  caf::anon_send(blocker, 1);
  CHECK(outcome.get_future().get());
  runtime::ask_to_end(blocker);
  runtime::ask_to_end(helper);
}

TEST_CASE("everybody one actor sends to gets its turn, however many they are") {
  running r{2};
  constexpr int others = 64;
  std::latch done{others};
  std::vector<caf::actor> crowd;
  for (int i = 0; i < others; ++i)
    crowd.push_back(taker(r.sys, [&](caf::event_based_actor*, int) { done.count_down(); }));
  auto sender = taker(r.sys, [&](caf::event_based_actor* self, int n) {
    for (auto& c : crowd)
      self->send(c, n);
  });
  caf::anon_send(sender, 1);
  for (auto end = std::chrono::steady_clock::now() + 20s; !done.try_wait() && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();
  REQUIRE(done.try_wait());
  runtime::ask_to_end(sender);
  for (auto& c : crowd)
    runtime::ask_to_end(c);
}

namespace {

/// Stands for a job; never run.
caf::resumable* job(std::uintptr_t n) { return reinterpret_cast<caf::resumable*>(n << 4); }

} // namespace

TEST_CASE("a worker keeps what its actors send, and gives away what is too much while another one is idle") {
  runtime::shared_jobs shared;
  runtime::own_jobs own;
  own.shared = &shared;
  const auto many = 10 * runtime::own_jobs::jobs_max;
  for (std::uintptr_t n = 1; n <= many; ++n)
    own.put(job(n));
  CHECK(own.jobs.size() == many);
  CHECK(shared.try_take() == nullptr);
  own.jobs.clear();
  auto helper = std::async(std::launch::async, [&] { return shared.take(); });
  for (auto end = std::chrono::steady_clock::now() + 20s; shared.idle() == 0 && std::chrono::steady_clock::now() < end;)
    std::this_thread::yield();
  REQUIRE(shared.idle() == 1);
  for (std::uintptr_t n = 1; n <= runtime::own_jobs::jobs_max; ++n)
    own.put(job(n));
  CHECK(own.jobs.size() == runtime::own_jobs::jobs_max);
  own.put(job(many));
  CHECK(own.jobs.size() == runtime::own_jobs::jobs_max);
  CHECK(helper.get() == job(many));
}

TEST_CASE("a worker that always has something of its own still takes from the shared queue") {
  runtime::shared_jobs shared;
  runtime::own_jobs own;
  own.shared = &shared;
  constexpr std::uintptr_t from_outside = 1'000;
  shared.put(job(from_outside));
  auto taken = false;
  for (std::size_t turn = 1; turn <= runtime::own_jobs::turns_between_shared; ++turn) {
    own.put(job(turn));
    own.put(job(turn));
    taken |= own.take() == job(from_outside);
  }
  CHECK(taken);
}

TEST_CASE("the shared queue hands out each job once, in order, and blocks while it is empty") {
  runtime::shared_jobs shared;
  CHECK(shared.try_take() == nullptr);
  CHECK(shared.idle() == 0);
  constexpr std::uintptr_t jobs = 1'000;
  std::vector<std::thread> takers;
  std::vector<std::vector<std::uintptr_t>> taken(2);
  for (auto& mine : taken)
    takers.emplace_back([&] {
      while (auto n = reinterpret_cast<std::uintptr_t>(shared.take()) >> 4) {
        if (n > jobs)
          return;
        mine.push_back(n);
      }
    });
  std::deque<caf::resumable*> some;
  for (std::uintptr_t n = 1; n <= jobs; ++n) {
    if (n % 3 != 0) {
      some.push_back(job(n));
      continue;
    }
    some.push_back(job(n));
    shared.put_all(some);
    CHECK(some.empty());
  }
  shared.put_all(some);
  shared.put(job(jobs + 1));
  shared.put(job(jobs + 2));
  for (auto& t : takers)
    t.join();
  std::vector<std::uintptr_t> all;
  for (const auto& mine : taken) {
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == jobs);
  CHECK(all.front() == 1);
  CHECK(all.back() == jobs);
}
