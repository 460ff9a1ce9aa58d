#include "actors/fabric/entities/mailbox.hpp"
#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

v1::Command message(const std::string& from, const std::string& to, const std::string& text) {
  auto c = fabric_world::command(from);
  c.mutable_send_message()->set_recipient(to);
  c.mutable_send_message()->set_content(text);
  return c;
}

bool says(const v1::Activity& a, const std::string& change) { return std::find(a.changes().begin(), a.changes().end(), change) != a.changes().end(); }

v1::Event event(const std::string& type, const std::string& subject = {}, const std::string& actor = {}) {
  v1::Event e;
  e.set_type(type);
  e.set_subject(subject);
  e.set_actor(actor);
  return e;
}

} // namespace

TEST_CASE("one who waits is woken by a message and has read it") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  auto wait = f.wait(b);
  f.w.settle();
  CHECK_FALSE(wait.answered());
  f.run(message(a, b, "hello"));
  REQUIRE(wait.answered());
  REQUIRE(wait.get()->messages_size() == 1);
  CHECK(wait.get()->messages(0).content() == "hello");
  CHECK(says(*wait.get(), "new_messages"));
  auto next = f.wait(b, 1'000);
  f.w.settle();
  CHECK_FALSE(next.answered());
  f.w.advance_by(2s, 250ms);
  CHECK(next.get()->timed_out());
  CHECK(next.get()->messages_size() == 0);
}

TEST_CASE("mail is handed over whenever the timeout comes, also while it is being taken") {
  for (std::size_t steps = 0; steps < 40; ++steps) {
    CAPTURE(steps);
    fabric_world f;
    auto a = f.session(100), b = f.session(101);
    f.run(message(a, b, "hello"));
    auto first = f.wait(b, 1'000);
    f.w.settle(steps);
    f.w.advance(2s); // in one go: the timeout meets whatever is under way
    f.w.advance(2s); // and once more, if it had not been armed yet
    REQUIRE(first.answered());
    auto then = f.wait(b, 1'000);
    f.w.settle();
    f.w.advance(2s);
    auto seen = first.get()->messages_size() + then.get()->messages_size();
    CHECK(seen == 1);
    CHECK(first.get()->timed_out() == (first.get()->messages_size() == 0));
  }
}

TEST_CASE("waits that time out leave nothing at the hub") {
  fabric_world f;
  auto a = f.session(100);
  for (int i = 0; i < 20; ++i) {
    auto wait = f.wait(a, 1'000);
    f.w.settle();
    f.w.advance_by(2s, 250ms);
    REQUIRE(wait.get()->timed_out());
  }
  f.w.settle();
  auto rows = f.request<std::vector<runtime::tree_entry>>(f.board->get().watch, tree_atom_v);
  f.w.settle();
  CHECK(rows.get().front().detail == "0 polls parked");
}

TEST_CASE("mail that is there already is handed over at once") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(message(a, b, "one"));
  f.run(message(a, b, "two"));
  auto wait = f.wait(b);
  f.w.settle();
  REQUIRE(wait.get()->messages_size() == 2);
  CHECK(wait.get()->messages(0).content() == "one");
}

TEST_CASE("mail that ends a wait comes alone, mail that was there comes with the tasks") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  auto waiting = f.wait(b);
  f.w.settle();
  f.run(message(a, b, "now"));
  REQUIRE(waiting.answered());
  CHECK_FALSE(waiting.get()->has_tasks());
  f.run(message(a, b, "before"));
  auto late = f.wait(b);
  f.w.settle();
  REQUIRE(late.answered());
  CHECK(late.get()->messages_size() == 1);
  CHECK(late.get()->has_tasks());
}

TEST_CASE("tasks, keys and, when asked for, locks wake, and the mail of others does not") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  auto with_locks = f.wait(a, 0, 0, true), without = f.wait(a);
  f.w.settle();
  f.run(f.acquire(c, "/repo/x"));
  CHECK(says(*with_locks.get(), "lock_updates"));
  CHECK_FALSE(without.answered());
  f.run(message(b, c, "not for a"));
  CHECK_FALSE(without.answered());
  f.run(f.set_kv("k", "v"));
  CHECK(says(*without.get(), "kv_updates"));
  auto wait = f.wait(a);
  f.w.settle();
  auto t = f.command(b);
  auto* spec = t.mutable_create_tasks()->add_tasks();
  spec->set_type("fix");
  spec->set_title("mend it");
  f.run(t);
  CHECK(says(*wait.get(), "task_updates"));
  REQUIRE(wait.get()->tasks().tasks_size() == 1);
  CHECK(wait.get()->tasks().tasks(0).title() == "mend it");
}

