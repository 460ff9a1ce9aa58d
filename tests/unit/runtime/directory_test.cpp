#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/runtime/directory.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace std::chrono_literals;
using namespace swarm;

namespace {

/// Stands in for the store: rows outlive activations.
struct fake_store {
  std::map<std::string, std::uint64_t> rows;
  std::map<std::string, int> awake;
  int now_awake = 0;
  int doubles = 0; // activations beside a living one: must stay 0
  std::size_t activations = 0;
  std::size_t refusals = 0;
  std::uint64_t busy_one_in = 0;  // 0: never busy
  std::uint64_t crash_one_in = 0; // 0: never crashes
  std::mt19937_64 dice{1};

  bool one_in(std::uint64_t n) { return n != 0 && dice() % n == 0; }
};
using store_ptr = std::shared_ptr<fake_store>;

constexpr std::uint64_t crash_now = 1'000'000;

using entity_actor =
  caf::typed_actor<caf::replies_to<std::string>::with<std::uint64_t>, caf::reacts_to<std::uint64_t>, caf::replies_to<passivate_atom>::with<bool>>;

struct entity_state {
  static inline const char* name = "entity";
  store_ptr store;
  std::string key;
  ~entity_state() {
    --store->awake[key];
    --store->now_awake;
  }
};

entity_actor::behavior_type entity(entity_actor::stateful_pointer<entity_state> self, store_ptr store, std::string key) {
  runtime::install_defaults(self);
  self->state.store = store;
  self->state.key = key;
  store->doubles += ++store->awake[key] > 1;
  ++store->now_awake;
  ++store->activations;
  return {
    [self](const std::string& key_sent) -> caf::result<std::uint64_t> {
      auto& st = self->state;
      CHECK(key_sent == st.key);
      if (st.store->one_in(st.store->crash_one_in)) {
        self->quit(fail(errc::store_failed));
        return fail(errc::store_failed);
      }
      return ++st.store->rows[st.key];
    },
    [self](std::uint64_t add) {
      if (add == crash_now)
        throw std::runtime_error("told to crash");
      self->state.store->rows[self->state.key] += add;
    },
    [self](passivate_atom) -> bool {
      auto& st = *self->state.store;
      if (st.one_in(st.busy_one_in)) {
        ++st.refusals;
        return false;
      }
      self->quit();
      return true;
    },
  };
}

using owner_actor = caf::typed_actor<caf::replies_to<std::string>::with<std::uint64_t>, caf::reacts_to<std::string, std::uint64_t>,
                                     caf::reacts_to<tick_atom, std::uint64_t>>;
using key_directory = runtime::directory<std::string, entity_actor>;

struct owner_state {
  static inline const char* name = "owner";
  key_directory dir;
};

owner_actor::behavior_type owner(owner_actor::stateful_pointer<owner_state> self, store_ptr store, runtime::directory_options options,
                                 std::shared_ptr<key_directory*> window) {
  runtime::install_defaults(self);
  auto& dir = self->state.dir;
  dir.open(
    self, [self, store](const std::string& key) { return key == "never" ? entity_actor{} : self->spawn(entity, store, key); }, options);
  *window = &dir;
  self->set_down_handler([self](caf::down_msg& down) { self->state.dir.on_down(down); });
  return {
    [self](const std::string& key) { return self->state.dir.route<std::uint64_t>(key, key); },
    [self](const std::string& key, std::uint64_t add) { return self->state.dir.route<void>(key, add); },
    [self](tick_atom, std::uint64_t stamp) { self->state.dir.on_tick(stamp); },
  };
}

struct fixture {
  explicit fixture(runtime::directory_options options, std::uint64_t seed = 0) : w{seed} {
    store->dice.seed(seed + 1);
    own = w.sys.spawn(owner, store, options, window);
    w.settle();
  }
  ~fixture() { w.end(own); }

  key_directory& dir() { return **window; }
  std::uint64_t value(const std::string& key) { return std::get<0>(*w.ask<std::uint64_t>(own, key)); }
  caf::error error(const std::string& key) { return std::get<1>(*w.ask<std::uint64_t>(own, key)); }

