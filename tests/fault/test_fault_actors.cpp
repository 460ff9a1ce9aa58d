// One actor of each family is killed in the middle of a call: its callers are answered, and what waited goes on waiting in its place.
#include <csignal>
#include <fstream>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>

#include "tests/fault/fault_load.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

std::string below_scope(const test_node& node, const std::string& rest) { return "node/scopes/" + node.work() + "/" + rest; }

std::string detail_of(node_client& op, const std::string& path) {
  auto graph = graph_of(op);
  for (const auto& n : graph.nodes())
    if (n.path() == path)
      return n.state() + ", " + n.detail();
  return {};
}

std::uint32_t waiters_of(node_client& op, const std::string& path) {
  auto q = op.query();
  q.mutable_get_lock()->set_path(path);
  return ask_patiently(op, q).lock().active().waiters();
}

bool dies(node_client& op, const std::string& path) {
  return eventually([&] { return kill_actor(op, path); });
}

} // namespace

TEST_CASE("waiters for a lock keep their places when the lock's actor, its scope, their supervisor, the writer or the hub dies") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  fault_client holder(node, history, "holder");
  std::vector<std::unique_ptr<fault_client>> waiters;
  for (int i = 0; i < 3; ++i)
    waiters.push_back(std::make_unique<fault_client>(node, history, "w" + std::to_string(i)));
  int n = 0;
  for (const auto* victim : {"lock", "scope", "scopes", "writer", "watch", "reader-0", "short-calls"}) {
    CAPTURE(std::string{victim});
    auto path = node.work() + "/file" + std::to_string(++n);
    REQUIRE(holder.acquire(path, 0, 20s));
    std::mutex mutex;
    std::vector<std::size_t> order;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < waiters.size(); ++i) {
      threads.emplace_back([&, i] {
        auto got = waiters[i]->acquire(path, 60'000, 60s);
        {
          std::lock_guard guard{mutex};
          if (got)
            order.push_back(i);
        }
        waiters[i]->release(path, 20s);
      });
      CHECK(eventually([&] { return waiters_of(op, path) == i + 1; }));
    }
    auto what = std::string{victim};
    auto target = what == "lock" ? below_scope(node, "lock/" + path) : what == "scope" ? "node/scopes/" + node.work() : "node/" + what;
    auto repeats = [&] { return waiters[0]->repeats + waiters[1]->repeats + waiters[2]->repeats; };
    auto before = repeats();
    CHECK(dies(op, target));
    // The three were in the middle of their calls: they were answered, and ask again.
    if (what != "watch" || repeats() != before)
      CHECK(eventually([&] { return repeats() >= before + (what == "reader-0" ? 0 : 3); }));
    CHECK(eventually([&] { return waiters_of(op, path) == 3; }));
    CHECK(holder.release(path, 20s));
    for (auto& t : threads)
      t.join();
    CHECK(order == std::vector<std::size_t>{0, 1, 2});
  }
  auto checked = history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
}

namespace {

constexpr int tree_failed = 70; // what swarmd ends with when its supervisor is gone: EX_SOFTWARE

/// Kills the root of the tree. The process may end before it has answered that.
int kill_root(test_node& node, node_client& op) {
  kill_actor(op, "node");
  return node.wait_for_exit();
}

} // namespace

