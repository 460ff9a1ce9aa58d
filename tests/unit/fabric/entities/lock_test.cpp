#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

call_ptr call_of(fabric_world& f, v1::Command cmd, v1::RequestId id = {}) {
  auto e = std::make_shared<execution>();
  e->id = id.client().empty() ? f.next_id() : id;
  e->command = std::move(cmd);
  auto c = std::make_shared<call>();
  c->what = e;
  return c;
}

} // namespace

TEST_CASE("commands of different scopes do not meet, and each scope has its own actor") {
  fabric_world f;
  auto a = f.session(100);
  auto other = f.session(101, "t");
  CHECK(f.run(f.acquire(a, "/repo/x")).lock().lock().session_id() == a);
  auto c = f.acquire(other, "/repo/x");
  c.set_scope("t");
  CHECK(f.run(c).lock().lock().session_id() == other);
  CHECK(f.awake("scopes/s"));
  CHECK(f.awake("scopes/t"));
  CHECK_FALSE(f.awake("scopes/u"));
}

TEST_CASE("a quiet lock is a row and no actor, a lock with a line is an actor") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  CHECK_FALSE(f.awake("scopes/s/lock//repo/x"));
  auto waiting = f.send(f.acquire(b, "/repo/x", 60'000));
  f.w.settle();
  CHECK_FALSE(waiting.answered());
  CHECK(f.awake("scopes/s/lock//repo/x"));
}

TEST_CASE("parked callers get the lock in the order in which they came, with growing fences") {
  fabric_world f;
  std::vector<std::string> who;
  std::vector<test::asked<reply_ptr>> calls;
  for (int i = 0; i < 5; ++i)
    who.push_back(f.session(100 + i));
  std::uint64_t fence = f.run(f.acquire(who[0], "/repo/x")).lock().lock().fence();
  for (int i = 1; i < 5; ++i) {
    calls.push_back(f.send(f.acquire(who[i], "/repo/x", 60'000)));
    f.w.settle();
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = i; j < 4; ++j)
      CHECK_FALSE(calls[j].answered());
    auto released = f.run(f.release(who[i], "/repo/x", fence));
    CHECK(released.lock().handed_to() == who[i + 1]);
    auto& mine = calls[i].get()->lock().lock();
    CHECK(mine.session_id() == who[i + 1]);
    CHECK(mine.fence() > fence);
    fence = mine.fence();
  }
}

TEST_CASE("a waiter is told at its deadline, and the next in line does not suffer") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  f.run(f.acquire(a, "/repo/x"));
  auto shortly = f.send(f.acquire(b, "/repo/x", 5'000));
  f.w.settle();
  auto patient = f.send(f.acquire(c, "/repo/x", 60'000));
  f.w.settle();
  f.w.advance_by(4s, 250ms);
  CHECK_FALSE(shortly.answered());
  f.w.advance_by(2s, 250ms);
  CHECK(shortly.get()->refusal().code() == v1::Refusal::TIMEOUT);
  CHECK_FALSE(patient.answered());
  f.run(f.release(a, "/repo/x"));
  CHECK(patient.get()->lock().lock().session_id() == c);
}

TEST_CASE("a lock with a time to live passes on by itself") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  auto first = f.run(f.acquire(a, "/repo/x", 0, 3'000)).lock().lock();
  auto next = f.send(f.acquire(b, "/repo/x", 60'000));
  f.w.settle();
  f.w.advance_by(2s, 250ms);
  CHECK_FALSE(next.answered());
  f.w.advance_by(2s, 250ms);
  CHECK(next.get()->lock().lock().session_id() == b);
  CHECK(next.get()->lock().lock().fence() > first.fence());
}

TEST_CASE("a lock that nobody waits for disappears when its time is over") {
  fabric_world f;
  auto a = f.session(100);
  f.run(f.acquire(a, "/repo/x", 0, 3'000));
  f.w.advance_by(4s, 250ms);
  CHECK_FALSE(f.lock("/repo/x").has_value());
}

TEST_CASE("values and leases end at their time without anybody asking") {
  fabric_world f;
  f.run(f.set_kv("short", "1", 2'000));
  f.run(f.set_kv("long", "1", 600'000));
  auto c = f.command();
  c.mutable_register_session()->set_directory("/repo");
  c.mutable_register_session()->set_root("/repo");
  c.mutable_register_session()->set_lease_ms(4'000);
  auto leased = f.run(c).session().session().id();
  f.w.advance_by(3s, 250ms);
  auto q = f.query();
  q.mutable_list_kv();
  auto kv = f.ask(q).kv_list();
  REQUIRE(kv.entries_size() == 1);
  CHECK(kv.entries(0).key() == "long");
  CHECK(f.has_session(leased));
  f.w.advance_by(3s, 250ms);
  CHECK_FALSE(f.has_session(leased));
}

TEST_CASE("callers of a lock actor that dies are answered, and keep their place when they repeat the request") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  f.run(f.acquire(a, "/repo/x"));
  auto id_b = f.next_id(), id_c = f.next_id();
  auto first = f.send(f.acquire(b, "/repo/x", 60'000), id_b);
  f.w.settle();
  auto second = f.send(f.acquire(c, "/repo/x", 60'000), id_c);
  f.w.settle();
  f.drill("scopes/s/lock//repo/x");
  f.w.settle();
  CHECK(first.error() == errc::unknown_outcome);
  CHECK(second.error() == errc::unknown_outcome);
  // The later one repeats first: the line does not care.
  auto again_c = f.send(f.acquire(c, "/repo/x", 60'000), id_c);
  f.w.settle();
  auto again_b = f.send(f.acquire(b, "/repo/x", 60'000), id_b);
  f.w.settle();
  f.run(f.release(a, "/repo/x"));
  CHECK(again_b.get()->lock().lock().session_id() == b);
  CHECK_FALSE(again_c.answered());
  f.run(f.release(b, "/repo/x"));
  CHECK(again_c.get()->lock().lock().session_id() == c);
}

TEST_CASE("a place in line survives a restart of the node and is answered to the repeated request") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  auto id = f.next_id();
  auto before = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  f.restart();
  CHECK(before.failed());
  f.run(f.release(a, "/repo/x"));
  auto after = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  CHECK(after.get()->lock().lock().session_id() == b);
}

TEST_CASE("who does not come back after a restart of the node loses the place in line before the lock comes to it") {
  fabric_world f;
  auto a = f.session(100), gone = f.session(101), c = f.session(102);
  f.run(f.acquire(a, "/repo/x"));
  auto id = f.next_id();
  auto never_repeated = f.send(f.acquire(gone, "/repo/x", 60'000));
  f.w.settle();
  auto before = f.send(f.acquire(c, "/repo/x", 60'000), id);
  f.w.settle();
  f.restart();
  auto after = f.send(f.acquire(c, "/repo/x", 60'000), id);
  f.w.settle();
  CHECK(f.lock("/repo/x")->waiters() == 2);
  f.w.advance_by(16s, 250ms);
  CHECK(f.lock("/repo/x")->waiters() == 1);
  CHECK(f.run(f.release(a, "/repo/x")).lock().handed_to() == c);
  CHECK(after.get()->lock().lock().session_id() == c);
}

TEST_CASE("a lock that comes to one who is not there is given back, and who asks for it too late is told so") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  f.run(f.acquire(a, "/repo/x"));
  auto id = f.next_id(), next = f.next_id();
  auto before = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  auto behind = f.send(f.acquire(c, "/repo/x", 60'000), next);
  f.w.settle();
  f.restart();
  CHECK(f.run(f.release(a, "/repo/x")).lock().handed_to() == b);
  auto again = f.send(f.acquire(c, "/repo/x", 60'000), next);
  f.w.settle();
  CHECK_FALSE(again.answered());
  f.w.advance_by(16s, 250ms);
  CHECK(again.get()->lock().lock().session_id() == c);
  auto late = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  CHECK(late.get()->refusal().code() == v1::Refusal::STALE);
  CHECK(f.lock("/repo/x")->lock().session_id() == c);
}

TEST_CASE("a lock stays with who waited for it when another wait for it ends at the same moment") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  auto short_lived = f.acquire(a, "/repo/x");
  short_lived.mutable_acquire_lock()->set_ttl_ms(5'000);
  f.run(short_lived);
  auto granted = f.send(f.acquire(b, "/repo/x", 60'000));
  f.w.settle();
  auto ends = f.send(f.acquire(c, "/repo/x", 5'000));
  f.w.settle();
  f.w.advance_by(6s, 6s);
  CHECK(granted.get()->lock().lock().session_id() == b);
  CHECK(ends.get()->refusal().code() == v1::Refusal::TIMEOUT);
  f.w.advance_by(16s, 250ms);
  REQUIRE(f.lock("/repo/x").has_value());
  CHECK(f.lock("/repo/x")->lock().session_id() == b);
}

TEST_CASE("a lock stays with one who was not there for the grant, and asks for it in time") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  auto id = f.next_id();
  auto before = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  f.restart();
  f.run(f.release(a, "/repo/x"));
  auto after = f.send(f.acquire(b, "/repo/x", 60'000), id);
  f.w.settle();
  CHECK(after.get()->lock().lock().session_id() == b);
  f.w.advance_by(16s, 250ms);
  REQUIRE(f.lock("/repo/x").has_value());
  CHECK(f.lock("/repo/x")->lock().session_id() == b);
}

TEST_CASE("a waiter that arrives after its lock actor was put to rest is served by a new one") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  auto gone = f.send(f.acquire(b, "/repo/x", 2'000));
  f.w.settle();
  f.w.advance_by(3s, 250ms);
  CHECK(gone.get()->refusal().code() == v1::Refusal::TIMEOUT);
  f.w.advance_by(70s, 5s);
  CHECK_FALSE(f.awake("scopes/s/lock//repo/x"));
  auto again = f.send(f.acquire(b, "/repo/x", 60'000));
  f.w.settle();
  CHECK_FALSE(again.answered());
  f.run(f.release(a, "/repo/x"));
  CHECK(again.get()->lock().lock().session_id() == b);
}

TEST_CASE("a grant that overtakes the word that one has to wait reaches the caller all the same") {
  // Under some interleaving the commit's news come to the lock before the reply that sent the caller into the line.
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    fabric_world f{seed};
    auto a = f.session(100), b = f.session(101);
    f.run(f.acquire(a, "/repo/x"));
    auto waiting = f.send(f.acquire(b, "/repo/x", 60'000));
    auto released = f.send(f.release(a, "/repo/x"));
    f.w.settle();
    REQUIRE(released.answered());
    REQUIRE(waiting.answered());
    CHECK(waiting.get()->lock().lock().session_id() == b);
  }
}

TEST_CASE("a caller who goes gives up the place in line, whether it had been told to wait yet or not") {
  for (std::uint64_t seed = 0; seed <= 60; ++seed) {
    CAPTURE(seed);
    fabric_world f{seed};
    auto a = f.session(100), b = f.session(101), c = f.session(102);
    f.run(f.acquire(a, "/repo/x"));
    auto gone = call_of(f, f.acquire(b, "/repo/x", 60'000));
    auto next = call_of(f, f.acquire(c, "/repo/x", 60'000));
    // One sender, as the actor of short calls is, so that the word of the end comes behind the command.
    f.w.sys.spawn([=, front = f.board->get().front](caf::event_based_actor* self) {
      self->request(front, caf::infinite, gone).then([](const reply_ptr&) {}, [](caf::error&) {});
      caf::anon_send(front, abort_atom_v, gone);
    });
    f.w.settle();
    auto other = f.request<reply_ptr>(f.board->get().front, next);
    f.w.settle();
    REQUIRE(f.lock("/repo/x").has_value());
    CHECK(f.lock("/repo/x")->waiters() == 1);
    // In line for good, then gone.
    f.w.tell(f.board->get().front, abort_atom_v, next);
    CHECK(f.lock("/repo/x")->waiters() == 0);
    CHECK(other.failed());
    CHECK(f.run(f.release(a, "/repo/x")).lock().handed_to().empty());
    CHECK_FALSE(f.lock("/repo/x").has_value());
  }
}

TEST_CASE("a place in line stays while anybody stands for it: a repeated request, or a newer one of the session") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(f.acquire(a, "/repo/x"));
  const auto front = f.board->get().front;
  auto id = f.next_id();
  auto first = call_of(f, f.acquire(b, "/repo/x", 60'000), id), again = call_of(f, f.acquire(b, "/repo/x", 60'000), id);
  auto one = f.request<reply_ptr>(front, first), two = f.request<reply_ptr>(front, again);
  f.w.settle();
  f.w.tell(front, abort_atom_v, first);
  CHECK(one.failed());
  CHECK_FALSE(two.answered());
  auto newer = f.request<reply_ptr>(front, call_of(f, f.acquire(b, "/repo/x", 60'000)));
  f.w.settle();
  CHECK(two.get()->refusal().code() == v1::Refusal::STALE);
  f.w.tell(front, abort_atom_v, again); // it was answered already
  CHECK_FALSE(newer.answered());
  f.run(f.release(a, "/repo/x"));
  CHECK(newer.get()->lock().lock().session_id() == b);
}

TEST_CASE("a scope that has nothing alive goes to rest and comes back with its rows") {
  fabric_world f;
  f.run(f.set_kv("k", "v"));
  f.w.advance_by(90s, 5s);
  CHECK_FALSE(f.awake("scopes/s"));
  auto q = f.query();
  q.mutable_get_kv()->set_key("k");
  CHECK(f.ask(q).kv().value() == "v");
  f.run(f.set_kv("k", "w"));
  CHECK(f.awake("scopes/s"));
}

TEST_CASE("a scope with a deadline that dies is woken again without anybody asking") {
  fabric_world f;
  auto a = f.session(100);
  f.run(f.acquire(a, "/repo/x", 0, 20'000));
  f.drill("scopes/s");
  f.w.settle();
  f.w.advance_by(40s, 500ms);
  CHECK(f.awake("scopes/s"));
  CHECK_FALSE(f.lock("/repo/x").has_value());
}

TEST_CASE("a drill on an actor that is not there says so") {
  fabric_world f;
  f.session(100);
  auto a = f.request<test::done>(f.root, kill_atom_v, std::string{"scopes/s/lock/none"});
  f.w.settle();
  CHECK(a.error() == errc::not_found);
}
