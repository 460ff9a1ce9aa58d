// Conversations whose agent, driver, keeper or node is killed at any moment: what was said stands in the log once and in its order, no agent is told
// anything twice, and what nobody can know is said to be unknown.
#include <csignal>
#include <random>

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/fault/conversation_world.hpp"

using namespace swarm::testing;

namespace {

enum class victim { agent, driver, keeper, node, node_and_agent, node_and_driver, node_and_keeper };
constexpr const char* names[] = {"agent", "driver", "keeper", "node", "node and agent", "node and driver", "node and keeper"};
constexpr std::size_t victims = std::size(names);

/// False when there was none to kill.
bool kill_process(pid_t pid) { return pid > 0 && kill(pid, SIGKILL) == 0; }

/// True if there was one to kill.
bool harm(test_node& node, const std::vector<std::unique_ptr<fault_talk>>& talks, victim who, std::mt19937& rng) {
  const auto keeper = node.keeper_pid();
  const auto& chosen = talks[rng() % talks.size()];
  const auto takes_agent = who == victim::agent || who == victim::node_and_agent;
  const auto takes_driver = who == victim::driver || who == victim::node_and_driver;
  const auto takes_keeper = who == victim::keeper || who == victim::node_and_keeper;
  const auto takes_node = who >= victim::node;
  bool found = takes_node;
  if (takes_node)
    node.kill_node();
  if (takes_agent)
    found = kill_process(chosen->agent(keeper)) || found;
  if (takes_driver)
    found = kill_process(chosen->driver(keeper)) || found;
  if (takes_keeper && keeper > 0) {
    node.kill_keeper();
    found = true;
  }
  if (takes_node)
    node.start();
  for (const auto& t : talks)
    t->was_harmed(names[static_cast<std::size_t>(who)], takes_keeper || (takes_driver && t == chosen));
  return found;
}

} // namespace

TEST_CASE("a conversation whose agent or driver or keeper or node is killed says everything once and tells nobody anything twice") {
  const auto seed = run_seed();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  const std::size_t rounds = full_run() ? 200 : 7;
  const auto started = std::chrono::steady_clock::now();
  test_node node;
  node.start();
  swarm::history::recorder history{node.work() + "/history.jsonl"};
  fault_client person{node, history, "person"};
  person.speak_through(&node);
  std::vector<std::unique_ptr<fault_talk>> talks;
  for (const auto* name : {"a", "b"})
    talks.push_back(std::make_unique<fault_talk>(node, person, name));
  std::size_t killed = 0;
  {
    deciders people{node, history, seed};
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto who = static_cast<victim>((round + seed) % victims);
      CAPTURE(round);
      CAPTURE(names[static_cast<std::size_t>(who)]);
      for (auto& t : talks) {
        const auto texts = static_cast<int>(1 + rng() % 6);
        t->send(texts, static_cast<int>(rng() % 3), static_cast<int>(rng() % 30));
        if (rng() % 3 == 0)
          t->send(1, 0, 0);
      }
      // The moment of the kill is the random input of the test, not a wait for something.
      poll(nullptr, 0, static_cast<int>(rng() % 400));
      killed += harm(node, talks, who, rng);
      for (auto& t : talks) {
        const auto wrong = t->come_to_rest();
        REQUIRE_MESSAGE(wrong.empty(), wrong);
      }
    }
  }
  std::size_t prompts = 0, consumed = 0, unknown = 0, undeliverable = 0, decisions = 0;
  for (auto& t : talks) {
    t->send(2, 0, 0);
    auto wrong = t->come_to_rest();
    REQUIRE_MESSAGE(wrong.empty(), wrong);
    wrong = t->check();
    CHECK_MESSAGE(wrong.empty(), wrong);
    prompts += t->prompts();
    consumed += t->consumed;
    unknown += t->unknown;
    undeliverable += t->undeliverable;
    decisions += t->decisions;
  }
  const auto checked = swarm::history::check_all(history.operations());
  CHECK_MESSAGE(checked.accepted, checked.why);
  CHECK(killed > rounds / 2);
  CHECK(consumed > prompts / 2);
  std::printf("kills of conversations: seed %u, %zu kills in %.0f s, %zu prompts: %zu consumed, %zu unknown, %zu undeliverable; %zu answers, %zu "
              "decisions in the history\n",
              seed, killed, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(), prompts, consumed, unknown,
              undeliverable, decisions, checked.operations);
  std::fflush(stdout);
}