TEST_CASE("a new session wakes those who wait, and they see it") {
  fabric_world f;
  auto a = f.session(100);
  auto wait = f.wait(a);
  f.w.settle();
  auto b = f.session(101);
  REQUIRE(wait.answered());
  CHECK(says(*wait.get(), "instance_changes"));
  CHECK(std::any_of(wait.get()->sessions().begin(), wait.get()->sessions().end(), [&](const auto& s) { return s.id() == b; }));
}

TEST_CASE("waiting on from a revision misses nothing that happened in between") {
  fabric_world f;
  auto a = f.session(100);
  auto first = f.wait(a, 1'000);
  f.w.settle();
  f.w.advance_by(2s, 250ms);
  auto since = first.get()->revision();
  REQUIRE(since > 0);
  f.run(f.set_kv("k", "v"));
  SUBCASE("in the hub's memory") {}
  SUBCASE("in the store only: the node has been restarted") { f.restart(); }
  SUBCASE("in the store only: so much happened that the hub has let it go") {
    for (std::size_t i = 0; i < limits::watch_buffer_events_max() + 5; ++i)
      f.run(f.set_kv("other", std::to_string(i)));
  }
  auto second = f.wait(a, 1'000, since);
  f.w.settle();
  REQUIRE(second.answered());
  CHECK(says(*second.get(), "kv_updates"));
  // And from there on there is nothing.
  auto third = f.wait(a, 1'000, second.get()->revision());
  f.w.settle();
  CHECK_FALSE(third.answered());
  f.w.advance_by(2s, 250ms);
  CHECK(third.get()->timed_out());
}

TEST_CASE("a client that vanished takes no mail with it") {
  fabric_world f;
  auto a = f.session(100), b = f.session(101);
  auto vanished = f.wait(b);
  f.w.settle();
  f.w.end(vanished.who);
  f.run(message(a, b, "still here?"));
  auto wait = f.wait(b);
  f.w.settle();
  REQUIRE(wait.answered());
  REQUIRE(wait.get()->messages_size() == 1);
  CHECK(wait.get()->messages(0).content() == "still here?");
}

TEST_CASE("those who wait on a mailbox that dies are answered") {
  fabric_world f;
  auto a = f.session(100);
  auto wait = f.wait(a);
  f.w.settle();
  f.drill("scopes/s/mailbox/" + a);
  f.w.settle();
  CHECK(wait.failed());
}

TEST_CASE("waiting for a session that does not exist is refused, not left hanging") {
  fabric_world f;
  f.session(100);
  auto wait = f.wait("nobody");
  f.w.settle();
  REQUIRE(wait.answered());
  CHECK(wait.get()->has_refusal());
}

TEST_CASE("events become swarm-mcp's changes, in its order, each once") {
  using list = std::vector<std::string>;
  auto mine = event("message.sent", "me", "you");
  CHECK(classify({mine, mine}, "me", false) == list{"new_messages"});
  CHECK(classify({event("message.sent", "you", "me")}, "me", false).empty());
  CHECK(classify({event("message.broadcast", "", "me")}, "me", false).empty());
  CHECK(classify({event("message.broadcast", "", "you")}, "me", false) == list{"new_messages"});
  CHECK(classify({event("context.lock_acquired")}, "me", false).empty());
  CHECK(classify({event("context.lock_released"), event("kv.set"), event("instance.registered"), event("task.created"), mine}, "me", true) ==
        list{"new_messages", "task_updates", "instance_changes", "kv_updates", "lock_updates"});
}
