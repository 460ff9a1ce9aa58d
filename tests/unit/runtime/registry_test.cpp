#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "actors/runtime/registry.hpp"
#include "tests/support/sim_world.hpp"
#include "tests/unit/runtime/quiet.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using runtime::binding;

namespace {

struct fixture {
  caf::strong_actor_ptr somebody() { return caf::actor_cast<caf::strong_actor_ptr>(w.me); }
  void bind(const std::string& name, std::uint64_t incarnation, bool up) { names.bind({name, incarnation, up ? somebody() : nullptr}); }

  test::quiet silence;
  test::world<> w;
  runtime::registry names;
};

} // namespace

TEST_CASE("a name never bound is not found") {
  fixture f;
  CHECK_FALSE(f.names.lookup("a"));
  CHECK_FALSE(f.names.find<caf::actor>("a"));
}

TEST_CASE("late news of an earlier incarnation loses") {
  fixture f;
  f.bind("a", 5, true);
  f.bind("a", 4, false);
  CHECK(f.names.find<caf::actor>("a"));
  f.bind("a", 5, false);
  f.bind("a", 5, true); // a birth told after its death
  CHECK_FALSE(f.names.find<caf::actor>("a"));
  f.bind("a", 6, true);
  CHECK(f.names.lookup("a")->incarnation == 6);
  f.names.clear();
  CHECK_FALSE(f.names.lookup("a"));
}

TEST_CASE("the dead are forgotten, oldest first, once there are too many, and the living never are") {
  fixture f;
  f.bind("alive", 1, true);
  f.bind("first", 2, false);
  f.bind("again", 2, false);
  f.bind("again", 3, true);
  for (std::size_t i = 0; i < limits::registry_dead_names_max(); ++i)
    f.bind("dead" + std::to_string(i), 10 + i, false);
  CHECK_FALSE(f.names.lookup("first"));
  CHECK(f.names.lookup("alive")->who);
  CHECK(f.names.lookup("again")->who);
  CHECK(f.names.lookup("dead" + std::to_string(limits::registry_dead_names_max() - 1)));
}

TEST_CASE("who waits for a name is woken by its birth, not by its death or by others") {
  fixture f;
  auto soon = [] { return std::chrono::steady_clock::now() + 20s; };
  auto now = [] { return std::chrono::steady_clock::now(); };
  CHECK_FALSE(f.names.wait_for("a", nullptr, now()));
  std::thread born{[&] {
    f.bind("b", 1, true);
    f.bind("a", 1, false);
    f.bind("a", 2, true);
  }};
  CHECK(f.names.wait_for("a", nullptr, soon()) == f.somebody());
  born.join();
  CHECK_FALSE(f.names.wait_for("a", f.somebody(), now())); // still the same one
  caf::scoped_actor next{f.w.sys, true};
  auto successor = caf::actor_cast<caf::strong_actor_ptr>(next);
  std::thread reborn{[&] { f.names.bind({"a", 3, successor}); }};
  CHECK(f.names.wait_for("a", f.somebody(), soon()) == successor);
  reborn.join();
}
