// The checker must accept what an object could have done and reject what it could not: a checker that accepts all is decoration.
#include <random>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/history.hpp"

using namespace swarm::history;

namespace {

struct script {
  std::vector<operation> ops;
  std::string model;

  explicit script(std::string m) : model(std::move(m)) {}
  script& did(std::int64_t from, std::int64_t to, call in, answer out) {
    ops.push_back({model, "x", std::move(in), std::move(out), from, to});
    return *this;
  }
  script& lost(std::int64_t from, call in) {
    ops.push_back({model, "x", std::move(in), std::nullopt, from, never});
    return *this;
  }
  script& maybe(std::int64_t from, std::int64_t to, call in) {
    ops.push_back({model, "x", std::move(in), std::nullopt, from, to});
    return *this;
  }
  bool explained() const { return check_all(ops).accepted; }
};

call acquire(const std::string& who) { return {"acquire", who, "", 0}; }
call release(const std::string& who, std::uint64_t fence = 0) { return {"release", who, "", fence}; }
call claim(const std::string& who) { return {"claim", who, "", 0}; }
call complete(const std::string& who, std::uint64_t fence = 0) { return {"complete", who, "", fence}; }
call request() { return {"request", "", "", 0}; }
call set(const std::string& v) { return {"set", "", v, 0}; }
call cas(const std::string& v, std::uint64_t expected) { return {"cas", "", v, expected}; }
call get() { return {"get", "", "", 0}; }
call send() { return {"send", "", "", 0}; }
answer yes(std::uint64_t n = 0, std::string text = {}) { return {true, std::move(text), n}; }
answer no() { return {false, "", 0}; }

} // namespace

TEST_CASE("a lock that passes from one holder to the next is explained") {
  CHECK(script("lock")
          .did(1, 2, acquire("a"), yes(3))
          .did(3, 4, acquire("b"), no())
          .did(5, 6, release("a", 3), yes(3))
          .did(7, 8, acquire("b"), yes(4))
          .explained());
}

TEST_CASE("two holders of one lock at once are rejected") {
  CHECK_FALSE(script("lock").did(1, 2, acquire("a"), yes(3)).did(3, 4, acquire("b"), yes(4)).explained());
}

TEST_CASE("two grants are explained when a release overlaps them, and rejected when it came after both") {
  CHECK(script("lock").did(1, 2, acquire("a"), yes(3)).did(3, 9, release("a", 3), yes(3)).did(4, 8, acquire("b"), yes(4)).explained());
  CHECK_FALSE(script("lock").did(1, 2, acquire("a"), yes(3)).did(4, 8, acquire("b"), yes(4)).did(9, 10, release("a", 3), yes(3)).explained());
}

TEST_CASE("a fence that does not grow is rejected, also across a grant nobody heard of") {
  CHECK_FALSE(script("lock").did(1, 2, acquire("a"), yes(5)).did(3, 4, release("a"), yes(5)).did(5, 6, acquire("b"), yes(5)).explained());
  CHECK_FALSE(script("lock").lost(1, acquire("a")).did(2, 3, release("a"), yes(5)).did(5, 6, acquire("b"), yes(4)).explained());
}

TEST_CASE("a refusal of a free lock is rejected, and explained when an unknown grant may have held it") {
  CHECK_FALSE(script("lock").did(1, 2, acquire("a"), no()).explained());
  CHECK(script("lock").lost(1, acquire("b")).did(2, 3, acquire("a"), no()).explained());
  CHECK_FALSE(script("lock").did(2, 3, acquire("a"), no()).lost(4, acquire("b")).explained());
}

TEST_CASE("a release that may have happened explains nothing of what began after it was over") {
  auto granted_twice = [](std::int64_t over) {
    return script("lock").did(1, 2, acquire("a"), yes(3)).maybe(3, over, release("a")).did(5, 6, acquire("b"), yes(4));
  };
  CHECK(granted_twice(4).explained());
  CHECK(granted_twice(never).explained());
  CHECK(script("lock").did(1, 2, acquire("a"), yes(3)).maybe(3, 4, release("a")).did(5, 6, acquire("b"), no()).explained());
  CHECK_FALSE(script("lock").maybe(1, 2, release("a")).did(3, 4, acquire("a"), yes(3)).did(5, 6, acquire("b"), yes(4)).explained());
  CHECK(script("lock").maybe(1, never, release("a")).did(3, 4, acquire("a"), yes(3)).did(5, 6, acquire("b"), yes(4)).explained());
}

