// swarmd is killed again and again under load. Nothing that was answered is lost, nothing happens twice, and the work goes on.
#include <random>

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/fault/fault_load.hpp"

using namespace swarm::testing;

namespace {

void print(const char* what, std::size_t kills, unsigned seed, const load_figures& f, double seconds) {
  std::printf("%s: seed %u, %zu kills in %.0f s, %zu operations (%zu answered calls, %zu repeated), %zu unknown outcomes, %zu approvals "
              "decided, %zu seen expired, %zu objects, checked in %.0f ms (%zu states)\n",
              what, seed, kills, seconds, f.operations, f.answered, f.repeats, f.unknown, f.decided, f.expired, f.checked.objects,
              f.checked.milliseconds, f.checked.visited);
  std::fflush(stdout);
}

double since(std::chrono::steady_clock::time_point t) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); }

} // namespace

TEST_CASE("a node that is killed under load keeps every answered promise and makes progress again") {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  const std::size_t rounds = full_run() ? 200 : 6;
  auto started = std::chrono::steady_clock::now();
  test_node node;
  node.start();
  load clients(node, 8, seed);
  for (std::size_t i = 0; i < rounds; ++i)
    clients.round([&] {
      // The moment of the kill is the random input of the test, not a wait for something.
      poll(nullptr, 0, static_cast<int>(200 + rng() % 1'000));
      node.kill_node();
      node.start();
      poll(nullptr, 0, static_cast<int>(rng() % 400));
    });
  auto wrong = clients.settle();
  CHECK_MESSAGE(wrong.empty(), wrong);
  auto figures = clients.check();
  CHECK_MESSAGE(figures.checked.accepted, figures.checked.why);
  node_client op{node};
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  auto workers = check_workers(clients.worker_log(), all_spawns(op));
  CHECK_MESSAGE(workers.empty(), workers);
  print("kill -9 rounds", rounds, seed, figures, since(started));
  CHECK(figures.answered > 50 * rounds);
  CHECK(figures.decided > rounds);
}

TEST_CASE("actors killed under load lose no answer: writer, watch hub, readers, processes, scopes") {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  const std::size_t rounds = full_run() ? 60 : 6;
  auto started = std::chrono::steady_clock::now();
  test_node node;
  node.start();
  load clients(node, 8, seed);
  node_client op{node};
  const std::vector<std::string> parts{"writer", "scopes", "scopes/" + node.work(), "watch", "reader-0", "processes", "pty-log"};
  std::size_t killed = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    // A supervisor that restarts more than its budget in a minute gives up, and the node ends, by design: a new node, a new budget.
    if (i > 0 && i % 5 == 0) {
      node.kill_node();
      node.start();
    }
    clients.round([&] {
      poll(nullptr, 0, static_cast<int>(100 + rng() % 300));
      auto path = "node/" + parts[i % parts.size()];
      CAPTURE(path);
      CHECK(eventually([&] { return kill_actor(op, path); }));
      ++killed;
      poll(nullptr, 0, static_cast<int>(500 + rng() % 500));
    });
  }
  auto wrong = clients.settle();
  CHECK_MESSAGE(wrong.empty(), wrong);
  auto figures = clients.check();
  CHECK_MESSAGE(figures.checked.accepted, figures.checked.why);
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  auto workers = check_workers(clients.worker_log(), all_spawns(op));
  CHECK_MESSAGE(workers.empty(), workers);
  print("actor kills", killed, seed, figures, since(started));
  CHECK(killed == rounds);
}
