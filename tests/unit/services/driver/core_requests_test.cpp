// The driver core: permissions and the questions of hooks.
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

// ---- permissions ----

TEST_CASE("a request takes one answer, and the same answer again is told that it is delivered") {
  auto w = in_a_turn();
  w.asks("r");
  w.answer("r", "allow");
  REQUIRE(w.answers().size() == 1);
  CHECK(w.answers()[0].delivered());
  CHECK(w.answers()[0].option() == "allow");
  w.answer("r", "allow");
  CHECK(w.answers().size() == 1); // it is told, and told again at the next hello
  w.stored(w.last_seq);
  w.answer("r", "allow");
  CHECK(w.answers().back().delivered());
  CHECK(w.answers().size() == 2);
  CHECK(w.lines_with("behavior") == 1);
}

TEST_CASE("another answer to a request is answered with what the agent has got already") {
  auto w = in_a_turn();
  w.asks("r");
  w.answer("r", "allow");
  w.stored(w.last_seq);
  w.answer("r", "deny");
  REQUIRE(w.answers().size() == 2);
  CHECK(w.answers().back().delivered());
  CHECK(w.answers().back().option() == "allow");
  CHECK(w.lines_with("behavior") == 1);
}

TEST_CASE("a mode that the agent has left by itself is not said to the next one") {
  driver_world w;
  w.hello();
  internal::ToDriver f;
  f.mutable_set()->set_id("55555555-5555-4555-8555-555555555555");
  f.mutable_set()->set_mode("plan");
  w.tell(f);
  w.prompt(prompt_1);
  w.introduce();
  w.agent_writes(
    json{{"type", "control_response"}, {"response", {{"subtype", "success"}, {"request_id", "swarm-2"}, {"response", {{"mode", "plan"}}}}}});
  w.begins(prompt_1);
  w.agent_writes(json{{"type", "system"}, {"subtype", "status"}, {"permissionMode", "default"}});
  w.ends_turn();
  w.agent_ends();
  w.prompt(prompt_2);
  REQUIRE(w.did(driver::action::kind::start) == 2);
  const auto& again = w.actions.back().arguments;
  CHECK(std::find(again.begin(), again.end(), "--permission-mode=plan") == again.end());
  CHECK(std::find(again.begin(), again.end(), "--permission-mode=default") != again.end());
}

TEST_CASE("an answer to what the agent asked before under this id is refused and the request stays open") {
  auto w = in_a_turn();
  w.asks("r");
  internal::ToDriver old;
  old.mutable_answer()->set_request_id("r");
  old.mutable_answer()->set_generation(1);
  old.mutable_answer()->set_option("allow");
  old.mutable_answer()->set_digest(test::digest_of(w.kept, "r"));
  w.asks("r", "Bash", {{"command", "rm -rf /"}});
  w.tell(old);
  CHECK_FALSE(w.answers().back().delivered());
  CHECK(w.lines_with("behavior") == 0);
  w.answer("r/2", "deny");
  CHECK(w.answers().back().delivered());
}

TEST_CASE("an answer that the agent cannot be given has a person asked again and says why, so that the agent does not wait for ever") {
  auto w = in_a_turn();
  w.asks("r");
  w.answer("r", "perhaps");
  REQUIRE(w.answers().size() == 1);
  CHECK_FALSE(w.answers()[0].delivered());
  REQUIRE(w.kept.size() >= 2);
  const auto& withdrawn = w.kept[w.kept.size() - 2];
  CHECK(withdrawn.withdrawn().request_id() == "r");
  const auto& again = w.kept.back().request();
  CHECK(again.id() == "r/2");
  CHECK(again.last());
  CHECK(again.body() == R"({"file_path":"/repo/x"})");
  CHECK(again.title().find("Write: /repo/x (asked again: Answer allow, deny or always") == 0);
  CHECK(again.writes(0).name() == "/repo/x");
  w.answer("r", "allow"); // the old name is over
  CHECK_FALSE(w.answers().back().delivered());
  w.answer("r/2", "allow");
  CHECK(w.answers().back().delivered());
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 1);
}

