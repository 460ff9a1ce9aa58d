#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "actors/runtime/defaults.hpp"
#include "actors/runtime/ending.hpp"
#include "actors/runtime/supervisor.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::binding;
using runtime::child_spec;
using runtime::restart_policy;
using runtime::restart_strategy;
using runtime::tree_entry;

namespace {

/// What the children did, in order: "+a" started, "-a" ended.
struct diary {
  std::vector<std::string> lines;
  std::multiset<std::string> alive;
  std::set<std::string> unstartable;
  std::set<std::string> stubborn; // ignore exit messages

  std::string take() {
    std::string out;
    for (auto& l : std::exchange(lines, {}))
      out += l;
    return out;
  }
};
using diary_ptr = std::shared_ptr<diary>;

struct life {
  life(diary_ptr into, std::string who) : d(std::move(into)), name(std::move(who)) {
    d->lines.push_back("+" + name);
    d->alive.insert(name);
  }
  ~life() {
    d->lines.push_back("-" + name);
    d->alive.erase(d->alive.find(name));
  }
  diary_ptr d;
  std::string name;
};

struct leaf_state {
  static inline const char* name = "leaf";
  std::unique_ptr<life> alive;
};

caf::behavior leaf(caf::stateful_actor<leaf_state>* self, diary_ptr d, std::string name) {
  runtime::install_defaults(self);
  self->state.alive = std::make_unique<life>(d, name);
  if (d->stubborn.contains(name))
    self->set_exit_handler([](caf::exit_msg&) {});
  return {
    [self](const std::string& what) {
      if (what == "crash")
        self->quit(fail(errc::store_failed));
      if (what == "finish")
        self->quit();
    },
    [self, name](tree_atom) {
      return std::vector<tree_entry>{{"", "", "up", 0, 0, runtime::mailbox_depth(self), "I am " + name}, {"inner", "thing", "up", 0, 0, 0, {}}};
    },
  };
}

child_spec spec(diary_ptr d, const std::string& name, restart_policy policy = restart_policy::permanent) {
  child_spec s;
  s.name = name;
  s.policy = policy;
  s.kind = "leaf";
  s.start = [d, name](caf::local_actor* sup) -> caf::actor {
    if (d->unstartable.contains(name))
      throw std::runtime_error("cannot start");
    return sup->spawn(leaf, d, name);
  };
  return s;
}

runtime::supervisor_options with(restart_strategy strategy) {
  runtime::supervisor_options o;
  o.strategy = strategy;
  o.max_restarts = 3;
  o.window = 10s;
  o.backoff_min = 100ms;
  o.backoff_max = 1s;
  o.stable_after = 5s;
  o.jitter_percent = 0;
  return o;
}

struct fixture {
  explicit fixture(std::uint64_t seed = 0) : w{seed} {}
  ~fixture() {
    if (sup)
      w.end(sup);
    w.advance_by(20s, 1s);
  }

  void start(runtime::supervisor_options options, std::vector<child_spec> specs) {
    sup = w.sys.spawn(runtime::supervisor, options, std::move(specs), names);
    w.me->monitor(sup);
    w.settle();
  }
  void start(restart_strategy strategy, const std::string& letters) {
    std::vector<child_spec> specs;
    for (auto c : letters)
      specs.push_back(spec(d, std::string(1, c)));
    start(with(strategy), specs);
  }

  binding where(const std::string& name) { return names->lookup(name).value(); }
  caf::actor who(const std::string& name) { return caf::actor_cast<caf::actor>(where(name).who); }
  void order(const std::string& name, const std::string& what) { w.tell(who(name), what); }
  std::vector<tree_entry> tree() { return std::get<0>(*w.ask<std::vector<tree_entry>>(sup, tree_atom_v)); }

  std::optional<caf::error> gone() {
    std::optional<caf::error> out;
    w.me->receive([&](caf::down_msg& down) { out = down.reason; }, caf::after(0s) >> [] {});
    return out;
  }

  test::quiet silence;
  test::world<> w;
  diary_ptr d = std::make_shared<diary>();
  std::shared_ptr<runtime::registry> names = std::make_shared<runtime::registry>();
  runtime::supervisor_actor sup;
};

} // namespace

