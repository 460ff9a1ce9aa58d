// The driver core: ends of the agent and of the driver, and silence.
#include <algorithm>

#include <doctest/doctest.h>

#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::in_a_turn;
using test::json;
using test::prompt_1;
using test::prompt_2;
using kind = driver::action::kind;
using state = internal::PromptState;

TEST_CASE("an agent that dies ends its turn, withdraws what it asked, and the next prompt resumes its session") {
  auto w = in_a_turn();
  w.asks("r");
  w.agent_ends(0, 9, 2);
  CHECK(w.notices("left-behind").size() == 1);
  REQUIRE(w.kept.back().has_agent_exited());
  CHECK(w.kept.back().agent_exited().signal() == 9);
  const auto has = [&](auto what) { return std::count_if(w.kept.begin(), w.kept.end(), what); };
  CHECK(has([](const auto& f) { return f.has_withdrawn(); }) == 1);
  CHECK(has([](const auto& f) { return f.has_turn_ended() && f.turn_ended().reason() == internal::TurnEnded::EXITED; }) == 1);
  w.prompt(prompt_2);
  REQUIRE(w.did(kind::start) == 2);
  CHECK(w.actions.back().arguments.back() == "native");
  w.introduce();
  w.begins(prompt_2);
  CHECK(w.states_of(prompt_2).back().turn() == "2");
}

TEST_CASE("what an agent had and did not begin before it died is unknown") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.introduce();
  w.agent_ends(1);
  CHECK(w.states_of(prompt_1).back().state() == state::UNKNOWN);
  w.prompt(prompt_1);
  CHECK(w.did(kind::start) == 1);
}

TEST_CASE("an agent that dies before it has introduced itself is started again, and has the prompt once") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.agent_ends(0, 9);
  w.agent_ends(3);
  CHECK(w.did(kind::start) == 3);
  REQUIRE(w.notices("started-again").size() == 2);
  CHECK(w.notices("started-again")[0].text().find("signal 9") != std::string::npos);
  CHECK(w.notices("started-again")[1].text().find("status 3") != std::string::npos);
  CHECK(w.states_of(prompt_1).empty());
  w.introduce();
  CHECK(w.lines_with(prompt_1) == 1);
  CHECK(std::none_of(w.kept.begin(), w.kept.end(), [](const auto& f) { return f.has_agent_exited(); }));
}

TEST_CASE("a program that ends three times before it introduces itself has its prompt refused with what it complained of") {
  driver_world w;
  w.hello();
  for (const auto& prompt : {prompt_1, prompt_2}) { // each prompt has its three starts
    w.prompt(prompt);
    for (int i = 0; i < 3; ++i) {
      w.core.agent_complained("no licence\n", w.now());
      CHECK(w.states_of(prompt).empty());
      w.agent_ends(1);
    }
    REQUIRE(w.states_of(prompt).size() == 1);
    CHECK(w.states_of(prompt)[0].state() == state::REFUSED);
    CHECK(w.states_of(prompt)[0].text().find("3 times") != std::string::npos);
    CHECK(w.states_of(prompt)[0].text().find("no licence") != std::string::npos);
    CHECK(w.kept.back().has_agent_exited());
  }
  CHECK(w.did(kind::start) == 6);
}

TEST_CASE("an agent that has introduced itself may die early three times more") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.agent_ends(1);
  w.agent_ends(1);
  w.introduce();
  w.begins(prompt_1);
  w.ends_turn();
  w.agent_ends();
  w.prompt(prompt_2);
  w.agent_ends(1);
  w.agent_ends(1);
  w.introduce();
  CHECK(w.lines_with(prompt_2) == 1);
}

TEST_CASE("an interrupt before the agent has introduced itself ends the wish to start it again") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.interrupt("i");
  w.agent_ends(1);
  CHECK(w.did(kind::start) == 1);
  CHECK(w.kept.back().has_agent_exited());
}

