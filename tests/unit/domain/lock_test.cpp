#include <deque>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

struct wish {
  std::int64_t wait_ms = 0;
  std::int64_t ttl_ms = 0;
  bool exclusive = false;
};

v1::Command acquire(const std::string& who, const std::string& path, wish w = {}) {
  auto cmd = domain_world::command(who);
  auto& a = *cmd.mutable_acquire_lock();
  a.set_path(path);
  a.set_wait_ms(w.wait_ms);
  a.set_ttl_ms(w.ttl_ms);
  a.set_exclusive(w.exclusive);
  return cmd;
}

v1::Command release(const std::string& who, const std::string& path, std::uint64_t fence = 0) {
  auto cmd = domain_world::command(who);
  cmd.mutable_release_lock()->set_path(path);
  cmd.mutable_release_lock()->set_fence(fence);
  return cmd;
}

v1::Command cancel(const std::string& who, const std::string& path) {
  auto cmd = domain_world::command(who);
  cmd.mutable_cancel_lock_wait()->set_path(path);
  return cmd;
}

} // namespace

TEST_CASE("a free lock is granted with a fence and an event") {
  domain_world w;
  auto a = w.session();
  auto batch = w.run(acquire(a, "/repo/x"));
  REQUIRE(batch.reply().lock().has_lock());
  CHECK(batch.reply().lock().lock().session_id() == a);
  CHECK(batch.reply().lock().lock().fence() > (1ull << 36));
  CHECK(batch.reply().lock().lock().note().empty()); // a tool that has a default of its own sends it
  CHECK(test::has_event(batch, "context.lock_acquired"));
}

TEST_CASE("a held lock is refused with the contract's text and who holds it") {
  domain_world w;
  auto a = w.session("name:a"), b = w.session();
  w.run(acquire(a, "/repo/x"));
  auto r = w.reply(acquire(b, "/repo/x"));
  CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
  CHECK(r.refusal().text() == "File is already locked");
  CHECK(r.lock().active().owner().id() == a);
  CHECK(r.lock().active().owner().label() == "name:a");
}