TEST_CASE("the top supervisor killed in mid-call ends the process, the next one answers what is asked again, and waiters keep their places") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  fault_client holder(node, history, "holder");
  std::vector<std::unique_ptr<fault_client>> waiters, busy;
  for (int i = 0; i < 3; ++i)
    waiters.push_back(std::make_unique<fault_client>(node, history, "w" + std::to_string(i)));
  for (int i = 0; i < 4; ++i)
    busy.push_back(std::make_unique<fault_client>(node, history, "b" + std::to_string(i)));
  auto path = node.work() + "/file";
  REQUIRE(holder.acquire(path, 0, 20s));
  std::mutex mutex;
  std::vector<std::size_t> order;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    threads.emplace_back([&, i] {
      auto got = waiters[i]->acquire(path, 60'000, 60s);
      {
        std::lock_guard guard{mutex};
        if (got)
          order.push_back(i);
      }
      waiters[i]->release(path, 60s);
    });
    REQUIRE(eventually([&] { return waiters_of(op, path) == i + 1; }));
  }
  std::atomic<bool> over{false};
  std::atomic<std::size_t> appended{0};
  for (std::size_t i = 0; i < busy.size(); ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; !over; ++n) {
        busy[i]->append("list", std::to_string(i) + "-" + std::to_string(n), 60s);
        ++appended;
      }
    });
  CHECK(eventually([&] { return appended >= 40; }));
  for (int kills = 0; kills < 2; ++kills) {
    auto repeats = [&] {
      std::size_t least = ~std::size_t{0};
      for (const auto& w : waiters)
        least = std::min(least, w->repeats.load());
      return least;
    };
    auto before = repeats();
    CHECK(kill_root(node, op) == tree_failed);
    node.start();
    // Everyone in line was answered, and asks again with the same id.
    CHECK(eventually([&] { return repeats() > before; }));
    CHECK(eventually([&] { return waiters_of(op, path) == 3; }));
    auto reached = appended + 40;
    CHECK(eventually([&] { return appended >= reached; }));
  }
  over = true;
  CHECK(holder.release(path, 20s));
  for (auto& t : threads)
    t.join();
  CHECK(order == std::vector<std::size_t>{0, 1, 2});
  auto q = op.query();
  q.mutable_get_kv()->set_key("list");
  auto list = json::parse(ask_patiently(op, q).kv().value());
  std::vector<history::operation> appends;
  for (const auto& o : history.operations())
    if (o.model == "append")
      appends.push_back(o);
  CHECK(appends.size() >= 120);
  CHECK(history::check_appends(appends, list.get<std::vector<std::string>>()) == "");
  auto checked = history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
}

TEST_CASE("a swarmctl in a lock's line when the top supervisor is killed starts the node again, and gets its lock in its turn") {
  test_node node;
  node.start();
  node_client op{node};
  auto one = node.session("name:one"), two = node.session("name:two"), three = node.session("name:three");
  auto path = node.work() + "/file";
  REQUIRE(node.ctl({"lock", path, "--as", one}).status == 0);
  auto first = node.ctl_start({"lock", path, "--wait", "60", "--as", two});
  REQUIRE(eventually([&] { return waiters_of(op, path) == 1; }));
  auto second = node.ctl_start({"lock", path, "--wait", "60", "--as", three});
  REQUIRE(eventually([&] { return waiters_of(op, path) == 2; }));
  CHECK(kill_root(node, op) == tree_failed);
  // Nobody else starts one.
  CHECK(eventually([&] { return node.node_pid() != 0; }));
  REQUIRE(node.ctl({"unlock", path, "--as", one}).status == 0);
  CHECK(first.finish().status == 0);
  CHECK(waiters_of(op, path) == 1);
  REQUIRE(node.ctl({"unlock", path, "--as", two}).status == 0);
  CHECK(second.finish().status == 0);
}

TEST_CASE("a task's actor killed among concurrent claims leaves one claimant and answers everybody") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  std::vector<std::unique_ptr<fault_client>> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back(std::make_unique<fault_client>(node, history, "c" + std::to_string(i)));
  int killed = 0;
  for (int n = 0; n < 10; ++n) {
    auto task = clients[0]->create_task("t" + std::to_string(n), 20s);
    std::atomic<int> claimed{0};
    std::atomic<int> finished{0};
    std::vector<std::thread> threads;
    for (auto& c : clients)
      threads.emplace_back([&] {
        claimed += c->claim(task, 20s);
        c->complete(task, 20s);
        ++finished;
      });
    // No more often than an actor may die before it is given a rest.
    for (int here = 0; finished < 4 && here < 5;)
      here += kill_actor(op, below_scope(node, "task/" + task)) ? (++killed, 1) : 0;
    for (auto& t : threads)
      t.join();
    CHECK(claimed.load() == 1);
    clients[0]->read_task(task, 20s);
  }
  CHECK(killed > 0);
  auto checked = history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
}