TEST_CASE("a program that never answers is unusable after a minute and is ended") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.agent_writes(std::string{"what?\n"});
  w.pass(60'000);
  CHECK(w.notices("unusable").size() == 1);
  CHECK(w.notices("unreadable").size() == 1);
  CHECK(w.states_of(prompt_1).back().state() == state::REFUSED);
  CHECK(w.did(kind::close_input) == 1);
  w.pass(2'000);
  CHECK(w.did(kind::terminate) == 1);
  w.pass(2'000);
  CHECK(w.did(kind::kill) == 1);
}

TEST_CASE("a driver that is told to stop closes the agent's input, then ends its group, then itself") {
  auto w = in_a_turn();
  w.stop(1'000);
  CHECK(w.did(kind::close_input) == 1);
  w.prompt(prompt_2);
  CHECK(w.states_of(prompt_2).back().state() == state::REFUSED);
  w.pass(1'000);
  CHECK(w.did(kind::terminate) == 1);
  w.pass(2'000);
  CHECK(w.did(kind::kill) == 1);
  CHECK(w.did(kind::exit) == 0);
  w.agent_ends(0, 9);
  CHECK(w.kept.back().agent_exited().on_request());
  CHECK(w.did(kind::exit) == 1);
  CHECK(w.actions.back().status == 0);
}

TEST_CASE("a driver without an agent stops at once, and one whose pipe nobody reads after ten seconds") {
  driver_world w;
  w.hello();
  w.stop();
  CHECK(w.did(kind::exit) == 1);
  auto v = in_a_turn();
  v.pipe_takes = false;
  v.stop();
  v.agent_ends();
  CHECK(v.did(kind::exit) == 0);
  v.pass(10'000);
  CHECK(v.did(kind::exit) == 1);
}

TEST_CASE("a driver that is told to end its agent alone stays and starts it again for the next prompt") {
  driver_world w;
  internal::ToDriver f;
  f.mutable_stop()->set_grace_ms(1'000);
  f.mutable_stop()->set_agent_only(true);
  w.hello();
  w.tell(f);
  w.prompt(prompt_1);
  w.introduce();
  w.begins(prompt_1);
  w.ends_turn();
  w.tell(f);
  CHECK(w.did(kind::close_input) == 1);
  w.prompt(prompt_2);
  w.pass(1'000);
  CHECK(w.did(kind::terminate) == 1);
  w.agent_ends();
  CHECK(w.did(kind::exit) == 0);
  CHECK(std::any_of(w.kept.begin(), w.kept.end(), [](const auto& k) { return k.has_agent_exited() && k.agent_exited().on_request(); }));
  REQUIRE(w.did(kind::start) == 2);
  CHECK(w.actions.back().arguments.back() == "native");
  w.introduce();
  CHECK(w.lines_with(prompt_2) == 1);
}

TEST_CASE("input that is no protocol ends the driver with status 1") {
  driver_world w;
  w.hello();
  w.core.from_swarmd("\xff\xff\xff\xff", w.now());
  w.settle();
  REQUIRE(w.did(kind::exit) == 1);
  CHECK(w.actions.back().status == 1);
}

TEST_CASE("five minutes of silence are told once, and not while a tool runs or a person is asked") {
  auto w = in_a_turn();
  w.pass(300'000);
  w.pass(300'000);
  CHECK(w.notices("silent").size() == 1);
  w.agent_writes(
    json{{"type", "assistant"},
         {"message", {{"id", "m"}, {"content", json::array({{{"type", "tool_use"}, {"id", "c"}, {"name", "Bash"}, {"input", json::object()}}})}}}});
  w.pass(400'000);
  CHECK(w.notices("silent").size() == 1);
  w.agent_writes(
    json{{"type", "user"}, {"message", {{"content", json::array({{{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", "done"}}})}}}});
  w.asks("r");
  w.pass(400'000);
  CHECK(w.notices("silent").size() == 1);
  w.answer("r", "allow");
  w.pass(300'000);
  CHECK(w.notices("silent").size() == 2);
}

TEST_CASE("a prompt that an agent takes and does not begin is told as silence") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.introduce();
  w.pass(299'999);
  CHECK(w.notices("silent").empty());
  w.pass(1);
  REQUIRE(w.notices("silent").size() == 1);
  CHECK(w.notices("silent")[0].text().find("has not begun it") != std::string::npos);
  w.begins(prompt_1);
  w.ends_turn();
  w.pass(400'000);
  CHECK(w.notices("silent").size() == 1);
}