TEST_CASE("the holder takes its lock again under a new id and fence, unless it asks for exclusiveness") {
  domain_world w;
  auto a = w.session();
  auto first = w.reply(acquire(a, "/repo/x")).lock().lock();
  auto again = w.run(acquire(a, "/repo/x"));
  CHECK(again.reply().lock().lock().id() != first.id());
  CHECK(again.reply().lock().lock().fence() > first.fence());
  CHECK(test::event_types(again) == std::vector<std::string>{"context.lock_acquired"});
  CHECK(w.reply(acquire(a, "/repo/x", {.exclusive = true})).refusal().code() == v1::Refusal::CONFLICT);
  CHECK(w.reply(acquire(a, "/repo/x", {.wait_ms = 1000, .exclusive = true})).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("a path inside the tree of another identity cannot be locked") {
  domain_world w;
  auto a = w.session("identity:a");
  w.session("identity:b");
  auto r = w.reply(acquire(a, "/repo/x"));
  CHECK(r.refusal().code() == v1::Refusal::CROSS_IDENTITY);
  CHECK(r.refusal().text() == "Cannot lock a path owned by another identity");
  CHECK(r.lock().active().hidden());
  CHECK_FALSE(w.reply(acquire(a, "/elsewhere/x")).has_refusal());
  auto over = acquire(a, "/repo/x");
  over.mutable_caller()->set_allow_cross_identity(true);
  CHECK_FALSE(w.reply(over).has_refusal());
}

TEST_CASE("a holder of another identity is not shown") {
  domain_world w;
  auto a = w.session("identity:a"), b = w.session("identity:b");
  w.run(acquire(a, "/elsewhere/x"));
  auto r = w.reply(acquire(b, "/elsewhere/x"));
  CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
  CHECK(r.lock().active().hidden());
  CHECK(r.lock().active().lock().session_id().empty());
}

TEST_CASE("only a session can hold a lock") {
  domain_world w;
  CHECK(w.reply(acquire("", "/repo/x")).refusal().code() == v1::Refusal::NOT_REGISTERED);
  CHECK(w.reply(release("", "/repo/x")).refusal().code() == v1::Refusal::NOT_REGISTERED);
  CHECK(w.reply(cancel("", "/repo/x")).refusal().code() == v1::Refusal::NOT_REGISTERED);
}

TEST_CASE("release hands over to the first in line in the same command") {
  domain_world w;
  auto a = w.session(), b = w.session(), c = w.session();
  auto fence = w.reply(acquire(a, "/repo/x")).lock().lock().fence();
  CHECK(w.reply(acquire(b, "/repo/x", {.wait_ms = 1000})).lock_waiting().position() == 1);
  CHECK(w.reply(acquire(c, "/repo/x", {.wait_ms = 1000})).lock_waiting().position() == 2);
  auto batch = w.run(release(a, "/repo/x"));
  CHECK(batch.reply().lock().released());
  CHECK(batch.reply().lock().handed_to() == b);
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().lock().lock().session_id() == b);
  CHECK(batch.resolved(0).reply().lock().lock().fence() > fence);
  CHECK(batch.resolved(0).reply().revision() == batch.reply().revision());
  CHECK(w.reply(acquire(a, "/repo/x")).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("an old fence cannot release what has passed on") {
  domain_world w;
  auto a = w.session(), b = w.session();
  auto fence = w.reply(acquire(a, "/repo/x")).lock().lock().fence();
  w.run(acquire(b, "/repo/x", {.wait_ms = 1000}));
  CHECK(w.reply(release(a, "/repo/x", fence + 1)).refusal().code() == v1::Refusal::STALE);
  CHECK(w.reply(release(a, "/repo/x", fence)).lock().released());
  CHECK(w.reply(release(a, "/repo/x", fence)).refusal().code() == v1::Refusal::STALE);
}

TEST_CASE("releasing nothing succeeds and says so") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/x"));
  for (const auto& r : {w.reply(release(b, "/repo/x")), w.reply(release(b, "/repo/y"))}) {
    CHECK_FALSE(r.has_refusal());
    CHECK_FALSE(r.lock().released());
  }
}

TEST_CASE("waiting in a circle is refused and the circle is named") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/x"));
  w.run(acquire(b, "/repo/y"));
  w.run(acquire(a, "/repo/y", {.wait_ms = 1000}));
  auto r = w.reply(acquire(b, "/repo/x", {.wait_ms = 1000}));
  CHECK(r.refusal().code() == v1::Refusal::DEADLOCK);
  CHECK(r.refusal().text().find(a) != std::string::npos);
  CHECK(r.refusal().text().find("/repo/x") != std::string::npos);
  CHECK(r.refusal().text().find("/repo/y") != std::string::npos);
}

TEST_CASE("a lock with a time to live passes on when it is over, not before the grace ends") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/x", {.ttl_ms = 1000}));
  CHECK(w.sweep().next_deadline_ms() == w.in.now_ms + 1000);
  w.pass(1000);
  w.in.grace_until_ms = w.in.now_ms + 10;
  CHECK(w.reply(acquire(b, "/repo/x")).refusal().code() == v1::Refusal::CONFLICT);
  w.pass(10);
  CHECK(w.reply(acquire(b, "/repo/x")).lock().lock().session_id() == b);
}

TEST_CASE("a cancelled wait is answered, and a cancel that comes too late shows the lock") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/x"));
  w.run(acquire(b, "/repo/x", {.wait_ms = 1000}));
  auto batch = w.run(cancel(b, "/repo/x"));
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().refusal().code() == v1::Refusal::STATE);
  w.run(acquire(b, "/repo/x", {.wait_ms = 1000}));
  w.run(release(a, "/repo/x"));
  CHECK(w.reply(cancel(b, "/repo/x")).lock().lock().session_id() == b);
}

TEST_CASE("a newer request of a waiting session keeps its place and answers the older one") {
  domain_world w;
  auto a = w.session(), b = w.session(), c = w.session();
  w.run(acquire(a, "/repo/x"));
  w.run(acquire(b, "/repo/x", {.wait_ms = 1000}));
  w.run(acquire(c, "/repo/x", {.wait_ms = 1000}));
  auto batch = w.run(acquire(b, "/repo/x", {.wait_ms = 2000}));
  CHECK(batch.reply().lock_waiting().position() == 1);
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().refusal().code() == v1::Refusal::STALE);
  CHECK(w.rows.all<v1::LockWaiter>().size() == 2);
}

TEST_CASE("a session waits for a bounded number of locks at a time") {
  domain_world w;
  auto a = w.session(), b = w.session();
  for (std::size_t i = 0; i < limits::session_locks_max(); ++i) {
    v1::LockWaiter place;
    place.set_scope("s");
    place.set_path("/elsewhere/" + std::to_string(i));
    place.set_seq(i + 1);
    place.set_session_id(b);
    place.set_deadline_ms(w.in.now_ms + 1000);
    w.rows.put(place);
  }
  w.run(acquire(a, "/repo/x"));
  CHECK(w.reply(acquire(b, "/repo/x", {.wait_ms = 1000})).refusal().code() == v1::Refusal::LIMIT);
  w.run(cancel(b, "/elsewhere/0"));
  CHECK(w.reply(acquire(b, "/repo/x", {.wait_ms = 1000})).has_lock_waiting());
  CHECK(w.reply(acquire(b, "/repo/x", {.wait_ms = 1000})).has_lock_waiting()); // in its place
}