TEST_CASE("a wait for activity whose mailbox dies is answered, and the next one misses nothing") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  fault_client me(node, history, "me");
  v1::Activity activity;
  int lost = 0;
  std::thread waiter([&] {
    v1::WaitRequest request;
    request.set_scope(node.work());
    request.set_session_id(me.session());
    // The node's end must end the test, too.
    while (lost < 10) {
      grpc::ClientContext context;
      me.raw().prepare(context);
      if (me.raw().coordination().WaitForActivity(&context, request, &activity).ok())
        return;
      ++lost;
    }
  });
  auto mailbox = below_scope(node, "mailbox/" + me.session());
  CHECK(eventually([&] { return detail_of(op, mailbox) == "waited on, 1 waiting"; }));
  CHECK(kill_actor(op, mailbox));
  CHECK(eventually([&] { return detail_of(op, mailbox) == "waited on, 1 waiting"; }));
  auto cmd = op.command();
  cmd.mutable_send_message()->set_recipient(me.session());
  cmd.mutable_send_message()->set_content("hello");
  cmd.mutable_send_message()->set_relaxed(true);
  CHECK_FALSE(op.execute(cmd).has_refusal());
  waiter.join();
  CHECK(lost == 1);
  REQUIRE(activity.messages_size() == 1);
  CHECK(activity.messages(0).content() == "hello");
}

TEST_CASE("a session whose actor was killed still ends with its process") {
  test_node node;
  node.start();
  node_client op{node};
  auto what = std::string{};
  SUBCASE("the session") { what = "session"; }
  SUBCASE("the scope") { what = "scope"; }
  SUBCASE("the supervisor of the scopes") { what = "scopes"; }
  child_process process({"/bin/sleep", "600"}, node.env(), "/");
  auto id = op.execute(op.registration_of_process(process.pid())).session().session().id();
  auto path = below_scope(node, "session/" + id);
  CHECK(eventually([&] { return !detail_of(op, path).empty(); }));
  CHECK(dies(op, what == "session" ? path : what == "scope" ? "node/scopes/" + node.work() : "node/scopes"));
  process.signal(SIGKILL);
  process.finish();
  // Only asked, so that no command wakes what should be awake by itself.
  auto sessions = [&] {
    auto q = op.query();
    q.mutable_list_sessions();
    return ask_patiently(op, q).sessions().sessions_size();
  };
  CHECK(eventually([&] { return sessions() == 0; }));
}

TEST_CASE("a worker's end is recorded although its actor, its scope or their supervisor was killed meanwhile") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  fault_client me(node, history, "me");
  for (const auto* victim : {"spawn", "pty", "scope", "scopes", "processes", "pty-log", "writer"}) {
    CAPTURE(std::string{victim});
    auto what = std::string{victim};
    auto gate = node.work() + "/go-" + what;
    auto task = me.dispatch(what, "echo start; while [ ! -e " + gate + " ]; do sleep 0.05; done; echo end", 20s);
    std::string id;
    CHECK(eventually([&] {
      auto live = all_spawns(op, true);
      id = live.empty() ? "" : live[0].id();
      return !live.empty() && live[0].status() == v1::Spawn::RUNNING;
    }));
    auto target = what == "spawn"   ? below_scope(node, "spawn/" + id + "#1")
                  : what == "pty"   ? "node/processes/pty/" + id
                  : what == "scope" ? "node/scopes/" + node.work()
                                    : "node/" + what;
    CHECK(dies(op, target));
    std::ofstream{gate};
    std::optional<v1::Task> seen;
    CHECK(eventually([&] { return (seen = task_of(op, task)) && seen->status() >= v1::DONE; }));
    CHECK(seen->status() == v1::DONE);
    CHECK_MESSAGE(seen->result().find("end") != std::string::npos, seen->result());
  }
}

