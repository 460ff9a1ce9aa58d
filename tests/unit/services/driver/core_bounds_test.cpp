// The driver core: its bounds.
#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::in_a_turn;
using test::json;
using test::prompt_1;
using test::prompt_2;
using kind = driver::action::kind;
using state = internal::PromptState;

TEST_CASE("an agent that asks and never reads is not read for ever") {
  auto w = in_a_turn();
  w.agent_takes = false;
  const std::string id(10'000, 'x');
  std::size_t requests = 0;
  for (; w.core.reads_agent() && requests < 1'000; ++requests)
    w.agent_writes(json{{"type", "control_request"}, {"request_id", id}, {"request", {{"subtype", "unknown"}}}});
  CHECK(requests < 200);
  w.agent_takes = true;
  w.settle();
  CHECK(w.core.reads_agent());
}

TEST_CASE("a large prompt that the agent takes slowly does not keep the driver from reading it") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.introduce();
  w.agent_takes = false;
  for (int i = 0; i < 40; ++i)
    w.steer("33333333-3333-4333-8333-3333333333" + std::to_string(10 + i), std::string(40'000, 'x'));
  CHECK(w.core.to_agent().size() > limits::driver_unasked_bytes_max);
  CHECK(w.core.reads_agent());
}

TEST_CASE("an agent whose hook questions nobody takes is not read for ever, nor are those kept that it has withdrawn") {
  auto w = in_a_turn();
  w.pipe_takes = false;
  const json large{{"file_path", "/repo/x"}, {"content", std::string(40'000, 'x')}};
  std::size_t questions = 0;
  for (; w.core.reads_agent() && questions < 1'000; ++questions) {
    w.asks_hook("h" + std::to_string(questions), "Write", large);
    if (w.core.reads_agent())
      w.agent_writes(json{{"type", "control_cancel_request"}, {"request_id", "h" + std::to_string(questions)}});
  }
  CHECK(questions < 40);
  w.pipe_takes = true;
  w.settle();
  CHECK(w.core.reads_agent());
  w.agent_writes(json{{"type", "control_cancel_request"}, {"request_id", "h" + std::to_string(questions - 1)}});
  const auto before = w.all.size();
  w.hello(w.last_seq);
  CHECK(w.all.size() == before + 1); // no question again
}

TEST_CASE("an answer that comes while too much waits to be stored is given when some is, and an interrupt at once") {
  auto w = in_a_turn();
  w.asks("r");
  json blocks = json::array();
  for (int i = 0; i < 4'000; ++i)
    blocks.push_back({{"type", "text"}, {"text", std::string(700, 'x')}});
  std::string lines;
  for (const auto* message : {"m1", "m2", "m3"})
    lines += json{{"type", "assistant"}, {"message", {{"id", message}, {"content", blocks}}}}.dump() + "\n";
  w.agent_writes(lines);
  w.answer("r", "allow");
  CHECK(w.lines_with("\"behavior\"") == 0);
  while (!w.core.reads_agent())
    w.stored(w.last_seq);
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 1);
  w.agent_writes(lines);
  w.steer(prompt_2, "too late");
  w.interrupt("i");
  CHECK(w.lines_with("\"subtype\":\"interrupt\"") == 1);
  while (!w.core.reads_agent())
    w.stored(w.last_seq);
  CHECK(w.states_of(prompt_2).back().state() == state::REFUSED);
  CHECK(w.lines_with(prompt_2) == 0);
}

TEST_CASE("a driver that is told to stop ends though nobody stores what its agent has said") {
  auto w = in_a_turn();
  w.says("m", std::string(5'000'000, 'y'));
  w.stop(0);
  w.core.agent_exited({.status = 0, .signal = 9}, w.now());
  CHECK_FALSE(w.core.reads_agent());
  w.pass(10'000);
  CHECK_FALSE(w.core.has_agent());
  w.pass(10'000);
  CHECK(w.did(kind::exit) == 1);
}

TEST_CASE("the name of a session that is no plain word is not given back to the program") {
  auto w = in_a_turn();
  w.agent_writes(json{{"type", "system"}, {"subtype", "init"}, {"session_id", "--dangerously-skip-permissions"}, {"cwd", "/repo"}});
  w.agent_ends();
  w.prompt(prompt_2);
  CHECK(w.actions.back().arguments.back() == "native");
}

TEST_CASE("of what an agent complains the end is kept") {
  auto w = in_a_turn();
  for (int i = 0; i < 10; ++i)
    w.core.agent_complained(std::string(5'000, 'x') + "\xff", w.now());
  w.core.agent_complained("the end", w.now());
  w.agent_ends(1);
  CHECK(w.notices("stderr").size() == 1);
  CHECK(w.kept.back().agent_exited().text().size() <= limits::driver_stderr_bytes);
  CHECK(w.kept.back().agent_exited().text().ends_with("the end"));
}

TEST_CASE("a model that is wished before the agent runs is set before its first prompt, and again after it has died") {
  driver_world w;
  w.hello();
  internal::ToDriver f;
  f.mutable_set()->set_id("o");
  f.mutable_set()->set_model("opus");
  w.tell(f);
  w.prompt(prompt_1);
  w.introduce();
  CHECK(w.input.find("set_model") < w.input.find(prompt_1));
  w.agent_writes(
    json{{"type", "control_response"}, {"response", {{"subtype", "success"}, {"request_id", "swarm-2"}, {"response", {{"model", "opus"}}}}}});
  w.begins(prompt_1);
  w.ends_turn();
  w.agent_ends();
  w.prompt(prompt_2);
  CHECK(w.actions.back().arguments.back() == "--model=opus");
}
