// Three hosts whose nodes, keepers and links fail while clients work on all of them. Nothing that was answered is lost, nothing happens twice,
// and when everything is well again everybody gets on.
#include <cstdio>
#include <functional>
#include <map>

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/fault/fault_load.hpp"
#include "tests/fault/host_streams.hpp"
#include "tests/fault/host_world.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

/// Links are found silent soon, and hosts are given up late: while clients are checked none of them may lose what it holds.
const auto watchful = "link_heartbeat = 999\nlink_silence = 3000\nlink_redial_max = 2000\nhost_lease = 120000\n";

double since(std::chrono::steady_clock::time_point t) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); }

struct flows {
  std::vector<std::unique_ptr<mail_flow>> mail;
  std::vector<std::unique_ptr<watch_flow>> watches;
  std::vector<std::unique_ptr<terminal_flow>> terminals;

  flows(const host_world& w, history::recorder& h) {
    for (std::size_t i = 0; i < host_world::hosts; ++i) {
      auto next = (i + 1) % host_world::hosts, other = (i + 2) % host_world::hosts;
      mail.push_back(std::make_unique<mail_flow>(w, h, i, next));
      watches.push_back(std::make_unique<watch_flow>(w, i));
      terminals.push_back(std::make_unique<terminal_flow>(w, i, next, other));
    }
  }
  void finish(const host_world& w) {
    for (auto& m : mail) {
      auto wrong = m->finish();
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
    for (auto& t : terminals) {
      auto wrong = t->finish();
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
    for (auto& f : watches) {
      auto wrong = f->finish(w);
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
  }
  void print() const {
    std::size_t messages = 0, events = 0, broken = 0, lines = 0;
    std::uint64_t gaps = 0;
    for (const auto& m : mail)
      messages += m->messages();
    for (const auto& f : watches) {
      events += f->events();
      broken += f->breaks();
    }
    for (const auto& t : terminals) {
      lines += t->lines();
      gaps += t->gaps();
      broken += t->breaks();
    }
    std::printf("beside them: %zu messages, %zu events seen, %zu lines through terminals (%llu bytes of gaps), %zu streams broken and resumed\n",
                messages, events, lines, static_cast<unsigned long long>(gaps), broken);
  }
};

/// Waits for a lock, a little at a time: a client gives its place up with a call of which it hears nothing for long.
bool gets(fault_client& who, const std::string& path) {
  return eventually([&] { return who.acquire(path, 2'500, 20s); }, 60s);
}

/// A host that is thrown out: what it held is free for the others, nothing it asks is granted or hangs, and the others go on.
void revoke(const host_world& w, history::recorder& h) {
  constexpr std::size_t out = 2;
  fault_client victim(w.node(out), h, "victim", shared_scope), ann(w.node(0), h, "ann", shared_scope), bob(w.node(1), h, "bob", shared_scope);
  REQUIRE(victim.acquire("/revoked/held", 0, 20s));
  auto revoked = w.ctl(host_world::home, {"node", "revoke", host_world::name(out)});
  REQUIRE_MESSAGE(revoked.status == 0, revoked.err);
  CHECK(eventually([&] { return w.link(host_world::home, out) == "revoked" && w.link(out, host_world::home) != "up"; }));
  auto asked = std::chrono::steady_clock::now();
  CHECK_FALSE(victim.acquire("/revoked/wanted", 0, 3s));
  CHECK(since(asked) < 8);
  for (auto* other : {&bob, &ann}) {
    CHECK(gets(*other, "/revoked/held"));
    CHECK(other->release("/revoked/held", 20s));
    CHECK(other->acquire("/revoked/wanted", 0, 20s));
    CHECK(other->release("/revoked/wanted", 20s));
  }
  auto misdeeds = w.misdeeds();
  CHECK_MESSAGE(misdeeds.empty(), misdeeds);
}

/// What a session that is gone is told, also when it is not known any more.
bool is_granted(const std::function<bool()>& asked) {
  try {
    return asked();
  } catch (const std::runtime_error&) {
    return false;
  }
}

} // namespace

TEST_CASE("three hosts whose nodes, keepers and links fail under load keep every answered promise, and go on when they are healed") {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  auto started = std::chrono::steady_clock::now();
  host_world w{seed, watchful};
  harms to_do{w, seed};
  const std::size_t least = full_run() ? 8 * to_do.kinds() : to_do.kinds();
  const std::size_t operations = full_run() ? 50'000 : 0;
  std::printf("hosts: %s; seed %u\n", w.kind().c_str(), seed);
  std::fflush(stdout);
  load clients({w.nodes(), 9, shared_scope, {"a", "b", "c"}, true}, seed);
  flows beside{w, clients.history()};
  std::map<std::string, int> done;
  double slowest = 0;
  for (std::size_t i = 0; i < least || clients.history().operations().size() < operations; ++i) {
    std::string what;
    clients.round([&] {
      poll(nullptr, 0, static_cast<int>(300 + rng() % 700));
      what = to_do.next(w);
      auto healed = std::chrono::steady_clock::now();
      CHECK_MESSAGE(w.linked(), "the hosts do not find each other after: " << what);
      slowest = std::max(slowest, since(healed));
      poll(nullptr, 0, static_cast<int>(rng() % 700));
    });
    ++done[what];
    std::printf("%5.0f s  %s\n", since(started), what.c_str());
    std::fflush(stdout);
  }
  auto wrong = clients.settle();
  CHECK_MESSAGE(wrong.empty(), wrong);
  beside.finish(w);
  auto f = clients.check();
  CHECK_MESSAGE(f.checked.accepted, f.checked.why);
  node_client op{w.node(host_world::home), {}, shared_scope};
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  auto workers = check_workers(clients.worker_log(), all_spawns(op));
  CHECK_MESSAGE(workers.empty(), workers);
  auto misdeeds = w.misdeeds();
  CHECK_MESSAGE(misdeeds.empty(), misdeeds);
  revoke(w, clients.history());
  std::size_t harmed = 0;
  for (const auto& [what, n] : done)
    harmed += static_cast<std::size_t>(n);
  std::printf(
    "hosts: seed %u, %zu harms in %.0f s, %zu operations (%zu answered calls, %zu repeated), %zu unknown outcomes, %zu objects, checked in %.0f "
    "ms (%zu states); linked again after at most %.1f s; %zu workers ran\n",
    seed, harmed, since(started), f.operations, f.answered, f.repeats, f.unknown, f.checked.objects, f.checked.milliseconds, f.checked.visited,
    slowest, count_lines(clients.worker_log()));
  beside.print();
  CHECK(f.answered > 20 * least);
}

TEST_CASE("a host that is cut off for longer than its lease loses what it held, once, and comes back as one that holds nothing") {
  host_world w{run_seed(), "link_heartbeat = 1000\nlink_silence = 2000\nhost_lease = 4000\n"};
  std::printf("hosts: %s\n", w.kind().c_str());
  constexpr std::size_t lost = 2;
  history::recorder h;
  fault_client at_home(w.node(0), h, "home", shared_scope), ann(w.node(1), h, "ann", shared_scope), bob(w.node(lost), h, "bob", shared_scope);
  const std::string path = "/lost/file";
  REQUIRE(bob.acquire(path, 0, 20s));
  auto task = bob.create_task("of bob", 20s);
  REQUIRE(bob.claim(task, 20s));
  node_client op{w.node(host_world::home), {}, shared_scope};
  REQUIRE_FALSE(ann.acquire(path, 0, 20s));
  // Nobody asks for it: it may happen at any time from now on, or not.
  h.invoke("lock", path, {"release", bob.session(), "", 0});
  w.cut(lost, true, true);
  CHECK(gets(ann, path));
  CHECK(eventually([&] {
    auto t = task_of(op, task);
    return t && t->status() == v1::OPEN;
  }));
  w.mend(lost);
  CHECK(w.linked());
  CHECK_FALSE(is_granted([&] { return bob.release(path, 10s); }));
  CHECK_FALSE(is_granted([&] { return bob.complete(task, 10s); }));
  CHECK_FALSE(at_home.acquire(path, 0, 20s));
  CHECK(ann.release(path, 20s));
  CHECK(at_home.claim(task, 20s));
  CHECK(at_home.complete(task, 20s));
  auto q = op.query();
  q.mutable_list_events()->add_types("instance.");
  q.mutable_list_events()->set_subject(bob.session());
  auto told = ask_patiently(op, q);
  std::string types;
  for (const auto& e : told.events().events())
    types += e.type() + "\n";
  CHECK_MESSAGE(told.events().events_size() == 2, types);
  // Whoever comes now from that host is as good as anybody.
  fault_client bill(w.node(lost), h, "bill", shared_scope);
  CHECK(bill.acquire(path, 0, 20s));
  CHECK(bill.release(path, 20s));
  auto locks = h.operations();
  std::erase_if(locks, [](const history::operation& o) { return o.model != "lock"; });
  auto checked = history::check_all(locks);
  CHECK_MESSAGE(checked.accepted, checked.why);
  auto misdeeds = w.misdeeds();
  CHECK_MESSAGE(misdeeds.empty(), misdeeds);
}

TEST_CASE("a member whose certificate ends while it is cut off is not let in with it, says so, and comes back with a token") {
  host_world w{run_seed(), "node_certificate_lifetime = 8000\nnode_certificate_renewal = 6000\nnode_certificate_renewal_retry = 1000\n"
                           "link_heartbeat = 1000\nlink_silence = 2000\nlink_redial_max = 1250\nhost_lease = 4000\n"};
  std::printf("hosts: %s\n", w.kind().c_str());
  constexpr std::size_t late = 2;
  history::recorder h;
  fault_client ann(w.node(1), h, "ann", shared_scope), bob(w.node(late), h, "bob", shared_scope);
  const std::string path = "/late/file";
  REQUIRE(bob.acquire(path, 0, 20s));
  auto ended = [&] { return w.ctl(late, {"nodes"}).out.find("certificate ended") != std::string::npos; };
  w.cut(late, true, true);
  REQUIRE(eventually(ended));
  w.mend(late);
  CHECK(gets(ann, path));
  CHECK(eventually([&] { return w.log(late).find("it has ended and nobody speaks with this node") != std::string::npos; }));
  CHECK(w.link(late, host_world::home) != "up");
  CHECK(w.link(host_world::home, 1) == "up");
  REQUIRE(w.ctl(late, {"leave", "--force"}).status == 0);
  w.join(late);
  CHECK(w.linked());
  CHECK(ann.release(path, 20s));
  fault_client bill(w.node(late), h, "bill", shared_scope);
  CHECK(bill.acquire(path, 0, 20s));
  CHECK(bill.release(path, 20s));
  auto misdeeds = w.misdeeds();
  CHECK_MESSAGE(misdeeds.empty(), misdeeds);
}