TEST_CASE("a reader of a terminal whose actor dies goes on at its offset without a gap") {
  test_node node;
  node.start();
  history::recorder history;
  node_client op{node};
  fault_client me(node, history, "me");
  auto gate = node.work() + "/go";
  me.dispatch("terminal",
              "for i in 1 2 3 4 5; do echo before $i; done; while [ ! -e " + gate + " ]; do sleep 0.05; done; for i in 1 2 3; do echo after $i; done",
              20s);
  std::string id;
  CHECK(eventually([&] {
    auto live = all_spawns(op, true);
    id = live.empty() ? "" : live[0].id();
    return !live.empty() && live[0].status() == v1::Spawn::RUNNING;
  }));
  std::mutex mutex;
  std::string text;
  std::uint64_t gaps = 0;
  int broken = 0;
  std::thread reader([&] {
    for (bool ended = false; !ended;) {
      grpc::ClientContext context;
      op.prepare(context);
      v1::ReadPtyRequest request;
      request.set_id(id);
      request.set_from(text.size());
      request.set_follow(true);
      auto stream = op.ptys().Read(&context, request);
      v1::PtyChunk chunk;
      while (stream->Read(&chunk)) {
        std::lock_guard guard{mutex};
        gaps += chunk.gap();
        text += chunk.data();
        ended = ended || chunk.ended();
      }
      broken += !stream->Finish().ok();
    }
  });
  auto so_far = [&] {
    std::lock_guard guard{mutex};
    return text;
  };
  CHECK(eventually([&] { return so_far().find("before 5") != std::string::npos; }));
  CHECK(dies(op, "node/processes/pty/" + id));
  std::ofstream{gate};
  reader.join();
  CHECK(broken >= 1);
  CHECK(gaps == 0);
  CHECK(so_far() == "before 1\r\nbefore 2\r\nbefore 3\r\nbefore 4\r\nbefore 5\r\nafter 1\r\nafter 2\r\nafter 3\r\n");
}

TEST_CASE("calls to a frozen node end by their deadline, and after the thaw everything goes on") {
  test_node node;
  node.start();
  history::recorder history;
  std::vector<std::unique_ptr<fault_client>> clients;
  for (int i = 0; i < 8; ++i)
    clients.push_back(std::make_unique<fault_client>(node, history, "c" + std::to_string(i)));
  for (auto& c : clients)
    c->set("key", "before", 20s); // connected before the freeze
  auto pid = node.node_pid();
  kill(pid, SIGSTOP);
  auto frozen = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  std::atomic<int> late{0};
  std::atomic<int> in_time{0};
  for (auto& c : clients)
    threads.emplace_back([&] {
      v1::ExecuteRequest request;
      *request.mutable_id() = c->raw().next_id();
      *request.mutable_command() = c->command();
      request.mutable_command()->mutable_set_kv()->set_key("frozen");
      v1::Reply reply;
      auto begun = std::chrono::steady_clock::now();
      auto status = c->raw().execute(request, reply, 1s);
      auto took = std::chrono::steady_clock::now() - begun;
      if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED || took > 2s)
        ++late;
      // The same request again: it is answered once the node runs.
      for (auto until = begun + 20s; std::chrono::steady_clock::now() < until;)
        if (c->raw().execute(request, reply, 5s).ok()) {
          ++in_time;
          return;
        }
    });
  poll(nullptr, 0, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(frozen + 3s - std::chrono::steady_clock::now()).count()));
  kill(pid, SIGCONT);
  for (auto& t : threads)
    t.join();
  CHECK(late.load() == 0);
  CHECK(in_time.load() == 8);
  for (auto& c : clients) {
    CHECK(c->read_key("key", 20s) == "before");
    c->set("key", "before", 20s);
    CHECK(c->acquire(node.work() + "/f", 10'000, 20s));
    CHECK(c->release(node.work() + "/f", 20s));
  }
  auto checked = history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
}