  void bump_later(const std::string& key) {
    w.sys.spawn([this, key](caf::event_based_actor* self) {
      self->request(own, caf::infinite, key).then([this](std::uint64_t) { ++answered; }, [this](const caf::error&) { ++refused; });
    });
  }

  test::quiet silence;
  test::world<> w;
  store_ptr store = std::make_shared<fake_store>();
  std::shared_ptr<key_directory*> window = std::make_shared<key_directory*>(nullptr);
  owner_actor own;
  std::size_t answered = 0;
  std::size_t refused = 0;
};

runtime::directory_options small(std::size_t awake_max) {
  runtime::directory_options o;
  o.awake_max = awake_max;
  return o;
}

} // namespace

TEST_CASE("a key's actor is made by its first command and reused by the next") {
  fixture f{small(4)};
  CHECK(f.value("a") == 1);
  CHECK(f.value("a") == 2);
  CHECK(f.store->activations == 1);
  CHECK(f.dir().size() == 1);
}

TEST_CASE("above the cap the least recently used actor goes") {
  fixture f{small(2)};
  f.value("a");
  f.value("b");
  f.value("a");
  f.value("c");
  CHECK(f.store->awake["a"] == 1);
  CHECK(f.store->awake["b"] == 0);
  CHECK(f.store->awake["c"] == 1);
  CHECK(f.dir().size() == 2);
}

TEST_CASE("an actor goes when it was idle for the idle time and not before, and an empty directory arms no timer") {
  auto options = small(10);
  options.idle = 30s;
  fixture f{options};
  f.value("a");
  f.w.advance(20s);
  f.value("b");
  f.w.advance(9'999ms);
  CHECK(f.store->now_awake == 2);
  f.w.advance(1ms);
  CHECK(f.store->awake["a"] == 0);
  CHECK(f.store->awake["b"] == 1);
  f.w.advance(20s);
  CHECK(f.store->now_awake == 0);
  CHECK(f.value("a") == 2); // what it knew was in its rows
  f.w.advance(30s);
  CHECK(f.store->now_awake == 0);
  f.w.advance(limits::passivation_patience());
  CHECK_FALSE(f.w.sched.has_pending_timeout());
}

TEST_CASE("a busy actor stays, and is asked again after another idle time") {
  auto options = small(10);
  options.idle = 30s;
  fixture f{options};
  f.store->busy_one_in = 1;
  f.value("a");
  f.w.advance(30s);
  CHECK(f.store->refusals == 1);
  CHECK(f.store->now_awake == 1);
  CHECK(f.dir().draining() == 0);
  CHECK(f.value("a") == 2);
  f.store->busy_one_in = 0;
  f.w.advance(30s);
  CHECK(f.store->now_awake == 0);
}

TEST_CASE("at the hard cap a new key is refused as overloaded while known keys are served") {
  auto options = small(2);
  options.awake_hard_max = 3;
  fixture f{options};
  f.store->busy_one_in = 1;
  for (auto key : {"a", "b", "c"})
    f.value(key);
  CHECK(f.error("d") == fail(errc::overloaded));
  CHECK(f.value("a") == 2);
}

TEST_CASE("a factory that gives nothing refuses the key as unavailable") {
  fixture f{small(2)};
  CHECK(f.error("never") == fail(errc::unavailable));
  CHECK(f.dir().size() == 0);
}

TEST_CASE("commands wait in order while the old activation drains, one-way commands too") {
  fixture f{small(1)};
  f.value("a");
  caf::anon_send(f.own, std::string{"b"});                    // makes a drain
  caf::anon_send(f.own, std::string{"a"}, std::uint64_t{10}); // one-way, queued
  f.bump_later("a");                                          // queued behind
  REQUIRE(f.w.sched.prioritize(f.own));
  while (f.w.sched.prioritize(f.own) && f.dir().waiting() == 0)
    f.w.sched.run_once();
  CHECK(f.dir().waiting() == 1);
  f.w.settle();
  CHECK(f.dir().waiting() == 0);
  CHECK(f.answered == 1);
  CHECK(f.store->rows["a"] == 12);
  CHECK(f.store->doubles == 0);
}

TEST_CASE("more commands than the bound for one draining key are refused as overloaded") {
  auto options = small(1);
  options.waiting_per_key_max = 2;
  fixture f{options};
  f.value("a");
  caf::anon_send(f.own, std::string{"b"});
  std::deque<caf::scoped_actor> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back(f.w.sys, true);
    callers.back()->send(f.own, std::string{"a"});
  }
  while (f.dir().waiting() < 2) {
    REQUIRE(f.w.sched.prioritize(f.own));
    f.w.sched.run_once();
  }
  while (f.w.sched.prioritize(f.own))
    f.w.sched.run_once();
  auto overloaded = 0;
  for (auto& c : callers)
    c->receive([&](const caf::error& e) { overloaded += e == fail(errc::overloaded); }, caf::after(0s) >> [] {});
  CHECK(overloaded == 2);
  f.w.settle();
  CHECK(f.store->rows["a"] == 3);
}

