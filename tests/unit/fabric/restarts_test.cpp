#include "actors/fabric/terminals/pty.hpp"
#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

/// With the policy of a node in use.
struct strict_world : fabric_world {
  strict_world() {
    restarts = {};
    restart();
  }

  bool is_awake(const std::string& path) {
    auto all = rows();
    return std::any_of(all.begin(), all.end(), [&](const auto& r) { return r.path == path && r.state != "waiting" && r.state != "ended"; });
  }
  /// Kills it whenever it is there; returns how often.
  std::size_t kill_for(
    const std::string& path, std::chrono::milliseconds time, const std::function<void()>& meanwhile = [] {}) {
    std::size_t kills = 0;
    for (auto t = 0ms; t < time; t += 100ms) {
      for (; is_awake(path); ++kills) {
        drill(path);
        w.settle();
        REQUIRE(kills < 1'000); // a hot loop
      }
      meanwhile();
      w.advance(100ms);
    }
    return kills;
  }
  std::string state_of(const std::string& path) {
    for (const auto& r : rows())
      if (r.path == path)
        return r.state;
    return "none";
  }
};

constexpr auto seen_for = 120s;
/// The first burst, the rest of a minute, and a slow second burst.
constexpr std::size_t kills_max = 14;
constexpr std::size_t kills_min = 8;

} // namespace

TEST_CASE("a scope that dies for ever is woken at a bounded rate, its callers are all answered, and it comes back by itself") {
  strict_world f;
  auto a = f.session(100);
  std::vector<test::asked<reply_ptr>> calls;
  auto kills = f.kill_for("scopes/s", seen_for, [&] { calls.push_back(f.send(f.set_kv("k", "v"))); });
  CHECK(kills <= kills_max);
  CHECK(kills >= kills_min);
  f.w.advance_by(70s, 500ms);
  CHECK(f.is_awake("scopes/s")); // nobody asked
  std::size_t served = 0;
  for (const auto& c : calls) {
    REQUIRE(c.answered());
    served += !c.failed();
    if (c.failed())
      CHECK((c.error() == errc::unavailable || c.error() == errc::unknown_outcome));
  }
  CHECK(served > 0);
  f.watch.end(100);
  f.w.settle();
  CHECK_FALSE(f.has_session(a)); // what lives in it is back too
}

TEST_CASE("a call to a scope that is about to be woken again waits for it") {
  strict_world f;
  f.run(f.set_kv("k", "v"));
  for (int i = 0; i < 4; ++i) {
    f.drill("scopes/s");
    f.w.settle();
    f.w.advance(i < 3 ? 1s : 0s);
  }
  REQUIRE(f.state_of("scopes/s") == "waiting");
  auto call = f.send(f.set_kv("k", "w"));
  f.w.settle();
  CHECK_FALSE(call.answered());
  f.w.advance(1s);
  CHECK_FALSE(call.get()->has_refusal());
}

