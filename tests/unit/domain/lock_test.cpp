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

TEST_CASE("the home gives back a lock of a session of another host by its row, and its operator does not take it for a file here") {
  domain_world w;
  auto registers = domain_world::registration("name:b", 200);
  registers.mutable_register_session()->set_node_id("node-2");
  const auto b = w.reply(registers).session().session().id();
  auto there = acquire(b, "/repo/x");
  there.mutable_principal()->set_node("node-2");
  const auto fence = w.reply(there).lock().lock().fence();
  CHECK(w.reply(release(b, "/repo/x")).refusal().code() == v1::Refusal::STATE);
  auto by_home = release(b, "/repo/x", fence);
  by_home.mutable_principal()->set_kind(v1::Principal::NODE);
  CHECK(w.reply(by_home).lock().released());
}

TEST_CASE("a held lock is refused with swarm-mcp's text and who holds it") {
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

TEST_CASE("a session without an identity keeps nobody from locking, and nobody keeps it, unless the configuration draws that boundary") {
  for (auto strict : {false, true}) {
    CAPTURE(strict);
    domain_world w;
    w.in.identity_boundary = strict;
    auto plain = w.session("role:terminal"), agent = w.session("identity:work role:implementer");
    auto of_plain = w.reply(acquire(plain, "/repo/x"));
    auto of_agent = w.reply(acquire(agent, "/repo/y"));
    CHECK(of_plain.has_refusal() == strict);
    CHECK(of_agent.has_refusal() == strict);
    if (!strict)
      continue;
    const auto& why = of_agent.refusal().explanation();
    for (const auto& part :
         {std::string{"/repo/y"}, plain.substr(0, 8), std::string{"(role:terminal), which has no identity; you are identity:work."}})
      CHECK_MESSAGE(why.find(part) != std::string::npos, why);
    CHECK(of_agent.refusal().text() == "Cannot lock a path owned by another identity");
  }
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

TEST_CASE("a lock on a directory covers what is below it, and nothing else") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/src"));
  for (auto path : {"/repo/src", "/repo/src/x", "/repo/src/deep/x", "/repo", "/"}) {
    CAPTURE(path);
    auto r = w.reply(acquire(b, path));
    CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
    CHECK(r.lock().active().lock().path() == "/repo/src");
    CHECK_FALSE(w.reply(acquire(a, path)).has_refusal()); // its own locks are in nobody's way
    w.run(release(a, path));
    w.run(acquire(a, "/repo/src"));
  }
  for (auto path : {"/repo/src2", "/repo/a", "/rep", "relative/x", "/__swarm/repo/src"}) {
    CAPTURE(path);
    CHECK(w.reply(acquire(b, path)).has_lock());
    w.run(release(b, path));
  }
  CHECK(w.reply(acquire(b, "/repo/a")).has_lock());
  CHECK(w.reply(acquire(a, "/repo")).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("paths of a shared scope are below its root, and the fabric's names are below nothing") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "."));
  CHECK(w.reply(acquire(b, "src/x")).refusal().code() == v1::Refusal::CONFLICT);
  CHECK(w.reply(acquire(b, "/elsewhere")).has_lock());
  CHECK(w.reply(acquire(a, "/__swarm/role")).has_lock());
  CHECK(w.reply(acquire(b, "/__swarm/role/planner")).has_lock());
  w.run(release(a, "."));
  w.run(acquire(b, "src/x"));
  CHECK(w.reply(acquire(a, ".")).refusal().code() == v1::Refusal::CONFLICT);
  CHECK(w.reply(acquire(a, "src")).refusal().code() == v1::Refusal::CONFLICT);
}

TEST_CASE("who waits for a directory waits for all that is held below, and others do not slip in before") {
  domain_world w;
  auto a = w.session(), b = w.session(), c = w.session(), d = w.session();
  w.run(acquire(a, "/repo/src/x"));
  w.run(acquire(b, "/repo/src/y"));
  CHECK(w.reply(acquire(c, "/repo/src", {.wait_ms = 1000})).lock_waiting().position() == 1);
  // It is free, and promised.
  auto r = w.reply(acquire(d, "/repo/src/z"));
  CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
  CHECK(r.lock().active().lock().session_id() == c);
  CHECK(r.lock().active().lock().path() == "/repo/src");
  CHECK(w.reply(acquire(d, "/repo/src/z", {.wait_ms = 1000})).lock_waiting().position() == 2);
  CHECK(w.run(release(a, "/repo/src/x")).resolved_size() == 0);
  auto batch = w.run(release(b, "/repo/src/y"));
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().lock().lock().session_id() == c);
  batch = w.run(release(c, "/repo/src"));
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().lock().lock().session_id() == d);
}

