// Three hosts whose nodes, keepers and links fail while clients work on all of them. Nothing that was answered is lost, nothing happens twice,
// and when everything is well again everybody gets on.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>

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
const auto watchful = "link_heartbeat = 999\nlink_silence = 3000\nlink_redial_max = 2000\nhost_lease = 120000\n"
                      // Of a terminal's output less is kept than a flood is.
                      "pty_segment_bytes = 524288\npty_segments_total_bytes = 8388608\n";

/// For what says what is wrong, and nothing if nothing is.
#define CHECK_EMPTY(said)                                                                                                                            \
  do {                                                                                                                                               \
    const std::string wrong = (said);                                                                                                                \
    CHECK_MESSAGE(wrong.empty(), wrong);                                                                                                             \
  } while (false)

double since(std::chrono::steady_clock::time_point t) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); }

/// All flows between the hosts, of each kind. What the mail is about is in the history, too.
class flows {
public:
  flows(const host_world& w, history::recorder& h) {
    for (std::size_t i = 0; i < host_world::hosts; ++i) {
      auto next = (i + 1) % host_world::hosts, other = (i + 2) % host_world::hosts;
      mail_.push_back({{i, next}, std::make_unique<mail_flow>(w, h, i, next)});
      watches_.push_back({{i}, std::make_unique<watch_flow>(w, i)});
      terminals_.push_back({{i, next, other}, std::make_unique<terminal_flow>(w, i, next, other)});
    }
    // From a member to another one, through the home.
    floods_.push_back({{1, 2}, std::make_unique<flood_flow>(w, 1, 2)});
  }
  /// Ends those that touch this host.
  void finish(const host_world& w, std::size_t host) {
    end(mail_, host, [&](mail_flow& m) {
      CHECK_EMPTY(m.finish());
      messages_ += m.messages();
    });
    end(terminals_, host, [&](terminal_flow& t) {
      CHECK_EMPTY(t.finish());
      lines_ += t.lines();
      gaps_ += t.gaps();
      breaks_ += t.breaks();
    });
    end(floods_, host, [&](flood_flow& f) {
      CHECK_EMPTY(f.finish());
      flood_ += f.bytes();
      flood_gaps_ += f.gaps();
    });
    end(watches_, host, [&](watch_flow& f) {
      CHECK_EMPTY(f.finish(w));
      events_ += f.events();
      breaks_ += f.breaks();
    });
  }
  void print() const {
    std::printf("beside them: %zu messages, %zu events seen, %zu lines through terminals (%llu bytes of gaps), %zu streams broken and resumed\n",
                messages_, events_, lines_, static_cast<unsigned long long>(gaps_), breaks_);
    std::printf("of a flood %llu bytes came and %llu were announced as lost\n", static_cast<unsigned long long>(flood_),
                static_cast<unsigned long long>(flood_gaps_));
  }

private:
  template <class Flow>
  struct among {
    std::vector<std::size_t> hosts;
    std::unique_ptr<Flow> flow;
  };
  template <class Flow, class End>
  static void end(std::vector<among<Flow>>& all, std::size_t host, End end_one) {
    std::erase_if(all, [&](auto& f) {
      if (std::find(f.hosts.begin(), f.hosts.end(), host) == f.hosts.end())
        return false;
      end_one(*f.flow);
      return true;
    });
  }
  std::vector<among<mail_flow>> mail_;
  std::vector<among<watch_flow>> watches_;
  std::vector<among<terminal_flow>> terminals_;
  std::vector<among<flood_flow>> floods_;
  std::size_t messages_ = 0, events_ = 0, breaks_ = 0, lines_ = 0;
  std::uint64_t gaps_ = 0, flood_ = 0, flood_gaps_ = 0;
};