TEST_CASE("an answered grant that is forgotten is rejected") {
  CHECK_FALSE(script("lock").did(1, 2, acquire("a"), yes(3)).did(3, 4, release("a", 3), no()).explained());
}

TEST_CASE("a task with one claimant who completes it once is explained") {
  CHECK(script("task")
          .did(1, 5, claim("a"), yes(2))
          .did(2, 6, claim("b"), no())
          .did(7, 8, complete("a", 2), yes())
          .did(9, 10, complete("a", 2), no())
          .explained());
}

TEST_CASE("a task claimed twice, completed twice or forgotten is rejected") {
  CHECK_FALSE(script("task").did(1, 5, claim("a"), yes(2)).did(2, 6, claim("b"), yes(3)).explained());
  CHECK_FALSE(script("task").did(1, 2, claim("a"), yes(2)).did(3, 4, complete("a", 2), yes()).did(5, 6, complete("a", 2), yes()).explained());
  CHECK_FALSE(script("task").did(1, 2, claim("a"), yes(2)).did(3, 4, get(), {true, "open", 0}).explained());
}

TEST_CASE("a completion by somebody else is rejected") {
  CHECK_FALSE(script("task").did(1, 2, claim("a"), yes(2)).did(3, 4, complete("b"), yes()).explained());
}

TEST_CASE("all requests of a key are told the same, and exactly one of them made it") {
  CHECK(script("key").did(1, 4, request(), yes(1, "s")).did(2, 3, request(), yes(0, "s")).explained());
  CHECK_FALSE(script("key").did(1, 2, request(), yes(0, "s")).did(3, 4, request(), yes(0, "t")).explained());
  CHECK_FALSE(script("key").did(1, 2, request(), yes(0, "s")).did(3, 4, request(), yes(1, "t")).explained());
  CHECK_FALSE(script("key").did(1, 2, request(), yes(1, "s")).explained());
  CHECK(script("key").lost(1, request()).did(2, 3, request(), yes(1, "s")).did(4, 5, request(), yes(1, "s")).explained());
}

TEST_CASE("a register read after a write must show it") {
  CHECK(script("kv").did(1, 2, set("x"), yes(4)).did(3, 4, get(), yes(4, "x")).explained());
  CHECK_FALSE(script("kv").did(1, 2, set("x"), yes(4)).did(3, 4, get(), yes(0, "")).explained());
  CHECK_FALSE(script("kv").did(1, 2, set("x"), yes(4)).did(3, 4, set("y"), yes(5)).did(5, 6, get(), yes(4, "x")).explained());
}

TEST_CASE("of two compare-and-sets of one revision only one may win") {
  CHECK(script("kv").did(1, 2, set("x"), yes(4)).did(3, 6, cas("a", 4), yes(5)).did(4, 5, cas("b", 4), no()).explained());
  CHECK_FALSE(script("kv").did(1, 2, set("x"), yes(4)).did(3, 6, cas("a", 4), yes(5)).did(4, 5, cas("b", 4), yes(6)).explained());
  CHECK_FALSE(script("kv").did(1, 2, set("x"), yes(4)).did(3, 4, cas("a", 4), no()).explained());
}

TEST_CASE("a write of unknown outcome may show at any later moment, but not go away again") {
  CHECK(script("kv").lost(1, set("x")).did(2, 3, get(), yes(0, "")).did(4, 5, get(), yes(7, "x")).explained());
  CHECK_FALSE(script("kv").lost(1, set("x")).did(2, 3, get(), yes(7, "x")).did(4, 5, get(), yes(0, "")).explained());
}

TEST_CASE("a repeated request must get the first answer, whether grant or refusal") {
  CHECK(script("dedup").did(1, 2, send(), yes(3)).did(3, 4, send(), yes(3)).explained());
  CHECK_FALSE(script("dedup").did(1, 2, send(), yes(3)).did(3, 4, send(), yes(4)).explained());
  CHECK_FALSE(script("dedup").did(1, 2, send(), no()).did(3, 4, send(), yes(4)).explained());
}