TEST_CASE("children start in order, and are found by name with growing incarnations") {
  fixture f;
  f.start(restart_strategy::one_for_one, "abc");
  CHECK(f.d->take() == "+a+b+c");
  auto first = f.where("b");
  CHECK(first.who);
  f.order("b", "crash");
  CHECK_FALSE(f.where("b").who); // known to be down at once
  CHECK(f.where("b").incarnation == first.incarnation);
  f.w.advance(100ms);
  CHECK(f.where("b").incarnation > first.incarnation);
  CHECK(f.d->take() == "-b+b");
  CHECK(std::get<0>(*f.w.ask<binding>(f.sup, lookup_atom_v, std::string{"b"})).who == f.where("b").who);
  CHECK(std::get<1>(*f.w.ask<binding>(f.sup, lookup_atom_v, std::string{"x"})) == fail(errc::not_found, "x"));
}

TEST_CASE("the wait before a restart doubles up to its maximum") {
  fixture f;
  auto options = with(restart_strategy::one_for_one);
  options.max_restarts = 100;
  f.start(options, {spec(f.d, "a")});
  for (auto wait : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    CAPTURE(wait.count());
    f.order("a", "crash");
    f.w.advance(wait - 1ms);
    CHECK_FALSE(f.where("a").who);
    f.w.advance(1ms);
    CHECK(f.where("a").who);
  }
}