TEST_CASE("an answer to several parts is known again however its map is written") {
  auto w = in_a_turn();
  json questions = json::array();
  std::map<std::string, std::string> answers;
  for (const auto* question : {"One?", "Two?", "Three?", "Four?"}) {
    questions.push_back({{"question", question}, {"options", json::array({{{"label", "yes"}}})}});
    answers[question] = "yes";
  }
  w.asks("q", "AskUserQuestion", {{"questions", questions}});
  w.agent_takes = false;
  for (int i = 0; i < 20; ++i) {
    internal::ToDriver f;
    auto& a = *f.mutable_answer();
    a.set_request_id("q");
    a.set_generation(1);
    a.set_option("answer");
    a.set_digest(test::digest_of(w.kept, "q"));
    for (const auto& [question, answer] : answers)
      (*a.mutable_answers())[question] = answer;
    w.tell(f);
  }
  CHECK(w.answers().empty()); // the agent has not taken it yet
  w.agent_takes = true;
  w.settle();
  REQUIRE(w.answers().size() == 1);
  CHECK(w.answers()[0].delivered());
}

TEST_CASE("an interrupt withdraws what is asked before the agent hears of it") {
  auto w = in_a_turn();
  w.asks("r");
  w.interrupt("i");
  w.interrupt("i");
  CHECK(w.lines_with("\"interrupt\"}") + w.lines_with("subtype\":\"interrupt") >= 1);
  w.answer("r", "allow");
  CHECK_FALSE(w.answers().back().delivered());
  CHECK(w.lines_with("allow") == 0);
}

TEST_CASE("an answer that the agent did not live to take is not delivered") {
  auto w = in_a_turn();
  w.asks("r");
  w.agent_takes = false;
  w.answer("r", "allow");
  CHECK(w.answers().empty());
  w.agent_ends(0, 9);
  REQUIRE(w.answers().size() == 1);
  CHECK_FALSE(w.answers()[0].delivered());
}

// ---- hooks ----

TEST_CASE("a hook question that nobody answers in 8 s lets the tool run, unless a peer holds its path") {
  auto w = in_a_turn();
  internal::ToDriver f;
  f.mutable_locks()->add_paths("/repo/held");
  w.tell(f);
  w.asks_hook("free", "Write", {{"file_path", "/repo/free"}});
  w.asks_hook("held", "Edit", {{"file_path", "held/below"}});
  w.asks_hook("shell", "Bash", {{"command", "echo x > /repo/held"}});
  w.pass(7'999);
  CHECK(w.notices("hook-unanswered").empty());
  w.pass(1);
  CHECK(w.notices("hook-unanswered").size() == 3);
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 2);
  CHECK(w.lines_with("\"request_id\":\"free\",\"response\":{}") == 1);
}

TEST_CASE("when peers hold more than the driver knows, a write that nobody lets pass is denied") {
  auto w = in_a_turn();
  internal::ToDriver f;
  f.mutable_locks()->set_more(true);
  w.tell(f);
  w.asks_hook("write", "Write", {{"file_path", "/repo/free"}});
  w.asks_hook("look", "Bash", {{"command", "ls"}});
  w.pass(8'000);
  CHECK(w.lines_with("\"permissionDecision\":\"deny\"") == 1);
}

TEST_CASE("a verdict on an earlier question does not answer a later one with the same hook id") {
  auto w = in_a_turn();
  const auto asks = [&](const std::string& path) {
    w.asks_hook("h", "Write", {{"file_path", path}});
    return w.all.back().hook_question().id();
  };
  const auto judged = [&](const std::string& question, bool denied) {
    internal::ToDriver f;
    f.mutable_hook_answer()->set_question_id(question);
    f.mutable_hook_answer()->set_denied(denied);
    w.tell(f);
  };
  const auto first = asks("/repo/free");
  w.agent_writes(json{{"type", "control_cancel_request"}, {"request_id", "h"}});
  const auto second = asks("/repo/held");
  judged(first, false);
  CHECK(w.lines_with("\"request_id\":\"h\"") == 0);
  const auto third = asks("/repo/other"); // nor without a cancellation
  judged(second, false);
  CHECK(w.lines_with("\"request_id\":\"h\"") == 0);
  judged(third, true);
  CHECK(w.lines_with("\"request_id\":\"h\"") == 1);
  CHECK(w.lines_with("permissionDecision") == 1);
}

TEST_CASE("a hook question is asked again of who comes next, and takes one answer") {
  auto w = in_a_turn();
  w.asks_hook("h", "Write", {{"file_path", "/repo/x"}});
  w.hello(w.last_seq);
  CHECK(w.all.back().has_hook_question());
  internal::ToDriver f;
  f.mutable_hook_answer()->set_question_id("h");
  f.mutable_hook_answer()->set_denied(true);
  w.tell(f);
  w.tell(f);
  w.pass(8'000);
  CHECK(w.lines_with("permissionDecision") == 1);
  CHECK(w.notices("hook-unanswered").empty());
}