TEST_CASE("locks of a session and places in a line are bounded") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/x"));
  for (int i = 0; i < 1024; ++i) {
    v1::Lock l;
    l.set_scope("s");
    l.set_session_id(b);
    l.set_path("/repo/many/" + std::to_string(i));
    w.rows.put(l);
  }
  CHECK(w.reply(acquire(b, "/repo/one-more")).refusal().code() == v1::Refusal::LIMIT);
  for (int i = 0; i < 256; ++i) {
    v1::LockWaiter l;
    l.set_scope("s");
    l.set_path("/repo/x");
    l.set_seq(static_cast<std::uint64_t>(i) + 1);
    l.set_session_id("w" + std::to_string(i));
    l.set_deadline_ms(w.in.now_ms + 5000);
    w.rows.put(l);
  }
  CHECK(w.reply(acquire(b, "/repo/x", {.wait_ms = 1000})).refusal().code() == v1::Refusal::LIMIT);
}

// -- against a naive model ---------------------------------------------------------------------------

namespace {

struct model_waiter {
  std::string who;
  std::uint64_t request;
  std::int64_t deadline, ttl;
};
struct model_lock {
  std::string holder; // empty = free
  std::int64_t deadline = 0;
  std::deque<model_waiter> line;
};

struct model {
  std::map<std::string, model_lock> locks;
  std::map<std::uint64_t, std::string> answers; // request → granted, timeout, cancelled, replaced, ended
  std::int64_t now = 0;

