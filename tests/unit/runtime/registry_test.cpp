#include <doctest/doctest.h>

#include <string>

#include <caf/event_based_actor.hpp>

#include "actors/runtime/registry.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace swarm;
using runtime::binding;

namespace {

struct fixture {
  ~fixture() { w.end(names); }

  void bind(const std::string& name, std::uint64_t incarnation, bool up) {
    w.tell(names, bind_atom_v, binding{name, incarnation, up ? caf::actor_cast<caf::strong_actor_ptr>(w.me) : caf::strong_actor_ptr{}});
  }
  test::outcome<binding> lookup(const std::string& name) { return *w.ask<binding>(names, lookup_atom_v, name); }

  test::quiet silence;
  test::world<> w;
  runtime::registry_actor names = w.sys.spawn(runtime::registry);
};

} // namespace

TEST_CASE("a name never bound is not found") {
  fixture f;
  CHECK(std::get<1>(f.lookup("a")) == fail(errc::not_found, "a"));
}

TEST_CASE("late news of an earlier incarnation loses") {
  fixture f;
  f.bind("a", 5, true);
  f.bind("a", 4, false);
  CHECK(std::get<0>(f.lookup("a")).who);
  f.bind("a", 5, false);
  f.bind("a", 5, true); // a birth told after its death
  CHECK_FALSE(std::get<0>(f.lookup("a")).who);
  f.bind("a", 6, true);
  CHECK(std::get<0>(f.lookup("a")).incarnation == 6);
}

TEST_CASE("the dead are forgotten, oldest first, once there are too many; the living never are") {
  fixture f;
  f.bind("alive", 1, true);
  f.bind("first", 2, false);
  f.bind("again", 2, false);
  f.bind("again", 3, true);
  for (std::size_t i = 0; i < limits::registry_dead_names_max(); ++i)
    f.bind("dead" + std::to_string(i), 10 + i, false);
  CHECK(std::holds_alternative<caf::error>(f.lookup("first")));
  CHECK(std::get<0>(f.lookup("alive")).who);
  CHECK(std::get<0>(f.lookup("again")).who);
  CHECK(std::holds_alternative<binding>(f.lookup("dead" + std::to_string(limits::registry_dead_names_max() - 1))));
}