TEST_CASE("waiters for a lock whose actor dies again and again are refused for a while and keep their places") {
  strict_world f;
  auto a = f.session(100), b = f.session(101), c = f.session(102);
  f.run(f.acquire(a, "/repo/x"));
  auto id_b = f.next_id(), id_c = f.next_id();
  auto wait_b = [&] { return f.send(f.acquire(b, "/repo/x", 600'000), id_b); };
  auto wait_c = [&] { return f.send(f.acquire(c, "/repo/x", 600'000), id_c); };
  auto first = wait_b();
  f.w.settle();
  auto second = wait_c();
  f.w.settle();
  std::size_t refused = 0;
  auto kills = f.kill_for("scopes/s/lock//repo/x", 20s, [&] {
    f.w.settle();
    for (auto* call : {&first, &second})
      if (call->answered()) {
        REQUIRE(call->failed());
        refused += call->error() == errc::unavailable;
        *call = call == &first ? wait_b() : wait_c();
      }
    f.w.settle();
  });
  CHECK(kills == 6); // then it rests
  CHECK(refused > 0);
  f.w.advance_by(60s, 1s);
  for (auto* call : {&second, &first}) // the later one repeats first: the line does not care
    if (call->answered())
      *call = call == &first ? wait_b() : wait_c();
  f.w.settle();
  f.run(f.release(a, "/repo/x"));
  CHECK(first.get()->lock().lock().session_id() == b);
  CHECK_FALSE(second.answered());
  f.run(f.release(b, "/repo/x"));
  CHECK(second.get()->lock().lock().session_id() == c);
}

TEST_CASE("a worker's actor that dies for ever is started at a bounded rate, the worker runs on, and its end is recorded afterwards") {
  strict_world f;
  auto d = f.run(f.dispatch("count")).dispatch();
  auto kills = f.kill_for("scopes/s/spawn/" + d.spawn().id() + "#1", seen_for);
  CHECK(kills <= kills_max);
  CHECK(kills >= kills_min);
  CHECK(f.keeper.runs(d.spawn().id()));
  f.keeper.exit(d.spawn().id(), 0);
  f.w.advance_by(70s, 500ms);
  CHECK(f.spawn_row(d.spawn().id()).status() == v1::Spawn::ENDED);
  CHECK(f.task(d.task().id()).status() == v1::DONE);
  CHECK(f.state_of("scopes/s/spawn/" + d.spawn().id() + "#1") == "none");
}

TEST_CASE("a worker whose spawn ended otherwise while its actor was down leaves nothing behind") {
  strict_world f;
  auto id = f.run(f.dispatch("count")).dispatch().spawn().id();
  auto path = "scopes/s/spawn/" + id + "#1";
  f.drill(path);
  f.w.settle();
  REQUIRE(f.state_of(path) == "waiting");
  node_environment node;
  node.facts.node_id = "node-1";
  auto ended = internal_command(node, "s", [&](v1::Command& c) {
    c.mutable_spawn_ended()->set_spawn_id(id);
    c.mutable_spawn_ended()->set_attempt(1);
  });
  auto told = f.request<reply_ptr>(f.board->get().writer, ended);
  f.w.settle();
  REQUIRE_FALSE(told.get()->has_refusal());
  CHECK(f.state_of(path) == "none");
  f.w.advance_by(5s, 100ms);
  CHECK(f.state_of(path) == "none");
}

TEST_CASE("a terminal's actor that dies for ever is started at a bounded rate, and who asks for it waits or is refused, and loses nothing") {
  strict_world f;
  auto id = f.run(f.dispatch("talk")).dispatch().spawn().id();
  f.keeper.print(id, "before ");
  f.w.settle();
  std::vector<test::asked<pty_actor>> asked;
  auto kills = f.kill_for("processes/pty/" + id, seen_for, [&] { asked.push_back(f.request<pty_actor>(f.board->get().processes, pty_atom_v, id)); });
  CHECK(kills <= kills_max);
  CHECK(kills >= kills_min);
  f.keeper.print(id, "after");
  f.w.advance_by(70s, 500ms);
  std::size_t refused = 0, served = 0;
  for (const auto& a : asked) {
    REQUIRE(a.answered());
    served += !a.failed();
    refused += a.failed() && a.error() == errc::unavailable;
  }
  CHECK(served > 0);
  CHECK(served + refused == asked.size());
  CHECK(refused > 0);
  auto terminal = f.request<pty_actor>(f.board->get().processes, pty_atom_v, id);
  f.w.settle();
  auto chunk = f.request<pty_chunk_ptr>(terminal.get(), pty_read_ptr{std::make_shared<const pty_read>()});
  f.w.settle();
  CHECK(chunk.get()->data() == "before after");
}

TEST_CASE("a session's actor that dies for ever is started at a bounded rate, and watches its process in the end") {
  strict_world f;
  auto a = f.session(100);
  auto kills = f.kill_for("scopes/s/session/" + a, seen_for);
  CHECK(kills <= kills_max);
  CHECK(kills >= kills_min);
  f.w.advance_by(70s, 500ms);
  CHECK(f.watch.watched() == 1);
  f.watch.end(100);
  f.w.settle();
  CHECK_FALSE(f.has_session(a));
}
