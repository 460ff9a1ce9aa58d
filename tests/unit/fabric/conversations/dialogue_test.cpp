#include "tests/unit/fabric/conversations/dialogue_world.hpp"

using namespace swarm;
using test::dialogue_world;

namespace {

constexpr int steps_max = 40'000;

/// Until nothing is to be done any more.
void finish(dialogue_world& w) {
  for (int i = 0; i < steps_max && !w.is_quiet(); ++i)
    w.step();
  REQUIRE(w.is_quiet());
}

void check(const dialogue_world& w) {
  w.check();
  w.check_complete();
  w.check_drivers();
}

/// Three prompts; into the first turn another one and a wish, and the second is interrupted.
void talk(dialogue_world& w) {
  w.when_begun[1] = [&w] {
    w.prompt("into", true);
    w.wish("large");
  };
  w.when_begun[2] = [&w] { w.interrupt(); };
  for (const auto* id : {"p1", "p2", "p3"})
    w.prompt(id);
}

struct loss {
  std::string name;
  void (*happens)(dialogue_world&);
};
const loss losses[] = {
  {"the node", [](dialogue_world& w) { w.lose_node(); }},
  {"the driver", [](dialogue_world& w) { w.lose_driver(); }},
  {"node and driver", [](dialogue_world& w) { w.lose_node_and_driver(); }},
  {"node and keeper", [](dialogue_world& w) { w.lose_node_and_keeper(false); }},
  {"node and keeper, and the row hears of it first", [](dialogue_world& w) { w.lose_node_and_keeper(true); }},
  {"the keeper, and its driver is not heard out", [](dialogue_world& w) { w.lose_keeper_unheard(); }},
};

} // namespace

TEST_CASE("a prompt becomes a turn whose items stand in the log once and in order") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    dialogue_world w{seed};
    w.prompt("p1");
    w.prompt("p2");
    finish(w);
    CHECK(w.driver().prompts.size() == 2);
    CHECK(w.driver().answers.size() == 2);
    check(w);
  }
}

TEST_CASE("a node that dies at any step loses and doubles nothing of what the driver tells") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    dialogue_world w{seed};
    std::mt19937_64 random{seed};
    w.prompt("p1");
    w.prompt("p2");
    for (int i = 0; i < steps_max && !w.is_quiet(); ++i) {
      w.step();
      if (i < 2'000 && random() % 12 == 0)
        w.lose_node();
    }
    REQUIRE(w.is_quiet());
    CHECK(w.generation() == 1);
    CHECK(w.driver().prompts.size() == 2);
    check(w);
  }
}

TEST_CASE("losses of any kind that follow each other leave every turn and prompt with its end and give nothing twice") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    dialogue_world w{seed, seed % 2 == 0};
    std::mt19937_64 random{seed};
    talk(w);
    for (int i = 0; i < steps_max && !w.is_quiet(); ++i) {
      w.step();
      if (i < 2'000 && random() % 40 == 0)
        losses[random() % std::size(losses)].happens(w);
    }
    REQUIRE(w.is_quiet());
    check(w);
  }
}

TEST_CASE("the loss of node or driver or keeper at every frame leaves every turn and prompt with its end and gives nothing twice") {
  for (const auto& lost : losses) {
    CAPTURE(lost.name);
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      CAPTURE(seed);
      for (std::size_t frame = 0;; ++frame) {
        CAPTURE(frame);
        dialogue_world w{seed, seed % 2 == 0};
        talk(w);
        while (w.done() < frame && !w.is_quiet())
          w.step();
        if (w.is_quiet())
          break;
        lost.happens(w);
        finish(w);
        check(w);
      }
    }
  }
}

TEST_CASE("what a driver has begun is known to have no end in the log although another generation was asked for") {
  v1::Conversation row;
  row.set_id("c");
  row.set_generation(1);
  row.set_state(v1::Conversation::RUNNING);
  row.set_open_turn("1");
  row.set_driver_seq(1);
  log_tail tail;
  tail.seq = tail.open_turn_seq = 1;
  tail.open_turn = "1";
  dialogue talk{row, tail};
  talk.interrupt_taken(1); // a report is under way
  talk.driver_ended("it was killed", 1);
  v1::Reply late;
  late.mutable_refusal()->set_code(v1::Refusal::STALE);
  talk.answered(late);
  CHECK(talk.is_over());
  CHECK(talk.is_unfinished());
}

TEST_CASE("the log says that the outcome of a prompt is unknown also when the row has heard of the driver's end first") {
  v1::Conversation row;
  row.set_id("c");
  row.set_generation(1);
  row.set_state(v1::Conversation::IDLE);
  dialogue talk{row, {}};
  v1::Prompt p;
  p.set_id("p1");
  p.set_text("words");
  p.set_generation(1);
  p.set_state(v1::Prompt::SENDING);
  talk.prompt_is(p, 1);
  p.set_state(v1::Prompt::UNKNOWN);
  talk.prompt_is(p, 2);
  CHECK(talk.is_unfinished());
  talk.driver_ended("it was killed", 1);
  talk.prompt_is(p, 3);
  std::size_t notices = 0;
  for (auto& e : talk.take())
    if (const auto* k = std::get_if<dialogue::keep>(&e))
      for (const auto& f : k->frames) {
        v1::ConversationItem i;
        REQUIRE(i.ParseFromString(f.body));
        notices += i.title() == "outcome-unknown";
      }
  CHECK(notices == 1);
}

TEST_CASE("what was begun has its end in the log however much that is") {
  v1::Conversation row;
  row.set_id("c");
  row.set_generation(2);
  former_generation former;
  former.generation = 1;
  former.next = 2;
  const auto many = limits::conversation_approvals_open_max();
  for (std::size_t i = 0; i < many; ++i) {
    auto& asked = former.tail.asked["a" + std::to_string(i)];
    asked.set_kind(v1::CONVERSATION_PERMISSION);
    asked.set_approval_id("a" + std::to_string(i));
    asked.set_title(std::string(limits::title_bytes_max(), 't'));
    asked.set_state("asked");
  }
  CHECK(unfinished(row, former, {}, "both are gone", 1).size() == many);
}