TEST_CASE("who leaves the line lets those behind it through") {
  for (auto way : {"cancel", "timeout", "end"}) {
    CAPTURE(way);
    domain_world w;
    auto a = w.session(), b = w.session(), c = w.session();
    w.run(acquire(a, "/repo/src/x"));
    w.run(acquire(b, "/repo/src", {.wait_ms = 1000}));
    w.run(acquire(c, "/repo/src/y", {.wait_ms = 5000}));
    auto batch = [&] {
      if (way == std::string{"cancel"})
        return w.run(cancel(b, "/repo/src"));
      auto by = way == std::string{"end"} ? domain_world::command(b) : domain_world::by(v1::Principal::NODE);
      if (way == std::string{"end"}) {
        by.mutable_deregister_session();
      } else {
        w.pass(2000);
        by.mutable_sweep()->set_mode("periodic");
      }
      return w.run(by);
    }();
    REQUIRE(batch.resolved_size() == 2);
    CHECK(batch.resolved(1).reply().lock().lock().session_id() == c);
  }
}

TEST_CASE("nobody in a line is forgotten, however many get a lock at once, and a sweep never asks for more than fits") {
  const std::string note(limits::note_bytes_max(), 'n');
  for (auto way : {"release", "timeout", "end"}) {
    CAPTURE(way);
    domain_world w;
    auto a = w.session(), b = w.session();
    w.run(acquire(a, "/repo/d"));
    if (way != std::string{"release"})
      w.run(acquire(b, "/repo", {.wait_ms = 1000}));
    constexpr int waiters = 40;
    for (int i = 0; i < waiters; ++i) {
      auto cmd = acquire(w.session(), "/repo/d/f" + std::to_string(i), {.wait_ms = 100'000});
      cmd.mutable_acquire_lock()->set_note(note);
      REQUIRE(w.reply(cmd).has_lock_waiting());
    }
    if (way == std::string{"timeout"})
      w.pass(2000);
    if (way == std::string{"end"}) {
      auto cmd = domain_world::command(b);
      cmd.mutable_deregister_session();
      REQUIRE_FALSE(w.reply(cmd).has_refusal());
    }
    REQUIRE_FALSE(w.reply(release(a, "/repo/d")).has_refusal());
    for (int sweeps = 0; w.rows.all<v1::LockWaiter>().size() > 0 && sweeps < waiters; ++sweeps) {
      auto cmd = domain_world::by(v1::Principal::NODE);
      cmd.mutable_sweep()->set_mode("periodic");
      auto swept = w.reply(cmd);
      REQUIRE_FALSE(swept.has_refusal());
      CHECK(swept.sweep().more() == !w.rows.all<v1::LockWaiter>().empty());
    }
    CHECK(w.rows.all<v1::Lock>().size() == waiters);
  }
}

TEST_CASE("what is over makes nobody wait, and no circle") {
  domain_world w;
  auto a = w.session(), b = w.session();
  w.run(acquire(a, "/repo/1", {.ttl_ms = 10}));
  w.run(acquire(b, "/repo/2"));
  w.run(acquire(b, "/repo/1", {.wait_ms = 1000}));
  w.pass(20);
  CHECK(w.reply(acquire(a, "/repo/2", {.wait_ms = 1000})).has_lock_waiting());
}

TEST_CASE("a refusal shows no grant that goes with it") {
  domain_world w;
  auto a = w.session(), b = w.session(), c = w.session();
  w.run(acquire(a, "/repo/x", {.ttl_ms = 10}));
  w.run(acquire(b, "/repo/x", {.wait_ms = 1000}));
  w.pass(20);
  auto r = w.reply(acquire(c, "/repo/x"));
  CHECK(r.refusal().code() == v1::Refusal::CONFLICT);
  CHECK(r.lock().active().lock().session_id() == b);
  CHECK(r.lock().active().lock().id().empty());
  CHECK(r.lock().active().lock().fence() == 0);
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
  std::string who, path;
  std::uint64_t request;
  std::int64_t deadline, ttl;
};
struct model_lock {
  std::string holder;
  std::int64_t deadline = 0;
};

/// A directory and what is below it; the fabric's own names are no paths.
bool in_conflict(const std::string& path_a, const std::string& path_b) {
  auto below = [](const std::string& top, const std::string& path) { return (path + "/").starts_with(top + "/"); };
  auto is_name = [](const std::string& path) { return path.starts_with("/__swarm/"); };
  return path_a == path_b || (!is_name(path_a) && !is_name(path_b) && (below(path_a, path_b) || below(path_b, path_a)));
}

struct model {
  std::map<std::string, model_lock> held;
  std::vector<model_waiter> line;               // in the order in which they came
  std::map<std::uint64_t, std::string> answers; // request → granted, timeout, cancelled, replaced, ended
  std::int64_t now = 0;

  bool is_blocked(const std::string& who, const std::string& path) const {
    return std::any_of(held.begin(), held.end(), [&](const auto& h) { return h.second.holder != who && in_conflict(h.first, path); });
  }
  /// Somebody among the first `n` in the line waits for what conflicts.
  bool is_behind(std::size_t n, const std::string& who, const std::string& path) const {
    return std::any_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(n),
                       [&](const auto& w) { return w.who != who && in_conflict(w.path, path); });
  }
  void pass_on(std::vector<std::string> freed) {
    for (std::size_t k = 0; k < freed.size(); ++k) {
      const auto at = freed[k];
      for (std::size_t i = 0; i < line.size();) {
        const auto w = line[i];
        auto over = w.deadline <= now;
        if (!in_conflict(w.path, at) || (!over && (is_blocked(w.who, w.path) || is_behind(i, w.who, w.path)))) {
          ++i;
          continue;
        }
        answers[w.request] = over ? "timeout" : "granted";
        line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
        if (over)
          freed.push_back(w.path);
        else
          held[w.path] = {w.who, w.ttl > 0 ? now + w.ttl : 0};
      }
    }
  }
  template <class Which>
  void free_all(Which which) {
    std::vector<std::string> freed;
    std::erase_if(held, [&](const auto& h) {
      if (which(h.first, h.second))
        freed.push_back(h.first);
      return which(h.first, h.second);
    });
    pass_on(freed);
  }
  bool has_lapsed(const model_lock& l) const { return l.deadline != 0 && l.deadline <= now; }
  void settle(const std::string& path) {
    auto is_free = std::none_of(held.begin(), held.end(), [&](const auto& h) { return in_conflict(h.first, path); });
    free_all([&](const auto& p, const auto& l) { return in_conflict(p, path) && has_lapsed(l); });
    if (is_free)
      pass_on({path});
  }
  void release(const std::string& who, const std::string& path) {
    settle(path);
    free_all([&](const auto& p, const auto& l) { return p == path && l.holder == who; });
  }
  template <class Which>
  std::vector<std::string> leave(const char* answer, Which which) {
    std::vector<std::string> left;
    std::erase_if(line, [&](const auto& w) {
      if (!which(w))
        return false;
      answers[w.request] = answer;
      left.push_back(w.path);
      return true;
    });
    return left;
  }
  void cancel(const std::string& who, const std::string& path) {
    pass_on(leave("cancelled", [&](const auto& w) { return w.who == who && w.path == path; }));
  }
  /// Who would, in the end, wait for whom: the transitive closure by brute force.
  bool cyclic() const {
    std::map<std::string, std::set<std::string>> reach;
    for (std::size_t i = 0; i < line.size(); ++i) {
      for (const auto& [path, l] : held)
        if (l.holder != line[i].who && in_conflict(path, line[i].path) && !has_lapsed(l))
          reach[line[i].who].insert(l.holder);
      for (std::size_t k = 0; k < i; ++k)
        if (line[k].who != line[i].who && in_conflict(line[k].path, line[i].path) && line[k].deadline > now)
          reach[line[i].who].insert(line[k].who);
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
    settle(path);
    auto i = held.find(path);
    bool mine = i != held.end() && i->second.holder == who;
    bool covered = std::any_of(held.begin(), held.end(),
                               [&](const auto& h) { return h.second.holder == who && in_conflict(h.first, path) && h.first.size() <= path.size(); });
    if (mine ? !w.exclusive : !is_blocked(who, path) && (covered || !is_behind(line.size(), who, path))) {
      held[path] = {who, w.ttl_ms > 0 ? now + w.ttl_ms : 0};
      return "granted";
    }
    if (mine || w.wait_ms == 0)
      return "conflict";
    auto place = std::find_if(line.begin(), line.end(), [&](const auto& x) { return x.who == who && x.path == path; });
    if (place != line.end() && place->deadline <= now) {
      answers[place->request] = "timeout";
      line.erase(place);
      pass_on({path});
    } else if (place != line.end()) {
      answers[place->request] = "replaced";
      *place = {who, path, request, now + w.wait_ms, w.ttl_ms};
      return "waiting";
    }
    line.push_back({who, path, request, now + w.wait_ms, w.ttl_ms});
    if (!cyclic())
      return "waiting";
    line.pop_back();
    return "deadlock";
  }
  void end(const std::string& who) {
    pass_on(leave("ended", [&](const auto& w) { return w.who == who; }));
    free_all([&](const auto&, const auto& l) { return l.holder == who; });
  }
  void sweep() {
    free_all([&](const auto&, const auto& l) { return has_lapsed(l); });
    pass_on(leave("timeout", [&](const auto& w) { return w.deadline <= now; }));
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
  std::vector<std::string> paths;

  lock_run(std::uint64_t seed, std::vector<std::string> all) : w(seed), random(seed), paths(std::move(all)) {
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
    for (const auto& [path, l] : m.held)
      expected[path] = l.holder;
    for (const auto& x : m.line)
      expected_lines[x.path].push_back(x.who);
    CHECK(holders == expected);
    CHECK(lines == expected_lines);
    CHECK(answers == m.answers);
    CHECK_FALSE(m.cyclic());
    CHECK(waiting.size() == w.rows.all<v1::LockWaiter>().size());
  }
  void step() {
    auto& me = who[pick(who.size())];
    auto path = paths[pick(paths.size())];
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
      m.release(me, path);
    } else if (dice < 85) {
      run(cancel(me, path));
      m.cancel(me, path);
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

namespace {

void compare_runs(const std::vector<std::string>& paths) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    lock_run r(seed, paths);
    for (int i = 0; i < 120; ++i) {
      CAPTURE(i);
      r.step();
      r.compare();
    }
  }
}

} // namespace

TEST_CASE("locks behave like a naive model: one holder, growing fences, first come first served, nobody forgotten, no circles") {
  compare_runs({"/repo/x", "/repo/y", "/repo/z"});
}

TEST_CASE("locks on directories behave like the naive model, too: a directory and what is below it have one holder") {
  compare_runs({"/repo", "/repo/d", "/repo/d/x", "/repo/d/y", "/repo/d2", "/repo/e/x"});
}

TEST_CASE("a file is not locked by the name that it has in a checkout of another host") {
  domain_world w;
  auto register_on = [&](const std::string& node, const std::string& checkout) {
    auto cmd = domain_world::registration("name:" + node, node == "node-1" ? 7 : 8);
    cmd.set_scope("game");
    cmd.mutable_register_session()->set_node_id(node);
    cmd.mutable_register_session()->set_node_name(node);
    cmd.mutable_register_session()->set_directory(checkout);
    cmd.mutable_register_session()->set_checkout(checkout);
    return w.reply(cmd).session().session().id();
  };
  const auto ann = register_on("node-1", "/src/ga");
  register_on("node-b", "/src/gb");
  auto acquire = [&](const std::string& path) {
    auto cmd = domain_world::command(ann);
    cmd.set_scope("game");
    cmd.mutable_acquire_lock()->set_path(path);
    return w.reply(cmd);
  };
  const auto refused = acquire("/src/gb/src/x.c").refusal();
  CHECK(refused.code() == v1::Refusal::STATE);
  CHECK_MESSAGE(refused.text().find("On host node-b it is src/x.c of the checkout /src/gb") != std::string::npos, refused.text());
  CHECK_FALSE(acquire("src/x.c").has_refusal());
  CHECK_FALSE(acquire("/src/elsewhere/x.c").has_refusal());
  auto release = domain_world::command(ann);
  release.set_scope("game");
  release.mutable_release_lock()->set_path("/src/gb/src/y.c");
  CHECK(w.reply(release).refusal().code() == v1::Refusal::STATE);
}
