// Clients that take locks, write keys, wait for activity and dispatch commands, while actors are killed between any two steps.
// A seed fixes everything: SWARM_SIM_SEED=N runs one alone.
#include <cstdlib>
#include <map>
#include <set>

#include "tests/support/fabric_world.hpp"

using namespace std::chrono_literals;
using namespace swarm;
using test::fabric_world;

namespace {

/// A client as swarmctl is one: it repeats a request under the same id until it is answered.
struct client {
  std::string session;
  v1::Command command;
  v1::RequestId id;
  std::optional<test::asked<reply_ptr>> pending;
  std::size_t answered = 0, repeated = 0;
};

struct chaos {
  explicit chaos(std::uint64_t seed) : f(seed), dice(seed * 977 + 13) {
    for (int i = 0; i < 4; ++i)
      clients.push_back({f.session(100 + i), {}, {}, {}, 0, 0});
  }

  bool one_in(unsigned n) { return dice() % n == 0; }
  template <class T>
  const T& any(const std::vector<T>& v) {
    return v[dice() % v.size()];
  }

  void act(client& c) {
    static const std::vector<std::string> paths{"/repo/x", "/repo/y"};
    switch (dice() % 8) {
      case 0: c.command = f.acquire(c.session, any(paths)); break;
      case 1:
      case 2: c.command = f.acquire(c.session, any(paths), 20'000); break;
      case 3: c.command = f.acquire(c.session, any(paths), 20'000, 3'000); break;
      case 4:
      case 5: c.command = f.release(c.session, any(paths)); break;
      case 6: c.command = f.dispatch("job " + std::to_string(dice() % 5), 1); break;
      default: c.command = f.set_kv("k" + std::to_string(dice() % 3), std::to_string(dice()), one_in(2) ? 2'000 : 0);
    }
    c.id = f.next_id();
    c.pending = f.send(c.command, c.id);
  }

  /// Looks at what came back; a call that failed is repeated as it was.
  void look(client& c) {
    if (!c.pending || !c.pending->answered())
      return;
    if (c.pending->failed()) {
      auto e = c.pending->error();
      bool repeatable = e == errc::unknown_outcome || e == errc::unavailable || e == errc::overloaded || e == errc::store_failed ||
                        std::get<caf::error>(**c.pending->result).category() == caf::atom("system");
      if (!repeatable)
        FAIL("a call failed for good: ", caf::to_string(std::get<caf::error>(**c.pending->result)));
      ++c.repeated;
      c.pending = f.send(c.command, c.id);
      return;
    }
    const auto& r = *c.pending->get();
    if (r.lock().has_lock() && c.command.has_acquire_lock() && !r.has_refusal())
      granted[r.lock().lock().fence()] = c.session;
    if (r.has_dispatch())
      spawned.insert(r.dispatch().spawn().id());
    ++c.answered;
    c.pending.reset();
  }

  void kill_something() {
    std::vector<std::string> paths{"writer",
                                   "writer",
                                   "reader-0",
                                   "reader-1",
                                   "watch",
                                   "processes",
                                   "scopes",
                                   "scopes/s",
                                   "scopes/s",
                                   "scopes/s/lock//repo/x",
                                   "scopes/s/lock//repo/y",
                                   "pty-log"};
    for (const auto& c : clients)
      paths.push_back("scopes/s/session/" + c.session);
    for (const auto& id : spawned) {
      paths.push_back("scopes/s/spawn/" + id + "#1");
      paths.push_back("scopes/s/spawn/" + id + "#2");
      paths.push_back("processes/pty/" + id);
    }
    f.drill(any(paths));
    ++kills;
  }

  void move_the_world() {
    switch (dice() % 12) {
      case 0: f.keeper.lose(); break;
      case 1:
        if (one_in(6))
          f.keeper.die();
        break;
      case 2:
        if (one_in(6))
          f.restart();
        break;
      default:
        std::vector<std::string> running;
        for (const auto& [id, c] : f.keeper.children)
          if (f.keeper.runs(id))
            running.push_back(id);
        if (!running.empty())
          f.keeper.exit(any(running), static_cast<std::int32_t>(dice() % 2));
    }
  }

  void run(std::size_t rounds) {
    for (std::size_t i = 0; i < rounds; ++i) {
      for (auto n = dice() % 40; n > 0; --n)
        f.w.step();
      auto& c = clients[dice() % clients.size()];
      look(c);
      if (!c.pending)
        act(c);
      if (one_in(9))
        kill_something();
      if (one_in(6))
        move_the_world();
      if (one_in(4))
        f.w.sched.clock().advance_time(std::chrono::milliseconds{dice() % 700});
      check_gates();
    }
  }

  void check_gates() {
    for (const auto& [attempt, times] : f.keeper.gates_opened) {
      CAPTURE(attempt.first);
      REQUIRE(times == 1);
    }
  }

  /// The faults are over: everybody is answered within a bound.
  void heal() {
    bool open = true;
    for (int i = 0; i < 60 && open; ++i) {
      f.w.advance_by(2s, 100ms);
      open = false;
      for (auto& c : clients) {
        look(c);
        open = open || c.pending;
      }
    }
    for (auto& c : clients) {
      CAPTURE(c.session);
      CAPTURE(c.command.ShortDebugString());
      REQUIRE_FALSE(c.pending.has_value());
    }
    // A lock whose time is up is free at once; the sweep that records it comes within limits::scope_sweep_pause.
    f.w.advance_by(limits::restart_grace() + 5s, 100ms);
  }

  void check_locks() {
    std::map<std::string, std::string> holder;
    std::map<std::uint64_t, std::string> by_fence;
    std::uint64_t last = 0, revision = 0;
    for (;;) {
      auto q = f.query();
      q.mutable_list_events()->set_after(revision);
      auto a = f.ask(q);
      if (a.events().events().empty())
        break;
      for (const auto& e : a.events().events()) {
        REQUIRE(e.revision() > revision);
        revision = e.revision();
        if (e.type() == "context.lock_acquired") {
          CAPTURE(e.ShortDebugString());
          REQUIRE(holder[e.subject()].empty());
          holder[e.subject()] = e.actor();
          auto at = e.payload().find("\"fence\":");
          REQUIRE(at != std::string::npos);
          auto fence = std::stoull(e.payload().substr(at + 8));
          REQUIRE(fence > last);
          last = fence;
          by_fence[fence] = e.actor();
        } else if (e.type() == "context.lock_released") {
          REQUIRE_FALSE(holder[e.subject()].empty());
          holder[e.subject()].clear();
        }
      }
    }
    // Nothing that was answered is missing from the record.
    for (const auto& [fence, session] : granted) {
      CAPTURE(fence);
      REQUIRE(by_fence.contains(fence));
      CHECK(by_fence[fence] == session);
    }
    for (const auto& path : {"/repo/x", "/repo/y"}) {
      auto held = f.lock(path);
      CHECK((held ? held->lock().session_id() : "") == holder[path]);
    }
  }

  void check_spawns() {
    for (int i = 0; i < 4; ++i) {
      for (const auto& s : f.spawns()) {
        CAPTURE(s.ShortDebugString());
        CHECK(f.keeper.runs(s.id()) == domain::is_live(s));
      }
      std::vector<std::string> running;
      for (const auto& [id, c] : f.keeper.children)
        if (f.keeper.runs(id))
          running.push_back(id);
      for (const auto& id : running)
        f.keeper.exit(id, 0);
      f.w.settle();
      f.w.advance_by(2s, 100ms);
    }
    CHECK(f.keeper.running() == 0);
    for (const auto& s : f.spawns()) {
      CAPTURE(s.ShortDebugString());
      CHECK(s.ended_at_ms() > 0);
      CHECK(f.task(s.task_id()).status() >= v1::DONE);
    }
    check_gates();
  }

  fabric_world f;
  std::mt19937_64 dice;
  std::vector<client> clients;
  std::map<std::uint64_t, std::string> granted;
  std::set<std::string> spawned;
  std::size_t kills = 0;
};

std::vector<std::uint64_t> seeds(std::uint64_t everyday, std::uint64_t full) {
  if (auto one = std::getenv("SWARM_SIM_SEED"))
    return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> out;
  for (std::uint64_t s = 1; s <= (std::getenv("SWARM_TEST_FULL") ? full : everyday); ++s)
    out.push_back(s);
  return out;
}

} // namespace

TEST_CASE("locks, spawns and answers hold while actors are killed between any two steps") {
  std::size_t answered = 0, repeated = 0, kills = 0, granted = 0, ran = 0;
  for (auto seed : seeds(120, 5'000)) {
    CAPTURE(seed);
    chaos c{seed};
    c.run(120);
    c.heal();
    c.check_locks();
    c.check_spawns();
    for (const auto& one : c.clients) {
      answered += one.answered;
      repeated += one.repeated;
    }
    kills += c.kills;
    granted += c.granted.size();
    ran += c.f.keeper.gates_opened.size();
  }
  MESSAGE(answered, " calls answered, ", repeated, " repeated, ", granted, " locks granted, ", ran, " programs run, ", kills, " actors killed");
  if (!std::getenv("SWARM_SIM_SEED")) {
    CHECK(repeated > 0);
    CHECK(granted > 100);
    CHECK(ran > 50);
  }
}

TEST_CASE("a line of waiters empties under every interleaving, one holder at a time") {
  for (auto seed : seeds(100, 3'000)) {
    CAPTURE(seed);
    fabric_world f{seed};
    std::vector<std::string> who;
    for (int i = 0; i < 6; ++i)
      who.push_back(f.session(100 + i));
    // Everybody at once: who is first is up to the seed.
    std::vector<test::asked<reply_ptr>> calls;
    for (const auto& w : who)
      calls.push_back(f.send(f.acquire(w, "/repo/x", 60'000)));
    f.w.settle();
    std::set<std::string> served;
    std::uint64_t fence = 0;
    for (std::size_t i = 0; i < who.size(); ++i) {
      auto held = f.lock("/repo/x");
      REQUIRE(held.has_value());
      CHECK(held->lock().fence() > fence);
      fence = held->lock().fence();
      CHECK(held->waiters() == who.size() - 1 - i);
      auto answered = static_cast<std::size_t>(std::count_if(calls.begin(), calls.end(), [](const auto& c) { return c.answered(); }));
      CHECK(answered == i + 1);
      served.insert(held->lock().session_id());
      // Two release at the same time; only the holder's release takes effect. The other shows a fence that is surely not the next one's.
      auto other = f.send(f.release(who[(i + 1) % who.size()], "/repo/x", fence - 1));
      auto mine = f.send(f.release(held->lock().session_id(), "/repo/x", fence));
      f.w.settle();
      CHECK(mine.get()->lock().released());
      CHECK(other.answered());
    }
    CHECK(served.size() == who.size());
    CHECK_FALSE(f.lock("/repo/x").has_value());
  }
}

TEST_CASE("every message is handed over once and in order, whatever is killed between") {
  for (auto seed : seeds(60, 2'000)) {
    CAPTURE(seed);
    fabric_world f{seed};
    std::mt19937_64 dice{seed};
    auto a = f.session(100), b = f.session(101);
    std::vector<std::string> got;
    std::optional<test::asked<activity_ptr>> wait;
    v1::RequestId wait_id;
    auto repeat = false;
    auto look = [&] {
      if (wait && !wait->answered())
        return;
      // One that failed is repeated as it was, once there is somebody to ask; only an answer ends it.
      repeat = wait ? wait->failed() : repeat;
      if (!repeat) {
        if (wait)
          for (const auto& m : wait->get()->messages())
            got.push_back(m.content());
        wait_id = f.next_id();
      }
      wait.reset();
      if (f.board->get().front)
        wait = f.wait(b, 5'000, 0, false, wait_id);
    };
    const int n = 12;
    for (int i = 0; i < n; ++i) {
      auto c = f.command(a);
      c.mutable_send_message()->set_recipient(b);
      c.mutable_send_message()->set_content(std::to_string(i));
      auto id = f.next_id();
      for (auto sent = f.send(c, id);;) {
        if (dice() % 5 == 0)
          f.drill(std::vector<std::string>{"scopes/s", "scopes/s/mailbox/" + b, "reader-0"}[dice() % 3]);
        f.w.settle();
        look();
        if (sent.answered() && !sent.failed())
          break;
        f.w.advance_by(2s, 100ms);
        sent = f.send(c, id);
      }
    }
    for (int i = 0; i < 20; ++i) {
      f.w.advance_by(2s, 100ms);
      look();
    }
    std::vector<std::string> sent;
    for (int i = 0; i < n; ++i)
      sent.push_back(std::to_string(i));
    CHECK(got == sent);
  }
}