TEST_CASE("after stable uptime the wait starts small again") {
  fixture f;
  f.start(restart_strategy::one_for_one, "a");
  f.order("a", "crash");
  f.w.advance(100ms);
  f.w.advance(4'999ms); // not yet stable
  f.order("a", "crash");
  f.w.advance(199ms);
  CHECK_FALSE(f.where("a").who);
  f.w.advance(1ms);
  REQUIRE(f.where("a").who);
  f.w.advance(5s);
  f.order("a", "crash");
  f.w.advance(100ms);
  CHECK(f.where("a").who);
}

TEST_CASE("too many restarts within the window end the supervisor with an error, and its children in reverse order") {
  fixture f;
  f.start(restart_strategy::one_for_one, "abc");
  for (int i = 0; i < 3; ++i) {
    f.order("b", "crash");
    f.w.advance(1s);
  }
  CHECK_FALSE(f.gone());
  f.d->take();
  f.order("b", "crash");
  CHECK(f.d->take() == "-b-c-a");
  auto reason = f.gone();
  REQUIRE(reason);
  CHECK(*reason == fail(errc::unavailable, "restart intensity exceeded by b"));
  CHECK_FALSE(f.where("a").who);
}

TEST_CASE("restarts that are spread out do not exhaust the budget") {
  fixture f;
  f.start(restart_strategy::one_for_one, "a");
  for (int i = 0; i < 12; ++i) {
    f.order("a", "crash");
    f.w.advance(4s);
    CHECK(f.where("a").who);
  }
  CHECK_FALSE(f.gone());
}

TEST_CASE("the policy decides which ends are followed by a restart") {
  fixture f;
  auto options = with(restart_strategy::one_for_one);
  options.max_restarts = 10;
  f.start(options, {spec(f.d, "p", restart_policy::permanent), spec(f.d, "t", restart_policy::transient), spec(f.d, "o", restart_policy::temporary)});
  auto runs_again = [&](const std::string& name, const std::string& how) {
    f.order(name, how);
    f.w.advance(1s);
    return static_cast<bool>(f.where(name).who);
  };
  CHECK(runs_again("p", "finish"));
  CHECK(runs_again("p", "crash"));
  CHECK(runs_again("t", "crash"));
  CHECK_FALSE(runs_again("t", "finish"));
  CHECK_FALSE(runs_again("o", "crash"));
}

TEST_CASE("rest_for_one stops the later ones in reverse order and starts them again in order") {
  fixture f;
  f.start(restart_strategy::rest_for_one, "abcd");
  f.d->take();
  f.order("b", "crash");
  CHECK(f.d->take() == "-b-d-c");
  f.w.advance(99ms);
  CHECK(f.d->take().empty());
  f.w.advance(1ms);
  CHECK(f.d->take() == "+b+c+d");
  CHECK(f.who("d"));
}

TEST_CASE("rest_for_one waits for a slow one to end before anything starts again") {
  fixture f;
  f.d->stubborn = {"c"};
  auto c = spec(f.d, "c");
  c.stop_grace = 3s;
  f.start(with(restart_strategy::rest_for_one), {spec(f.d, "a"), spec(f.d, "b"), c, spec(f.d, "d")});
  f.d->take();
  f.order("a", "crash");
  f.w.advance_by(2'900ms, 100ms);
  CHECK(f.d->take() == "-a-d");
  f.w.advance(100ms); // the kill
  CHECK(f.d->take() == "-c-b+a+b+c+d");
}

TEST_CASE("under rest_for_one an earlier failure during a restart takes over") {
  fixture f;
  f.start(restart_strategy::rest_for_one, "abc");
  f.d->take();
  f.order("b", "crash");
  f.w.advance(50ms);
  f.order("a", "crash");
  f.w.advance(50ms); // b's back-off is over, a's is not
  CHECK(f.d->take() == "-b-c-a");
  f.w.advance(50ms);
  CHECK(f.d->take() == "+a+b+c");
}

TEST_CASE("under rest_for_one temporary ones that were taken down stay down") {
  fixture f;
  f.start(with(restart_strategy::rest_for_one), {spec(f.d, "a"), spec(f.d, "b", restart_policy::temporary), spec(f.d, "c")});
  f.d->take();
  f.order("a", "crash");
  f.w.advance(100ms);
  CHECK(f.d->take() == "-a-c-b+a+c");
}

TEST_CASE("a failed start is treated like a death and is tried again") {
  for (auto strategy : {restart_strategy::one_for_one, restart_strategy::rest_for_one}) {
    fixture f;
    f.d->unstartable = {"b"};
    f.start(strategy, "abc");
    CHECK(f.d->take() == (strategy == restart_strategy::one_for_one ? "+a+c" : "+a"));
    f.w.advance(100ms);
    CHECK(f.d->take().empty());
    f.d->unstartable.clear();
    f.w.advance(200ms);
    CHECK(f.d->take() == (strategy == restart_strategy::one_for_one ? "+b" : "+b+c"));
  }
}

TEST_CASE("starts that keep failing exhaust the budget") {
  fixture f;
  f.d->unstartable = {"b"};
  f.start(restart_strategy::one_for_one, "abc");
  f.w.advance_by(5s, 100ms);
  CHECK(f.gone());
  CHECK(f.d->alive.empty());
}

TEST_CASE("a stop ends the children one after the other in reverse, with the reason that was given") {
  fixture f;
  f.start(restart_strategy::one_for_one, "abc");
  f.d->take();
  f.w.end(f.sup);
  CHECK(f.d->take() == "-c-b-a");
  CHECK(*f.gone() == caf::exit_reason::user_shutdown);
  CHECK_FALSE(f.where("a").who);
}

TEST_CASE("a child that ignores the exit message is killed after its grace") {
  fixture f;
  f.d->stubborn = {"b"};
  auto b = spec(f.d, "b");
  b.stop_grace = 2s;
  f.start(with(restart_strategy::one_for_one), {spec(f.d, "a"), b, spec(f.d, "c")});
  f.d->take();
  f.w.end(f.sup);
  CHECK(f.d->take() == "-c");
  f.w.advance(1'999ms);
  CHECK(f.d->take().empty());
  f.w.advance(1ms);
  CHECK(f.d->take() == "-b-a");
  CHECK(f.gone());
}

TEST_CASE("a stop during a back-off starts nothing any more") {
  fixture f;
  f.start(restart_strategy::one_for_one, "ab");
  f.order("a", "crash");
  f.d->take();
  f.w.end(f.sup);
  f.w.advance(10s);
  CHECK(f.d->take() == "-b");
}

TEST_CASE("no way out of the supervisor leaves orphans") {
  fixture f;
  f.start(restart_strategy::one_for_one, "abc");
  SUBCASE("killed") { runtime::kill(f.sup); }
  SUBCASE("killed as a drill") { CHECK(f.w.ask<test::done>(f.sup, kill_atom_v, std::string{})->index() == 0); }
  SUBCASE("asked") { runtime::ask_to_end(f.sup); }
  SUBCASE("given up") {
    for (int i = 0; i < 4; ++i) {
      f.order("a", "crash");
      f.w.advance(1s);
    }
  }
  f.w.settle();
  CHECK(f.gone());
  CHECK(f.d->alive.empty());
}

TEST_CASE("children come and go at run time") {
  fixture f;
  f.start(restart_strategy::one_for_one, "a");
  f.d->take();
  auto added = f.w.ask<binding>(f.sup, add_atom_v, spec(f.d, "b"));
  CHECK(std::get<0>(*added).who == f.where("b").who);
  CHECK(std::get<1>(*f.w.ask<binding>(f.sup, add_atom_v, spec(f.d, "b"))) == fail(errc::invalid, "child name b"));
  CHECK(std::get<1>(*f.w.ask<binding>(f.sup, add_atom_v, spec(f.d, "x/y"))) == fail(errc::invalid, "child name x/y"));
  CHECK(f.w.ask<test::done>(f.sup, remove_atom_v, std::string{"a"})->index() == 0);
  CHECK(f.d->take() == "+b-a");
  CHECK(std::get<1>(*f.w.ask<test::done>(f.sup, remove_atom_v, std::string{"a"})) == fail(errc::not_found, "a"));
  f.w.advance(10s);
  CHECK(f.d->take().empty()); // removed ones are not restarted
  f.w.ask<binding>(f.sup, add_atom_v, spec(f.d, "a"));
  CHECK(f.d->take() == "+a");
}

TEST_CASE("removing the one that is waited for lets the rest start again") {
  fixture f;
  f.start(restart_strategy::rest_for_one, "abc");
  f.order("a", "crash");
  f.d->take();
  CHECK(f.w.ask<test::done>(f.sup, remove_atom_v, std::string{"a"})->index() == 0);
  CHECK(f.d->take() == "+b+c");
}

TEST_CASE("a removal that the stop overtakes is answered as unavailable") {
  fixture f;
  f.d->stubborn = {"a"};
  f.start(restart_strategy::one_for_one, "a");
  auto pending = f.w.me->request(f.sup, caf::infinite, remove_atom_v, std::string{"a"});
  f.w.settle();
  f.w.end(f.sup);
  f.w.advance(limits::child_stop_grace());
  caf::error got;
  pending.receive([] {}, [&](caf::error& e) { got = std::move(e); });
  CHECK(got == fail(errc::unavailable));
}

TEST_CASE("a drill kills a child, or one further down, and the policy brings it back") {
  fixture f;
  auto inner = spec(f.d, "inner");
  inner.kills_below = true;
  inner.start = [d = f.d](caf::local_actor* sup) -> caf::actor {
    std::vector<child_spec> specs{spec(d, "x")};
    return caf::actor_cast<caf::actor>(sup->spawn(runtime::supervisor, with(restart_strategy::one_for_one), specs, nullptr));
  };
  f.start(with(restart_strategy::one_for_one), {spec(f.d, "a"), inner});
  f.d->take();
  CHECK(f.w.ask<test::done>(f.sup, kill_atom_v, std::string{"a"})->index() == 0);
  CHECK(f.w.ask<test::done>(f.sup, kill_atom_v, std::string{"inner/x"})->index() == 0);
  CHECK(f.d->take() == "-a-x");
  f.w.advance(100ms);
  CHECK(f.d->alive.size() == 2);
  CHECK(std::get<1>(*f.w.ask<test::done>(f.sup, kill_atom_v, std::string{"inner/y"})) == fail(errc::not_found, "y"));
  CHECK(std::get<1>(*f.w.ask<test::done>(f.sup, kill_atom_v, std::string{"a/b"})) == fail(errc::not_found, "a/b"));
}

TEST_CASE("the tree shows children with age, restarts and what they say of themselves") {
  fixture f;
  auto talkative = spec(f.d, "b");
  talkative.shows_tree = true;
  f.start(with(restart_strategy::one_for_one), {spec(f.d, "a"), talkative});
  f.order("a", "crash");
  f.w.advance(100ms);
  f.w.advance(3s);
  auto rows = f.tree();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].path.empty());
  CHECK(rows[0].kind == "supervisor");
  CHECK(rows[0].age_ms == 3100);
  CHECK(rows[0].mailbox_depth == 0);
  CHECK(rows[1].path == "a");
  CHECK(rows[1].kind == "leaf");
  CHECK(rows[1].state == "up");
  CHECK(rows[1].age_ms == 3000);
  CHECK(rows[1].restarts == 1);
  CHECK(rows[1].mailbox_depth == tree_entry::depth_unknown);
  CHECK(rows[2].path == "b");
  CHECK(rows[2].age_ms == 3100);
  CHECK(rows[2].mailbox_depth >= 0);
  CHECK(rows[2].detail == "I am b");
  CHECK(rows[3].path == "b/inner");
  f.order("a", "crash");
  CHECK(f.tree()[1].state == "waiting");
}

TEST_CASE("a child that does not answer in time is shown as silent and hides nobody else") {
  fixture f;
  auto mute = spec(f.d, "mute");
  mute.shows_tree = true;
  mute.start = [](caf::local_actor* sup) -> caf::actor {
    return sup->spawn([](caf::event_based_actor* self) -> caf::behavior {
      return {[self](tree_atom) { return self->make_response_promise<std::vector<tree_entry>>(); }};
    });
  };
  auto talkative = spec(f.d, "b");
  talkative.shows_tree = true;
  f.start(with(restart_strategy::one_for_one), {mute, talkative});
  auto pending = f.w.me->request(f.sup, caf::infinite, tree_atom_v);
  f.w.settle();
  CHECK_FALSE(f.w.me->has_next_message());
  f.w.advance(limits::tree_patience());
  std::vector<tree_entry> rows;
  pending.receive([&](std::vector<tree_entry>& r) { rows = std::move(r); }, [](const caf::error&) {});
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].state == "silent");
  CHECK(rows[3].path == "b/inner");
}