  void pass_on(model_lock& l) {
    l.holder.clear();
    l.deadline = 0;
    while (!l.line.empty() && l.holder.empty()) {
      auto w = l.line.front();
      l.line.pop_front();
      if (w.deadline <= now) {
        answers[w.request] = "timeout";
        continue;
      }
      answers[w.request] = "granted";
      l.holder = w.who;
      l.deadline = w.ttl > 0 ? now + w.ttl : 0;
    }
  }
  void settle(model_lock& l) {
    if (!l.holder.empty() && l.deadline != 0 && l.deadline <= now)
      pass_on(l);
  }
  /// Who would, in the end, wait for whom: the transitive closure by brute force.
  bool cyclic() const {
    std::map<std::string, std::set<std::string>> reach;
    for (const auto& [path, l] : locks)
      for (std::size_t i = 0; i < l.line.size(); ++i) {
        reach[l.line[i].who].insert(l.holder);
        for (std::size_t k = 0; k < i; ++k)
          reach[l.line[i].who].insert(l.line[k].who);
      }
    for (bool grown = true; grown;) {
      grown = false;
      for (auto& [who, targets] : reach)
        for (const auto& t : std::set<std::string>(targets))
          if (auto i = reach.find(t); i != reach.end())
            for (const auto& further : std::set<std::string>(i->second))
              grown = targets.insert(further).second || grown;
    }
    for (const auto& [who, targets] : reach)
      if (targets.count(who) > 0)
        return true;
    return false;
  }
  /// A refused command changes nothing, not even what it found to be over.
  std::string acquire(const std::string& who, const std::string& path, const wish& w, std::uint64_t request) {
    auto before = *this;
    auto got = try_acquire(who, path, w, request);
    if (got == "conflict" || got == "deadlock")
      *this = before;
    return got;
  }
  std::string try_acquire(const std::string& who, const std::string& path, const wish& w, std::uint64_t request) {
    auto& l = locks[path];
    settle(l);
    if (l.holder.empty() || (l.holder == who && !w.exclusive)) {
      l.holder = who;
      l.deadline = w.ttl_ms > 0 ? now + w.ttl_ms : 0;
      return "granted";
    }
    if (l.holder == who || w.wait_ms == 0)
      return "conflict";
    auto mine = std::find_if(l.line.begin(), l.line.end(), [&](const auto& x) { return x.who == who; });
    if (mine != l.line.end()) {
      answers[mine->request] = "replaced";
      *mine = {who, request, now + w.wait_ms, w.ttl_ms};
      return "waiting";
    }
    l.line.push_back({who, request, now + w.wait_ms, w.ttl_ms});
    if (!cyclic())
      return "waiting";
    l.line.pop_back();
    return "deadlock";
  }
  void end(const std::string& who) {
    for (auto& [path, l] : locks)
      for (std::size_t i = 0; i < l.line.size();)
        if (l.line[i].who == who) {
          answers[l.line[i].request] = "ended";
          l.line.erase(l.line.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
    for (auto& [path, l] : locks)
      if (l.holder == who)
        pass_on(l);
  }
  void sweep() {
    for (auto& [path, l] : locks)
      settle(l);
    for (auto& [path, l] : locks)
      std::erase_if(l.line, [&](const auto& w) {
        if (w.deadline > now)
          return false;
        answers[w.request] = "timeout";
        return true;
      });
  }
};

std::string outcome(const v1::Reply& r) {
  switch (r.refusal().code()) {
    case v1::Refusal::CONFLICT: return "conflict";
    case v1::Refusal::DEADLOCK: return "deadlock";
    case v1::Refusal::TIMEOUT: return "timeout";
    case v1::Refusal::STATE: return "cancelled";
    case v1::Refusal::STALE: return "replaced";
    case v1::Refusal::NOT_REGISTERED: return "ended";
    default: return r.has_lock_waiting() ? "waiting" : r.lock().has_lock() ? "granted" : "other";
  }
}

struct lock_run {
  domain_world w;
  model m;
  std::mt19937_64 random;
  std::vector<std::string> who;
  std::map<std::uint64_t, std::string> answers;
  std::set<std::uint64_t> waiting;
  std::uint64_t newest_fence = 0;

  explicit lock_run(std::uint64_t seed) : w(seed), random(seed) {
    for (int i = 0; i < 4; ++i)
      who.push_back(w.session());
  }
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  v1::Batch run(const v1::Command& cmd) {
    m.now = w.in.now_ms;
    auto batch = w.run(cmd);
    std::vector<std::uint64_t> fences;
    for (const auto& p : batch.patches())
      if (p.has_lock())
        fences.push_back(p.lock().fence());
    std::sort(fences.begin(), fences.end());
    for (auto f : fences) {
      CHECK(f > newest_fence);
      newest_fence = f;
    }
    for (const auto& r : batch.resolved()) {
      CHECK(waiting.erase(r.request().seq()) == 1);
      answers[r.request().seq()] = outcome(r.reply());
    }
    return batch;
  }
  void compare() {
    std::map<std::string, std::string> holders, expected;
    std::map<std::string, std::vector<std::string>> lines, expected_lines;
    for (const auto& [k, l] : w.rows.all<v1::Lock>())
      holders[l.path()] = l.session_id();
    for (const auto& [k, x] : w.rows.all<v1::LockWaiter>())
      lines[x.path()].push_back(x.session_id());
    for (const auto& [path, l] : m.locks) {
      if (!l.holder.empty())
        expected[path] = l.holder;
      for (const auto& x : l.line)
        expected_lines[path].push_back(x.who);
    }
    CHECK(holders == expected);
    CHECK(lines == expected_lines);
    CHECK(answers == m.answers);
    CHECK_FALSE(m.cyclic());
    CHECK(waiting.size() == w.rows.all<v1::LockWaiter>().size());
  }
  void step() {
    auto& me = who[pick(who.size())];
    auto path = std::string("/repo/") + "xyz"[pick(3)];
    auto dice = pick(100);
    if (dice < 55) {
      wish x{.wait_ms = pick(3) == 0 ? 0 : 50 + static_cast<std::int64_t>(pick(300)),
             .ttl_ms = pick(4) == 0 ? 20 + static_cast<std::int64_t>(pick(100)) : 0,
             .exclusive = pick(6) == 0};
      auto got = outcome(run(acquire(me, path, x)).reply());
      CHECK(got == m.acquire(me, path, x, w.in.request.seq()));
      if (got == "waiting")
        waiting.insert(w.in.request.seq());
    } else if (dice < 80) {
      run(release(me, path));
      auto& l = m.locks[path];
      m.settle(l);
      if (l.holder == me)
        m.pass_on(l);
    } else if (dice < 85) {
      run(cancel(me, path));
      std::erase_if(m.locks[path].line, [&](const auto& x) {
        if (x.who == me)
          m.answers[x.request] = "cancelled";
        return x.who == me;
      });
    } else if (dice < 88) {
      auto cmd = domain_world::command(me);
      cmd.mutable_deregister_session();
      run(cmd);
      m.end(me);
      me = w.session();
    } else if (dice < 95) {
      w.pass(static_cast<std::int64_t>(pick(60)));
    } else {
      auto cmd = domain_world::by(v1::Principal::NODE);
      cmd.mutable_sweep()->set_mode("periodic");
      run(cmd);
      m.sweep();
    }
  }
};

} // namespace

TEST_CASE("locks behave like a naive model: one holder, growing fences, first come first served, nobody forgotten, no circles") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    lock_run r(seed);
    for (int i = 0; i < 120; ++i) {
      CAPTURE(i);
      r.step();
      r.compare();
    }
  }
}
