// A further attempt of a spawn whose last one the keeper still has: one after the other, never both.
#include <signal.h>

#include "tests/unit/services/keeper/harness.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

internal::StartChild attempt(std::uint32_t number, const std::string& script) {
  auto s = shell("s1", script);
  s.set_attempt(number);
  return s;
}

/// The first is one that only SIGKILL ends.
void let_second_wait(attached& a) {
  a.run(attempt(1, "trap '' TERM HUP; echo up; while :; do sleep 1000; done"));
  REQUIRE(a.wait_output("s1", "up"));
  REQUIRE(a.client.start(attempt(2, "true")));
}

bool failed_with(attached& a, const std::string& text) {
  return a.events.wait([&] { return a.events.seen["s1"].failure.find(text) != std::string::npos; });
}

} // namespace

TEST_CASE("a further attempt begins when nothing is left of the one before") {
  node n;
  attached a{n.dir};
  // The second of its processes does not end with it: it ignores what the first one hears.
  a.run(attempt(1, "sh -c 'trap \"\" TERM HUP; echo left=$$; exec sleep 1000' & echo main=$$; wait; sleep 1000"));
  REQUIRE(a.wait_output("s1", "left="));
  REQUIRE(a.wait_output("s1", "main="));
  auto text = a.output("s1");
  auto left = static_cast<pid_t>(std::stol(text.substr(text.find("left=") + 5)));
  auto first = a.events.child("s1");
  REQUIRE(a.client.start(attempt(2, "echo second; read x")));
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].at_gate == 2; }));
  auto second = a.events.child("s1");
  CHECK(second.pid != first.pid);
  REQUIRE(second.exits.size() == 1);
  CHECK(second.exits[0].attempt == 1);
  CHECK_FALSE(is_running(static_cast<pid_t>(first.pid)));
  CHECK_FALSE(is_running(left));
  a.client.open_gate("s1");
  REQUIRE(a.wait_output("s1", "second"));
  CHECK(a.output("s1").find("main=") == std::string::npos);
  a.client.write("s1", 1, "\n");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].exits.size() == 2; }));
  CHECK(a.events.child("s1").exits[1].attempt == 2);
  CHECK(a.events.child("s1").exits[1].exit_status == 0);
}

TEST_CASE("a further attempt takes the place of one at its gate, and of one that has ended and was not forgotten") {
  node n;
  attached a{n.dir};
  auto proof = n.temp.path() / "ran";
  REQUIRE(a.client.start(attempt(1, "touch " + proof.string())));
  REQUIRE(a.reach_gate("s1"));
  REQUIRE(a.client.start(attempt(2, "exit 7")));
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].at_gate == 2; }));
  a.client.open_gate("s1");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].exits.size() == 2; }));
  CHECK(a.events.child("s1").exits[1].exit_status == 7);
  REQUIRE(a.client.start(attempt(3, "exit 8")));
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].at_gate == 3; }));
  a.client.open_gate("s1");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].exits.size() == 3; }));
  CHECK(a.events.child("s1").exits[2].exit_status == 8);
  CHECK_FALSE(fs::exists(proof));
}

TEST_CASE("a further attempt hears of the end of one whose output has no room and has all of its own output") {
  constexpr std::uint32_t ring = 64 * 1024;
  node n;
  attached a{n.dir, true, true};
  auto first = attempt(1, "seq 1 60000");
  SUBCASE("that runs") {}
  SUBCASE("that has ended") { give(*first.mutable_argv(), {"head", "-c", "120000", "/dev/zero"}); }
  first.set_pipes(true);
  first.set_ring_bytes(ring);
  a.run(first);
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].ring->end() >= ring; }));
  if (first.argv(0) == "head")
    REQUIRE(eventually([&] { return !is_running(static_cast<pid_t>(a.events.child("s1").pid)); }));
  REQUIRE(a.client.start(attempt(2, "echo second")));
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].at_gate == 2; }));
  const auto exits = a.events.child("s1").exits;
  REQUIRE(exits.size() == 1);
  CHECK(exits[0].attempt == 1);
  CHECK(exits[0].end >= ring);
  a.client.open_gate("s1");
  REQUIRE(a.events.wait([&] { return a.events.seen["s1"].exits.size() == 2; }));
  CHECK(a.events.child("s1").exits[1].attempt == 2);
  CHECK(a.output("s1") == "second\r\n");
}

TEST_CASE("an attempt that is over is not begun any more") {
  node n;
  attached a{n.dir};
  a.run(attempt(2, "read x; exit 3"));
  REQUIRE(a.client.start(attempt(1, "true")));
  REQUIRE(failed_with(a, "attempt 2"));
  a.client.write("s1", 1, "\n");
  CHECK(a.wait_exit("s1").exit_status == 3);
}

TEST_CASE("an attempt that waits for the one before can be ended") {
  node n;
  attached a{n.dir};
  let_second_wait(a);
  a.client.kill("s1", SIGKILL, std::chrono::milliseconds{0});
  REQUIRE(failed_with(a, "before it began"));
  CHECK(a.wait_exit("s1").attempt == 1);
  attached next{n.dir};
  REQUIRE(next.ready());
  REQUIRE(next.events.listed.size() == 1);
  CHECK(next.events.listed[0].attempt == 1);
}

TEST_CASE("an attempt that waits for the one before is not begun for a swarmd that did not ask for it") {
  node n;
  attached a{n.dir};
  let_second_wait(a);
  attached next{n.dir};
  REQUIRE(next.ready());
  next.client.kill("s1", SIGKILL, std::chrono::milliseconds{0});
  CHECK(next.wait_exit("s1").attempt == 1);
  // Begun and ended after it: the keeper had its turns.
  next.run(shell("s2", "true"));
  next.wait_exit("s2");
  CHECK(next.events.child("s1").at_gate == 0);
}