TEST_CASE("in any order of crashes the supervisor keeps its promises") {
  std::size_t restarts = 0, given_up = 0;
  for (std::uint64_t seed = 1; seed <= 240; ++seed) {
    CAPTURE(seed);
    auto strategy = seed % 2 ? restart_strategy::one_for_one : restart_strategy::rest_for_one;
    fixture f{seed};
    auto options = with(strategy);
    options.max_restarts = seed % 5 == 0 ? 3 : 1'000;
    std::vector<child_spec> specs;
    for (auto name : {"a", "b", "c", "d"})
      specs.push_back(spec(f.d, name));
    f.start(options, specs);
    for (int i = 0; i < 30; ++i) {
      auto b = f.where(std::string(1, static_cast<char>('a' + f.w.rng() % 4)));
      if (b.who)
        caf::anon_send(caf::actor_cast<caf::actor>(b.who), std::string{"crash"});
      for (auto n = f.w.rng() % 8; n > 0; --n) {
        f.w.step();
        for (auto& name : f.d->alive)
          REQUIRE(f.d->alive.count(name) == 1); // never two incarnations
      }
      if (f.w.rng() % 3 == 0)
        f.w.advance(std::chrono::milliseconds{f.w.rng() % 1'500});
    }
    f.w.advance_by(10s, 100ms);
    if (f.gone()) {
      ++given_up;
      REQUIRE(f.d->alive.empty());
      continue;
    }
    REQUIRE(f.d->alive.size() == 4); // progress: all are back
    for (auto name : {"a", "b", "c", "d"})
      REQUIRE(f.where(name).who);
    for (auto& row : f.tree())
      restarts += row.restarts;
    f.w.end(f.sup);
    REQUIRE(f.d->alive.empty());
  }
  CHECK(restarts > 240 * 5);
  CHECK(given_up > 20);
}