TEST_CASE("commands in line are answered as unavailable when the owner dies, and its actors end with it") {
  fixture f{small(1)};
  f.value("a");
  caf::anon_send(f.own, std::string{"b"});
  auto pending = f.w.me->request(f.own, caf::infinite, std::string{"a"});
  while (f.dir().waiting() == 0) {
    REQUIRE(f.w.sched.prioritize(f.own));
    f.w.sched.run_once();
  }
  runtime::kill(f.own);
  f.w.settle();
  auto got = caf::error{};
  pending.receive([](std::uint64_t) {}, [&](caf::error& e) { got = std::move(e); });
  CHECK(got == fail(errc::unavailable));
  CHECK(f.store->now_awake == 0);
}

TEST_CASE("a crashed actor is made again by its next command, and the crash is counted") {
  fixture f{small(4)};
  f.value("a");
  auto crash = f.w.ask<test::done>(f.own, std::string{"a"}, crash_now);
  CHECK(std::holds_alternative<caf::error>(*crash));
  CHECK(f.dir().size() == 0);
  CHECK(f.value("a") == 2);
  CHECK(f.dir().crashes() == 1);
  auto rows = f.dir().entries(10);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].key == "a");
  CHECK(rows[0].restarts == 1);
  CHECK_FALSE(rows[0].draining);
}

namespace {

void crash(fixture& f, const std::string& key) { f.w.ask<test::done>(f.own, key, crash_now); }

runtime::directory_options without_jitter() {
  auto o = small(4);
  o.restarts.jitter_percent = 0;
  return o;
}

} // namespace

TEST_CASE("after its first crash an actor is made at once, after the next ones its commands wait for the end of the back-off, in order") {
  fixture f{without_jitter()};
  f.value("a");
  crash(f, "a");
  CHECK(f.value("a") == 2);
  for (auto wait : {100ms, 200ms, 400ms}) {
    CAPTURE(wait.count());
    crash(f, "a");
    REQUIRE(f.dir().is_down("a"));
    CHECK(f.dir().entries(10).at(0).down);
    f.answered = 0;
    auto before = f.store->rows["a"];
    f.bump_later("a");
    caf::anon_send(f.own, std::string{"a"}, std::uint64_t{10});
    f.bump_later("a");
    f.w.advance(wait - 1ms);
    CHECK(f.answered == 0);
    CHECK(f.dir().waiting() == 3);
    CHECK(f.value("b") > 0); // others are not held up
    f.w.advance(1ms);
    CHECK(f.answered == 2);
    CHECK(f.store->rows["a"] == before + 12);
    CHECK_FALSE(f.dir().is_down("a"));
  }
  CHECK(f.store->doubles == 0);
}

TEST_CASE("an actor nobody uses after its crash is not made again, unless the directory is told to") {
  for (auto permanent : {false, true}) {
    CAPTURE(permanent);
    auto options = without_jitter();
    options.permanent = permanent;
    fixture f{options};
    f.value("a");
    crash(f, "a");
    CHECK(f.store->now_awake == (permanent ? 1 : 0));
    f.value("a");
    crash(f, "a");
    CHECK(f.store->now_awake == 0);
    f.w.advance(100ms);
    CHECK(f.store->now_awake == (permanent ? 1 : 0));
    CHECK(f.dir().size() == (permanent ? 1 : 0));
  }
}

