// Workers whose node or keeper is killed at any moment: never two for one spawn, never one without a row, and always an end.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/fault/fault_load.hpp"

using namespace swarm;
using namespace swarm::testing;
using namespace std::chrono_literals;

namespace {

/// Writes its spawn and pid, is deaf to the end of its terminal, runs until the file appears, and ends well. Says so if another process of the spawn
/// is still alive.
std::string patient_worker(const test_node& node, const std::string& gate) {
  auto dir = node.work();
  // A process that has ended but was not waited for yet is not alive.
  return "trap '' HUP; old=" + dir +
         "/pid.$SWARM_SPAWN_ID; if [ -f $old ] && grep -q '^State:.[^ZX]' /proc/$(cat $old)/status 2>/dev/null; then echo overlap >>" + dir +
         "/overlaps; fi; echo $$ >$old; echo \"$SWARM_SPAWN_ID $$\" >>" + dir + "/workers; while [ ! -e " + dir + "/" + gate +
         " ]; do sleep 0.05; done";
}

bool is_over(const v1::Task& t) { return t.status() == v1::DONE || t.status() == v1::FAILED || t.status() == v1::CANCELLED; }

v1::Task wait_for_end(node_client& op, const std::string& id) {
  std::optional<v1::Task> task;
  CHECK_MESSAGE(eventually([&] { return (task = task_of(op, id)) && is_over(*task); }), id << " is " << (task ? task->ShortDebugString() : "lost"));
  return task.value_or(v1::Task{});
}

void touch(const test_node& node, const std::string& name) { std::ofstream{node.work() + "/" + name}; }

} // namespace

TEST_CASE("swarmd killed while workers start leaves neither a second worker nor one without a row, and every spawn ends") {
  auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  const int rounds = full_run() ? 100 : 8;
  test_node node;
  node.start();
  history::recorder history;
  std::vector<std::unique_ptr<fault_client>> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back(std::make_unique<fault_client>(node, history, "s" + std::to_string(i)));
  std::mutex mutex;
  std::set<std::string> tasks;
  std::string script = "echo \"$SWARM_SPAWN_ID $$\" >>" + node.work() + "/workers";
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t c = 0; c < clients.size(); ++c)
      threads.emplace_back([&, c] {
        for (int n = 0; n < 3; ++n) {
          auto id = clients[c]->dispatch("j" + std::to_string(round) + "-" + std::to_string(c) + "-" + std::to_string(n), script, 20s);
          std::lock_guard guard{mutex};
          if (!id.empty())
            tasks.insert(id);
        }
      });
    // Within the few milliseconds in which forks, commits and gates alternate.
    poll(nullptr, 0, static_cast<int>(rng() % 150));
    node.kill_node();
    node.start();
    for (auto& t : threads)
      t.join();
  }
  node_client op{node};
  CHECK(tasks.size() == static_cast<std::size_t>(rounds) * 12);
  for (const auto& id : tasks) {
    auto task = wait_for_end(op, id);
    CHECK_MESSAGE(task.status() == v1::DONE, task.result());
  }
  CHECK(eventually([&] { return all_spawns(op, true).empty(); }));
  auto wrong = check_workers(node.work() + "/workers", all_spawns(op));
  CHECK_MESSAGE(wrong.empty(), wrong);
  CHECK(count_lines(node.work() + "/workers") == tasks.size());
  auto checked = history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
  std::printf("kills while workers start: seed %u, %d kills, %zu spawns\n", seed, rounds, tasks.size());
}

TEST_CASE("a running worker outlives swarmd, and its end while nobody looked is found") {
  test_node node;
  node.start();
  history::recorder history;
  fault_client me(node, history, "me");
  auto task = me.dispatch("outlives", patient_worker(node, "go"), 20s);
  REQUIRE(eventually([&] { return count_lines(node.work() + "/workers") == 1; }));
  node.kill_node();
  touch(node, "go");
  auto pid = static_cast<pid_t>(std::stol(file_text(node.work() + "/pid." + lines_of(file_text(node.work() + "/workers"))[0].substr(0, 36))));
  CHECK(eventually([&] { return !is_running(pid); }));
  node.start();
  node_client op{node};
  CHECK(wait_for_end(op, task).status() == v1::DONE);
}

TEST_CASE("a keeper that is killed takes its programs with it: the task fails, or is tried again if it may, never beside the first") {
  test_node node;
  node.start();
  history::recorder history;
  fault_client me(node, history, "me");
  auto once = me.dispatch("once", patient_worker(node, "go"), 20s);
  auto thrice = me.dispatch("thrice", patient_worker(node, "go"), 20s, 2);
  auto both = false;
  SUBCASE("the keeper alone") {}
  SUBCASE("keeper and node at once") { both = true; }
  REQUIRE(eventually([&] { return count_lines(node.work() + "/workers") == 2; }));
  node.kill_keeper();
  if (both) {
    node.kill_node();
    node.start();
  }
  node_client op{node};
  auto first = wait_for_end(op, once);
  CHECK(first.status() == v1::FAILED);
  CHECK(first.result().find("node_restarted") != std::string::npos);
  REQUIRE(eventually([&] { return count_lines(node.work() + "/workers") == 3; }));
  touch(node, "go");
  CHECK(wait_for_end(op, thrice).status() == v1::DONE);
  CHECK_FALSE(std::filesystem::exists(node.work() + "/overlaps"));
  auto rows = all_spawns(op);
  for (const auto& row : rows)
    CHECK(row.attempt() == (row.task_id() == thrice ? 2u : 1u));
  // New work finds a keeper again.
  auto next = me.dispatch("next", "exit 0", 20s);
  CHECK(wait_for_end(op, next).status() == v1::DONE);
}