TEST_CASE("appends must stand once each and where they were acknowledged") {
  auto h = script("append").did(1, 2, {"append", "", "p", 0}, yes(1)).lost(3, {"append", "", "q", 0}).did(4, 5, {"append", "", "r", 0}, yes(3)).ops;
  CHECK(check_appends(h, {"p", "q", "r"}) == "");
  CHECK(check_appends(h, {"p", "r"}) != "");
  CHECK(check_appends(h, {"q", "p", "r"}) != "");
  CHECK(check_appends(h, {"p", "q", "r", "q"}) != "");
  CHECK(check_appends(h, {"p", "q", "r", "s"}) != "");
  h.back().out = no();
  CHECK(check_appends(h, {"p", "q", "r"}) != "");
}

TEST_CASE("a history of an unknown model or operation is not accepted by accident") {
  CHECK_THROWS(check_all(script("lok").did(1, 2, acquire("a"), yes(1)).ops));
  CHECK_FALSE(script("lock").did(1, 2, {"aquire", "a", "", 0}, yes(1)).explained());
}

TEST_CASE("a search that runs out of budget counts as rejected") {
  script s("lock");
  for (int i = 0; i < 8; ++i)
    s.lost(i, acquire("u" + std::to_string(i))).lost(i, release("u" + std::to_string(i)));
  s.did(20, 21, acquire("a"), yes(3)).did(22, 23, acquire("b"), yes(4));
  auto v = check<lock_model>(s.ops, 50);
  CHECK(v.exhausted);
  CHECK_FALSE(v.accepted);
}

TEST_CASE("what a recorder wrote is read back as it was, unknown outcomes included") {
  auto path = "/tmp/swarm-history-" + std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id())) + ".jsonl";
  recorder r(path);
  auto a = r.invoke("lock", "/p", acquire("a"));
  auto b = r.invoke("lock", "/p", acquire("b"));
  auto c = r.invoke("kv", "k", set("\"quoted\"\n"));
  r.ok(a, "t", 7);
  r.unknown(b);
  r.over(b);
  r.fail(c, "why");
  std::ifstream in(path);
  auto out = read(in);
  std::remove(path.c_str());
  REQUIRE(out.size() == 3);
  auto kept = r.operations();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(out[i].called == kept[i].called);
    CHECK(out[i].returned == kept[i].returned);
    CHECK(out[i].in.text == kept[i].in.text);
    CHECK(out[i].out.has_value() == kept[i].out.has_value());
  }
  CHECK(out[0].out->number == 7);
  CHECK_FALSE(out[1].out);
  std::istringstream junk("{\"type\":\"ok\",\"id\":9}\n");
  CHECK_THROWS(read(junk));
}

namespace {

/// A lock under four clients that lose calls and answers. The seed says who takes the next step: a call begins, takes effect, or is over, so
/// that calls overlap on every machine alike. `granted_twice` plants the fault.
std::vector<operation> lock_run(unsigned seed, bool granted_twice) {
  struct client {
    std::string name;
    int calls_left = 30;
    std::optional<std::size_t> id = std::nullopt; // of the call under way
    bool acquires = false;
    bool arrived = false;
    std::optional<answer> out = std::nullopt; // none: the call was lost on its way
  };
  recorder r;
  std::mt19937 rng(seed);
  std::string holder;
  std::uint64_t fence = 0;
  std::vector<client> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back({"c" + std::to_string(i)});
  auto decide = [&](const client& c) -> answer {
    if (c.acquires) {
      if (!holder.empty() && !(granted_twice && rng() % 8 == 0))
        return no();
      holder = c.name;
      return yes(++fence);
    }
    if (holder != c.name)
      return no();
    holder.clear();
    return yes(fence);
  };
  auto is_lost = [&](unsigned one_in) { return rng() % one_in == 0; };
  auto step = [&](client& c) {
    if (!c.id) {
      c.acquires = rng() % 2 == 0;
      c.id = r.invoke("lock", "x", c.acquires ? acquire(c.name) : release(c.name));
    } else if (!c.arrived) {
      c.arrived = true;
      if (!is_lost(32))
        c.out = decide(c);
    } else {
      if (!c.out || is_lost(16))
        r.unknown(*c.id);
      else if (c.out->ok)
        r.ok(*c.id, "", c.out->number);
      else
        r.fail(*c.id);
      c = {c.name, c.calls_left - 1};
    }
  };
  while (!clients.empty()) {
    auto& next = clients[rng() % clients.size()];
    step(next);
    std::erase_if(clients, [](const client& c) { return c.calls_left == 0; });
  }
  return r.operations();
}

} // namespace

