#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

std::string connected_session(fabric_world& f) {
  auto c = f.command();
  c.mutable_register_session()->set_directory("/repo");
  c.mutable_register_session()->set_root("/repo");
  c.mutable_register_session()->set_attached(true);
  return f.run(c).session().session().id();
}

} // namespace

TEST_CASE("a session ends with the process that adopted it, and its lock passes on") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  CHECK(f.awake("scopes/s/session/" + a));
  f.run(f.acquire(a, "/repo/x"));
  auto waiting = f.send(f.acquire(b, "/repo/x", 60'000));
  f.w.settle();
  f.watch.end(100);
  f.w.settle();
  CHECK_FALSE(f.has_session(a));
  CHECK(f.has_session(b));
  CHECK(waiting.get()->lock().lock().session_id() == b);
  CHECK(f.watch.watched() == 1);
}

TEST_CASE("a process that ended while the node was down is noticed at the start") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.stop();
  f.watch.end(100);
  f.start();
  f.w.settle();
  f.w.advance_by(1s, 250ms);
  CHECK_FALSE(f.has_session(a));
  CHECK(f.has_session(b));
}

TEST_CASE("a session actor that dies goes on watching its process") {
  fabric_world f;
  auto a = f.session(100);
  f.drill("scopes/s/session/" + a);
  f.w.settle();
  CHECK(f.has_session(a));
  CHECK(f.watch.watched() == 1);
  f.watch.end(100);
  f.w.settle();
  CHECK_FALSE(f.has_session(a));
}

TEST_CASE("a session lives as long as one of its streams") {
  fabric_world f;
  auto a = connected_session(f);
  f.attach(a, 1, true);
  f.attach(a, 2, true);
  f.attach(a, 1, false);
  CHECK(f.has_session(a));
  f.attach(a, 2, false);
  CHECK_FALSE(f.has_session(a));
}

TEST_CASE("after a restart a connection has the grace to come back, and ends without") {
  fabric_world f;
  auto back = connected_session(f), lost = connected_session(f);
  f.attach(back, 1, true);
  f.attach(lost, 2, true);
  f.restart();
  f.w.advance_by(10s, 1s);
  CHECK(f.has_session(back));
  CHECK(f.has_session(lost));
  f.attach(back, 3, true);
  f.w.advance_by(10s, 1s);
  CHECK(f.has_session(back));
  CHECK_FALSE(f.has_session(lost));
}

TEST_CASE("a stream outlives the actors between it and its session") {
  fabric_world f;
  auto a = connected_session(f);
  f.attach(a, 1, true);
  SUBCASE("the session's own") { f.drill("scopes/s/session/" + a); }
  SUBCASE("the scope's") { f.drill("scopes/s"); }
  f.w.settle();
  f.w.advance_by(60s, 1s);
  CHECK(f.has_session(a));
  f.attach(a, 1, false);
  f.w.advance_by(30s, 1s);
  CHECK_FALSE(f.has_session(a));
}

TEST_CASE("a stream of an unknown session changes nothing") {
  fabric_world f;
  auto a = f.session(100);
  f.attach("nobody", 1, true);
  f.attach("nobody", 1, false);
  f.attach(a, 2, true);
  f.attach(a, 2, false);
  CHECK(f.has_session(a)); // it lives with its process
}