TEST_CASE("an actor that crashes for ever refuses its callers for a while, and is made at a bounded rate") {
  auto options = without_jitter();
  options.restarts.max_restarts = 3;
  options.restarts.window = 60s;
  fixture f{options};
  f.store->crash_one_in = 1;
  for (auto t = 0ms; t < 10min; t += 50ms) {
    f.bump_later("a");
    f.w.advance(50ms);
  }
  f.store->crash_one_in = 0;
  // In any 60 s: three restarts and the one after the rest.
  CHECK(f.store->activations <= 10 * 4 + 4);
  CHECK(f.store->activations >= 10);
  auto refused_at_once = f.error("a");
  CHECK(refused_at_once == fail(errc::unavailable));
  f.w.advance_by(60s, 1s);
  CHECK(f.value("a") == 1);
  CHECK(f.dir().waiting() == 0);
  CHECK(f.answered + f.refused == 10 * 60 * 20);
}

TEST_CASE("who waits for the end of a back-off is answered when the owner dies") {
  fixture f{small(4)};
  f.value("a");
  crash(f, "a");
  f.value("a");
  crash(f, "a");
  f.bump_later("a");
  f.w.settle();
  REQUIRE(f.dir().waiting() == 1);
  runtime::kill(f.own);
  f.w.settle();
  CHECK(f.refused == 1);
}

TEST_CASE("entries stop at the number of rows asked for and carry ages") {
  fixture f{small(10)};
  f.value("a");
  f.w.advance(2s);
  f.value("b");
  f.value("c");
  CHECK(f.dir().entries(2).size() == 2);
  for (const auto& e : f.dir().entries(10))
    CHECK(e.age_ms == (e.key == "a" ? 2000 : 0));
}

TEST_CASE("an actor too slow to say whether it goes is asked again") {
  auto options = small(1);
  fixture f{options};
  f.value("a");
  f.store->busy_one_in = 1;
  caf::anon_send(f.own, std::string{"b"});
  // Only the owner runs: "a" does not get to its mail before the patience is over.
  while (f.w.sched.prioritize(f.own))
    f.w.sched.run_once();
  f.w.sched.clock().advance_time(limits::passivation_patience());
  while (f.w.sched.prioritize(f.own))
    f.w.sched.run_once();
  f.bump_later("a");
  f.w.settle();
  CHECK(f.answered == 1); // the late refusal was lost, the second one was not
  CHECK(f.dir().draining() == 0);
  CHECK(f.store->refusals == 2);
}

TEST_CASE("in any order there is never a second activation and every command is answered once") {
  std::size_t activations = 0, refusals = 0, crashes = 0, queued = 0;
  for (std::uint64_t seed = 1; seed <= 240; ++seed) {
    CAPTURE(seed);
    auto options = small(4);
    options.idle = 1s;
    fixture f{options, seed};
    f.store->busy_one_in = seed % 3 == 0 ? 3 : 0;
    f.store->crash_one_in = seed % 4 == 0 ? 20 : 0;
    std::map<std::string, std::uint64_t> sent;
    for (int i = 0; i < 200; ++i) {
      auto key = "k" + std::to_string(f.w.rng() % 10);
      ++sent[key];
      f.bump_later(key);
      for (auto n = f.w.rng() % 6; n > 0; --n)
        f.w.step();
      queued += f.dir().waiting();
      if (f.w.rng() % 40 == 0)
        f.w.sched.clock().advance_time(1s);
    }
    f.w.advance_by(20s, 500ms); // what waits for the end of a back-off is answered too
    REQUIRE(f.store->doubles == 0);
    REQUIRE(f.answered + f.refused == 200); // progress: nobody waits for ever
    REQUIRE(f.dir().waiting() == 0);
    REQUIRE(f.dir().draining() == 0);
    std::uint64_t counted = 0;
    for (auto& [k, v] : f.store->rows)
      counted += v;
    REQUIRE(counted == f.answered);
    if (f.store->crash_one_in == 0) {
      REQUIRE(f.refused == 0);
      REQUIRE(f.store->rows == sent);
    }
    if (f.store->busy_one_in == 0)
      CHECK(f.store->now_awake <= 4);
    activations += f.store->activations;
    refusals += f.store->refusals;
    crashes += f.dir().crashes();
  }
  // The exploration did reach what it is about.
  CHECK(activations > 240 * 20);
  CHECK(refusals > 100);
  CHECK(crashes > 100);
  CHECK(queued > 100);
}