TEST_CASE("concurrent runs of a right lock that lose answers are accepted, those of one that grants twice are rejected") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto good = check_all(lock_run(seed, false));
    CHECK_MESSAGE(good.accepted, good.why);
    CHECK_FALSE(check_all(lock_run(seed, true)).accepted);
  }
}

TEST_CASE("an approval is decided once, by one, and everybody who looks sees that") {
  const call allow{"decide", "a", "allow", 0}, deny{"decide", "b", "deny", 0};
  auto end = [](const char* text) { return yes(0, text); };
  CHECK(
    script("approval").did(1, 2, get(), end("open")).did(3, 4, allow, end("allow")).did(5, 6, deny, no()).did(7, 8, get(), end("allow")).explained());
  CHECK(script("approval").did(1, 4, allow, no()).did(2, 3, deny, end("deny")).explained());
  CHECK_FALSE(script("approval").did(1, 4, allow, end("allow")).did(2, 3, deny, end("deny")).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, end("deny")).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, no()).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, end("allow")).did(3, 4, get(), end("open")).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, end("allow")).did(3, 4, get(), end("deny")).explained());
}

TEST_CASE("a decision nobody heard of may be the one, and is never another one later") {
  const call allow{"decide", "a", "allow", 0}, deny{"decide", "b", "deny", 0};
  CHECK(script("approval").lost(1, allow).did(2, 3, deny, no()).did(4, 5, get(), yes(0, "allow")).explained());
  CHECK(script("approval").lost(1, allow).did(2, 3, deny, yes(0, "deny")).did(4, 5, get(), yes(0, "deny")).explained());
  CHECK_FALSE(script("approval").lost(1, allow).did(2, 3, deny, no()).did(4, 5, get(), yes(0, "open")).explained());
  CHECK_FALSE(script("approval").lost(1, allow).did(2, 3, deny, yes(0, "deny")).did(4, 5, get(), yes(0, "allow")).explained());
}

TEST_CASE("nothing is decided after its deadline, nor when it was withdrawn, and a withdrawal of what is decided changes nothing") {
  const call allow{"decide", "a", "allow", 0}, expire{"expire", "", "", 0}, withdraw{"withdraw", "c", "", 0};
  const auto decided = yes(0, "allow");
  // While the deadline passes either is right.
  CHECK(script("approval").did(3, 6, expire, yes()).did(4, 5, allow, decided).did(7, 8, get(), decided).explained());
  CHECK(script("approval").did(3, 6, expire, yes()).did(4, 5, allow, no()).did(7, 8, get(), yes(0, "expired")).explained());
  CHECK(script("approval").did(3, 6, expire, yes()).did(7, 8, get(), yes(0, "open")).did(9, 10, allow, no()).explained());
  CHECK_FALSE(script("approval").did(3, 6, expire, yes()).did(7, 8, allow, decided).explained());
  CHECK_FALSE(script("approval").did(3, 6, expire, yes()).did(1, 2, allow, no()).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, decided).did(3, 6, expire, yes()).did(7, 8, get(), yes(0, "expired")).explained());
  // It is written down later, and until then may be withdrawn.
  const answer withdrawn = yes(0, "withdrawn"), expired = yes(0, "expired");
  CHECK(script("approval").did(3, 6, expire, yes()).did(7, 8, withdraw, yes()).did(9, 10, get(), withdrawn).explained());
  CHECK(script("approval").did(3, 6, expire, yes()).did(7, 8, withdraw, yes()).did(9, 10, get(), expired).explained());
  CHECK_FALSE(
    script("approval").did(3, 6, expire, yes()).did(7, 8, get(), expired).did(9, 10, withdraw, yes()).did(11, 12, get(), withdrawn).explained());
  CHECK_FALSE(script("approval").did(3, 6, expire, yes()).did(7, 8, withdraw, yes()).did(9, 10, allow, decided).explained());
  CHECK_FALSE(script("approval").did(3, 6, expire, yes()).did(7, 8, get(), withdrawn).explained());
  CHECK(script("approval").did(1, 2, withdraw, yes()).did(3, 4, allow, no()).did(5, 6, get(), yes(0, "withdrawn")).explained());
  CHECK(script("approval").did(1, 2, allow, decided).did(3, 4, withdraw, yes()).did(5, 6, get(), decided).explained());
  CHECK_FALSE(script("approval").did(1, 2, withdraw, yes()).did(3, 4, allow, decided).explained());
  CHECK_FALSE(script("approval").did(1, 2, allow, decided).did(3, 4, withdraw, yes()).did(5, 6, get(), yes(0, "withdrawn")).explained());
}