/// Waits for a lock, a little at a time: a client gives its place up with a call of which it hears nothing for long.
bool gets(fault_client& who, const std::string& path) {
  return eventually([&] { return who.acquire(path, 2'500, 20s); }, 60s);
}

/// None of these sessions is there any more.
bool have_ended(node_client& home, const std::vector<std::string>& sessions) {
  return eventually(
    [&] {
      auto there = all_sessions(home);
      return std::none_of(sessions.begin(), sessions.end(), [&](const auto& s) { return there.contains(s); });
    },
    60s);
}

/// A host that is thrown out while everybody works: what it held is free for the others, nothing it asks is granted or hangs, and the others
/// go on. The history says what its clients were told meanwhile.
void revoke(const host_world& w, std::size_t out, load& clients, std::mt19937& rng) {
  auto& h = clients.history();
  fault_client victim(w.node(out), h, "victim", shared_scope), ann(w.node(0), h, "ann", shared_scope), bob(w.node(1), h, "bob", shared_scope);
  node_client op{w.node(host_world::home), {}, shared_scope};
  clients.round([&] {
    poll(nullptr, 0, static_cast<int>(300 + rng() % 700));
    REQUIRE(victim.acquire("/revoked/held", 0, 20s));
    auto lost = clients.sessions(out);
    lost.push_back(victim.session());
    victim.may_end();
    clients.may_lose(out);
    auto revoked = w.ctl(host_world::home, {"node", "revoke", host_world::name(out)});
    REQUIRE_MESSAGE(revoked.status == 0, revoked.err);
    CHECK(eventually([&] { return w.link(host_world::home, out) == "revoked" && w.link(out, host_world::home) != "up"; }));
    CHECK(have_ended(op, lost));
    victim.has_ended();
    clients.has_lost(out);
    auto asked = std::chrono::steady_clock::now();
    CHECK_FALSE(victim.acquire("/revoked/wanted", 0, 3s));
    CHECK(since(asked) < 8);
    for (auto* other : {&bob, &ann}) {
      CHECK(gets(*other, "/revoked/held"));
      CHECK(other->release("/revoked/held", 20s));
      CHECK(other->acquire("/revoked/wanted", 0, 20s));
      CHECK(other->release("/revoked/wanted", 20s));
    }
    poll(nullptr, 0, static_cast<int>(300 + rng() % 1'500));
  });
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
      w.look();
      poll(nullptr, 0, static_cast<int>(rng() % 700));
    });
    ++done[what];
    std::printf("%5.0f s  %s; nodes have grown by at most %.0f MiB\n", since(started), what.c_str(), static_cast<double>(w.grown_most()) / (1 << 20));
    std::fflush(stdout);
  }
  CHECK_EMPTY(clients.settle());
  constexpr std::size_t out = 2;
  beside.finish(w, out);
  revoke(w, out, clients, rng);
  CHECK(w.linked(patience, out));
  CHECK_EMPTY(clients.settle());
  for (std::size_t host = 0; host < host_world::hosts; ++host)
    beside.finish(w, host);
  auto f = clients.check();
  CHECK_MESSAGE(f.checked.accepted, f.checked.why);
  node_client op{w.node(host_world::home), {}, shared_scope};
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  CHECK_EMPTY(check_workers(clients.worker_log(), all_spawns(op)));
  CHECK_EMPTY(w.misdeeds());
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
  bob.may_end();
  w.cut(lost, true, true);
  CHECK(have_ended(op, {bob.session()}));
  bob.has_ended();
  CHECK(gets(ann, path));
  CHECK(eventually([&] {
    auto t = task_of(op, task);
    return t && t->status() == v1::OPEN;
  }));
  w.mend(lost);
  CHECK(w.linked());
  CHECK_FALSE(bob.release(path, 10s));
  CHECK_FALSE(bob.complete(task, 10s));
  CHECK(bob.is_told_gone());
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
  // A session that comes now from that host is as good as any.
  fault_client bill(w.node(lost), h, "bill", shared_scope);
  CHECK(bill.acquire(path, 0, 20s));
  CHECK(bill.release(path, 20s));
  auto checked = history::check_all(h.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
  CHECK_EMPTY(w.misdeeds());
}

TEST_CASE("a member whose certificate ends while it is cut off is not let in with it, says so, and comes back with a token, beside others at work") {
  auto seed = run_seed();
  CAPTURE(seed);
  host_world w{seed, "node_certificate_lifetime = 8000\nnode_certificate_renewal = 6000\nnode_certificate_renewal_retry = 1000\n"
                     "link_heartbeat = 999\nlink_silence = 3000\nlink_redial_max = 1250\nhost_lease = 8000\n"};
  std::printf("hosts: %s; seed %u\n", w.kind().c_str(), seed);
  constexpr std::size_t late = 2;
  load clients({w.nodes(), host_world::hosts, shared_scope, {"a", "b", "c"}, true}, seed);
  auto& h = clients.history();
  fault_client ann(w.node(1), h, "ann", shared_scope), bob(w.node(late), h, "bob", shared_scope);
  node_client op{w.node(host_world::home), {}, shared_scope};
  const std::string path = "/late/file";
  REQUIRE(bob.acquire(path, 0, 20s));
  auto ended = [&] { return w.ctl(late, {"nodes"}).out.find("certificate ended") != std::string::npos; };
  clients.round([&] {
    auto lost = clients.sessions(late);
    lost.push_back(bob.session());
    bob.may_end();
    clients.may_lose(late);
    w.cut(late, true, true);
    CHECK(have_ended(op, lost));
    bob.has_ended();
    clients.has_lost(late);
    REQUIRE(eventually(ended));
    w.mend(late);
    CHECK(gets(ann, path));
    CHECK(eventually([&] { return w.log(late).find("it has ended and nobody speaks with this node") != std::string::npos; }));
    CHECK(w.link(late, host_world::home) != "up");
    CHECK(w.link(host_world::home, 1) == "up");
  });
  clients.round([&] {
    REQUIRE(w.ctl(late, {"leave", "--force"}).status == 0);
    w.join(late);
    CHECK(w.linked());
    CHECK(ann.release(path, 20s));
    fault_client bill(w.node(late), h, "bill", shared_scope);
    CHECK(bill.acquire(path, 0, 20s));
    CHECK(bill.release(path, 20s));
  });
  CHECK_EMPTY(clients.settle());
  auto f = clients.check();
  CHECK_MESSAGE(f.checked.accepted, f.checked.why);
  CHECK(f.answered > 20);
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  CHECK_EMPTY(check_workers(clients.worker_log(), all_spawns(op)));
  CHECK_EMPTY(w.misdeeds());
}

TEST_CASE("hosts that are lost beyond their lease under load lose what they held, once, and everybody goes on when they come back") {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  auto started = std::chrono::steady_clock::now();
  host_world w{seed, "link_heartbeat = 999\nlink_silence = 3000\nlink_redial_max = 1250\nhost_lease = 8000\n"};
  std::printf("hosts: %s; seed %u\n", w.kind().c_str(), seed);
  // Only a worker in a checkout that others have, too, is tried on one of them.
  auto tree = [&](std::size_t host) { return w.node(host).work() + "/tree"; };
  for (std::size_t host = 0; host < host_world::hosts; ++host) {
    fs::create_directories(tree(host) + "/.git");
    auto shared = w.ctl(host, {"scope", "share", tree(host), "--as", shared_scope});
    REQUIRE_MESSAGE(shared.status == 0, shared.err);
  }
  load clients({w.nodes(), 6, shared_scope, {"a", "b", "c"}, true, 3, true}, seed);
  auto& h = clients.history();
  fault_client ann(w.node(host_world::home), h, "ann", shared_scope);
  node_client op{w.node(host_world::home), {}, shared_scope};
  auto spawn_with = [&](auto fits) -> std::optional<v1::Spawn> {
    for (auto& s : all_spawns(op))
      if (fits(s))
        return s;
    return std::nullopt;
  };
  auto id_of = [&](std::size_t host) { return w.ctl_json(host, {"status"}).at("node_id").get<std::string>(); };
  const std::size_t rounds = full_run() ? 16 : 2;
  std::size_t beside = 0, moved = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto lost = 1 + (round + seed) % 2;
    const auto lost_id = id_of(lost);
    const auto number = std::to_string(round);
    const auto path = "/lost/file" + number, go = w.node(host_world::home).work() + "/go" + number;
    fault_client bob(w.node(lost), h, "bob" + number, shared_scope);
    clients.round([&] {
      REQUIRE(bob.acquire(path, 0, 20s));
      auto task = bob.create_task("of bob " + number, 20s);
      REQUIRE(bob.claim(task, 20s));
      // Goes on for ever on the host that gets lost, and ends on another one when it may.
      std::vector<std::string> asked;
      std::optional<v1::Spawn> stubborn;
      REQUIRE(eventually(
        [&] {
          auto key = "stubborn" + number + "-" + std::to_string(asked.size());
          auto script = "echo \"$SWARM_SPAWN_ID $$ " + key + " $SWARM_MCP_INSTANCE_ID\" >>" + clients.worker_log() + "; case $PWD in " + tree(lost) +
                        "*) exec sleep 600;; esac; while [ ! -e " + go + " ]; do sleep 0.05; done";
          auto id = ann.dispatch(key, script, 20s, 2, {}, tree(host_world::home));
          if (id.empty())
            return false;
          asked.push_back(id);
          stubborn = spawn_with([&](const v1::Spawn& s) { return s.task_id() == id; });
          if (!stubborn || stubborn->node_id() != lost_id)
            return false;
          return eventually([&] {
            stubborn = spawn_with([&](const v1::Spawn& s) { return s.task_id() == id; });
            return stubborn && stubborn->status() == v1::Spawn::RUNNING;
          });
        },
        60s));
      const auto old = static_cast<pid_t>(stubborn->pid());
      auto sessions = clients.sessions(lost);
      sessions.push_back(bob.session());
      bob.may_end();
      clients.may_lose(lost);
      auto frozen = rng() % 2 == 0;
      frozen ? w.freeze(lost) : w.cut(lost, true, true);
      CHECK(have_ended(op, sessions));
      bob.has_ended();
      clients.has_lost(lost);
      CHECK(gets(ann, path));
      CHECK(eventually([&] {
        auto t = task_of(op, task);
        return t && t->status() == v1::OPEN;
      }));
      // The next attempt runs elsewhere. That the first one may still be there is what --retries costs (ADR 0015).
      CHECK(eventually([&] {
        auto now = spawn_with([&](const v1::Spawn& s) { return s.id() == stubborn->id(); });
        return now && now->attempt() > stubborn->attempt() && now->node_id() != lost_id && now->status() == v1::Spawn::RUNNING;
      }));
      ++moved;
      beside += is_running(old) ? 1 : 0;
      frozen ? w.thaw(lost) : w.mend(lost);
      CHECK(w.linked());
      CHECK_MESSAGE(eventually([&] { return !is_running(old); }), "a lost host's worker goes on after the host has come back");
      CHECK_FALSE(bob.release(path, 20s));
      CHECK_FALSE(bob.complete(task, 20s));
      CHECK(bob.is_told_gone());
      CHECK(ann.release(path, 20s));
      CHECK(ann.claim(task, 20s));
      CHECK(ann.complete(task, 20s));
      CHECK(bob.renew(20s));
      CHECK(bob.acquire(path, 0, 20s));
      CHECK(bob.release(path, 20s));
      std::ofstream{go};
      for (const auto& id : asked)
        CHECK(eventually([&] {
          auto t = task_of(op, id);
          return t && t->status() == v1::DONE;
        }));
      CHECK_MESSAGE(eventually(
                      [&] {
                        auto now = clients.sessions(lost);
                        return std::none_of(now.begin(), now.end(),
                                            [&](const auto& s) { return std::count(sessions.begin(), sessions.end(), s) > 0; });
                      },
                      60s),
                    "clients of a host that has come back do not notice that their sessions have ended");
      w.look();
      std::printf("%5.0f s  %s lost, %s\n", since(started), w.name(lost).c_str(), frozen ? "stopped" : "cut off");
      std::fflush(stdout);
    });
  }
  CHECK(w.linked());
  CHECK_EMPTY(clients.settle());
  auto f = clients.check();
  CHECK_MESSAGE(f.checked.accepted, f.checked.why);
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  CHECK_EMPTY(check_attempts(clients.worker_log(), op));
  CHECK_EMPTY(w.misdeeds());
  std::printf("hosts: seed %u, %zu losses, %zu operations (%zu answered calls, %zu repeated), %zu unknown outcomes; %zu workers ran, %zu went on "
              "elsewhere, beside a stale one: %zu\n",
              seed, rounds, f.operations, f.answered, f.repeats, f.unknown, count_lines(clients.worker_log()), moved, beside);
  CHECK(f.answered > 20 * rounds);
}