TEST_CASE("a history is not explained in which a session that has ended keeps or gets something, or one that has not is told so") {
  const answer yes{true, "", 1}, later{true, "", 2}, no{false, "CONFLICT", 0}, gone{false, told_gone, 0};
  auto lock = [](const char* who, const char* op, const answer& a, std::int64_t from) {
    return operation{"lock", "x", {op, who, "", 0}, a, from, from + 1};
  };
  auto task = [](const char* who, const char* op, const answer& a, std::int64_t from) {
    return operation{"task", "x", {op, who, "", 0}, a, from, from + 1};
  };
  auto kv = [](const char* who, const answer& a, std::int64_t from) { return operation{"kv", "x", {"set", who, "v", 0}, a, from, from + 1}; };
  const operation end{"session", "a", {"end", "a", "", 0}, answer{true, "", 0}, 10, 20};
  auto explained = [](std::vector<operation> ops) { return check_all(ops).accepted; };
  // While it may have ended either is right, afterwards one.
  CHECK(explained({lock("a", "acquire", yes, 1), end, lock("b", "acquire", later, 12)}));
  CHECK(explained({lock("a", "acquire", yes, 1), end, lock("b", "acquire", no, 12)}));
  CHECK_FALSE(explained({lock("a", "acquire", yes, 1), end, lock("b", "acquire", later, 5)}));
  CHECK_FALSE(explained({lock("a", "acquire", yes, 1), end, lock("b", "acquire", no, 30)}));
  CHECK_FALSE(explained({end, lock("b", "acquire", yes, 5), lock("b", "release", yes, 7), lock("a", "acquire", later, 30)}));
  CHECK(explained({lock("a", "acquire", yes, 1), end, lock("a", "release", gone, 30), lock("b", "acquire", later, 32)}));
  CHECK_FALSE(explained({lock("a", "acquire", yes, 1), end, lock("a", "release", gone, 12), lock("b", "acquire", no, 14)}));
  CHECK_FALSE(explained({lock("a", "acquire", yes, 1), end, lock("a", "release", gone, 5), lock("b", "acquire", later, 30)}));
  CHECK_FALSE(explained({lock("a", "acquire", yes, 1), lock("a", "release", gone, 5)}));
  CHECK(explained({task("a", "claim", yes, 1), end, task("a", "complete", gone, 30), task("b", "claim", later, 32)}));
  CHECK_FALSE(explained({task("a", "claim", yes, 1), end, task("b", "claim", no, 30)}));
  CHECK_FALSE(explained({task("a", "claim", yes, 1), end, task("b", "claim", later, 12), task("a", "complete", yes, 14)}));
  CHECK(explained({kv("a", yes, 1), end, kv("a", gone, 30)}));
  CHECK_FALSE(explained({kv("a", yes, 1), end, kv("a", later, 30)}));
  CHECK_FALSE(explained({kv("b", yes, 1), end, kv("b", gone, 30)}));
  // What an unknown call of its may have got before is free as well, and it gets nothing by a later one.
  operation heard_nothing{"lock", "x", {"acquire", "a", "", 0}, std::nullopt, 1, never};
  CHECK(explained({heard_nothing, end, lock("b", "acquire", no, 5), lock("b", "acquire", later, 30)}));
  CHECK_FALSE(explained({heard_nothing, end, lock("b", "acquire", no, 30)}));
  heard_nothing.called = 25;
  CHECK_FALSE(explained({heard_nothing, end, lock("b", "acquire", no, 30)}));
}
