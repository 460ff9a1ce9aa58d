#include "services/driver/core.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::json;
using test::prompt_1;
using test::prompt_2;
using kind = driver::action::kind;
using state = internal::PromptState;

namespace {

/// A turn has begun.
driver_world in_a_turn() {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.introduce();
  w.begins(prompt_1);
  return w;
}

std::string item_bodies(const std::vector<internal::FromDriver>& frames) {
  std::string out;
  for (const auto& f : frames)
    if (f.has_item())
      out += f.item().body();
  return out;
}

} // namespace

// ---- connections ----

TEST_CASE("a driver says nothing before hello and starts no agent without a prompt") {
  driver_world w;
  w.pass(1'000);
  CHECK(w.core.to_swarmd().empty());
  w.hello();
  CHECK(w.ready().protocol() == 1);
  CHECK_FALSE(w.ready().agent_runs());
  CHECK(w.actions.empty());
}

TEST_CASE("the first prompt starts the agent and waits until it has introduced itself") {
  driver_world w{{.resume = "old", .generation = 1, .version = "1", .home = "/"}};
  w.hello();
  w.prompt(prompt_1);
  REQUIRE(w.did(kind::start) == 1);
  const auto& arguments = w.actions.front().arguments;
  CHECK(std::find(arguments.begin(), arguments.end(), "--permission-prompt-tool") != arguments.end());
  CHECK(arguments.back() == "old");
  CHECK(w.lines_with("initialize") == 1);
  CHECK(w.lines_with(prompt_1) == 0);
  w.introduce();
  CHECK(w.lines_with(prompt_1) == 1);
  REQUIRE(w.states_of(prompt_1).size() == 1);
  CHECK(w.states_of(prompt_1)[0].state() == state::SUBMITTED);
  w.begins(prompt_1);
  CHECK(w.states_of(prompt_1).back().state() == state::CONSUMED);
  CHECK(w.states_of(prompt_1).back().turn() == "1");
}

TEST_CASE("who comes after a loss gets what is not stored once more and no number twice") {
  auto w = in_a_turn();
  w.says("m1", "one");
  w.lose();
  w.says("m2", "two");
  w.hello(w.last_seq);
  CHECK(w.ready().open_turn() == "1");
  CHECK(item_bodies(w.kept) == "onetwo");
  w.stored(w.last_seq);
  w.hello(w.last_seq);
  CHECK(w.ready().first_seq() == 0);
  CHECK(w.ready().last_seq() == w.last_seq);
  CHECK(w.all.back().has_ready());
}

TEST_CASE("what streams is joined and comes with the next hello as the open item") {
  auto w = in_a_turn();
  const auto delta = [](const char* text) {
    return json{{"type", "stream_event"},
                {"event", {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", text}}}}}};
  };
  w.agent_writes(json{{"type", "stream_event"}, {"event", {{"type", "message_start"}, {"message", {{"id", "m"}}}}}});
  w.agent_writes(json{{"type", "stream_event"}, {"event", {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}}}}}});
  w.agent_writes(delta("a"));
  w.agent_writes(delta("b"));
  CHECK_FALSE(w.all.back().has_delta());
  w.pass(20);
  REQUIRE(w.all.back().has_delta());
  CHECK(w.all.back().delta().text() == "ab");
  w.agent_writes(delta("c"));
  w.hello(w.last_seq);
  CHECK(w.ready().open_item().text() == "abc");
  w.pass(20);
  CHECK_FALSE(w.all.back().has_delta());
}

TEST_CASE("a pipe that nobody reads costs deltas, not items, and no memory") {
  auto w = in_a_turn();
  w.pipe_takes = false;
  w.agent_writes(json{{"type", "stream_event"}, {"event", {{"type", "message_start"}, {"message", {{"id", "m"}}}}}});
  w.agent_writes(json{{"type", "stream_event"}, {"event", {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}}}}}});
  for (int i = 0; i < 100; ++i) {
    w.agent_writes(
      json{{"type", "stream_event"},
           {"event", {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", std::string(10'000, 'x')}}}}}});
    w.pass(20);
  }
  w.says("m", "all of it");
  w.pipe_takes = true;
  w.settle();
  std::size_t bytes = 0;
  for (const auto& f : w.all)
    bytes += f.has_delta() ? f.ByteSizeLong() : 0;
  CHECK(bytes <= driver::outbox::passing_bytes_max);
  CHECK(item_bodies(w.kept) == "all of it");
}

TEST_CASE("an agent is not read while too much is not stored, and a result of 5 MB comes through a ring of 2 MiB") {
  auto w = in_a_turn();
  const std::string large(5'000'000, 'y');
  w.says("m", large);
  CHECK_FALSE(w.core.reads_agent());
  CHECK(w.last_seq * limits::driver_part_bytes_max <= limits::driver_ring_bytes + limits::mib);
  CHECK(item_bodies(w.kept).size() < large.size());
  for (std::uint64_t before = 0; before != w.last_seq;) {
    before = w.last_seq;
    w.stored(w.last_seq);
  }
  CHECK(item_bodies(w.kept) == large);
  CHECK(w.core.reads_agent());
}

// ---- prompts ----

TEST_CASE("a prompt that comes again is not given twice and is answered by its newest state") {
  auto w = in_a_turn();
  w.prompt(prompt_1);
  CHECK(w.states_of(prompt_1).size() == 2); // the newest is not stored: it is on its way
  w.stored(w.last_seq);
  w.prompt(prompt_1);
  REQUIRE(w.states_of(prompt_1).size() == 3);
  CHECK(w.states_of(prompt_1)[2].state() == state::CONSUMED);
  CHECK(w.lines_with(prompt_1) == 1);
}

TEST_CASE("prompts and answers of another attempt are refused") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1, "x", 2);
  CHECK(w.states_of(prompt_1).back().state() == state::REFUSED);
  CHECK(w.actions.empty());
  auto v = in_a_turn();
  v.asks("r");
  v.answer("r", "allow", 2);
  CHECK_FALSE(v.answers().back().delivered());
  CHECK(v.lines_with("behavior") == 0);
}

TEST_CASE("a prompt in parts is one, with its image") {
  driver_world w;
  w.hello();
  internal::ToDriver f;
  auto& p = *f.mutable_prompt();
  p.set_id(prompt_1);
  p.set_generation(1);
  p.set_begins(true);
  p.set_text("one ");
  w.tell(f);
  p.set_begins(false);
  p.set_text("two");
  w.tell(f);
  p.set_begins(true);
  p.set_media("abc");
  p.set_media_type("image/png");
  p.set_last(true);
  w.tell(f);
  w.introduce();
  CHECK(w.lines_with("one two") == 1);
  CHECK(w.lines_with("YWJj") == 1);
}

TEST_CASE("half a prompt of a swarmd that is gone is no part of the next one") {
  driver_world w;
  w.hello();
  internal::ToDriver f;
  f.mutable_prompt()->set_id(prompt_1);
  f.mutable_prompt()->set_generation(1);
  f.mutable_prompt()->set_text("lost ");
  w.tell(f);
  w.hello();
  w.prompt(prompt_1, "whole");
  w.introduce();
  CHECK(w.lines_with("\"whole\"") == 1);
}

TEST_CASE("a prompt above the bound is refused and the next one is taken") {
  driver_world w;
  w.hello();
  internal::ToDriver f;
  f.mutable_prompt()->set_id(prompt_1);
  f.mutable_prompt()->set_generation(1);
  f.mutable_prompt()->set_text(std::string(50'000, 'x'));
  for (std::size_t sent = 0; sent <= driver::prompt_table::bytes_max; sent += 50'000)
    w.tell(f);
  f.mutable_prompt()->set_last(true);
  w.tell(f);
  CHECK(w.states_of(prompt_1).back().state() == state::REFUSED);
  w.prompt(prompt_2);
  CHECK(w.did(kind::start) == 1);
}

TEST_CASE("an interrupt drops prompts that the agent has not got") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.interrupt("i");
  CHECK(w.states_of(prompt_1).back().state() == state::REFUSED);
  w.introduce();
  CHECK(w.lines_with(prompt_1) == 0);
}

// ---- permissions ----

TEST_CASE("a request takes one answer, and the same answer again is told that it is delivered") {
  auto w = in_a_turn();
  w.asks("r");
  w.answer("r", "allow");
  REQUIRE(w.answers().size() == 1);
  CHECK(w.answers()[0].delivered());
  w.answer("r", "deny");
  CHECK_FALSE(w.answers().back().delivered());
  w.stored(w.last_seq);
  w.answer("r", "allow");
  CHECK(w.answers().back().delivered());
  CHECK(w.answers().size() == 3);
  CHECK(w.lines_with("behavior") == 1);
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
  w.answer("r", "deny");
  CHECK(w.answers().back().delivered());
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

// ---- ends ----

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

TEST_CASE("a program that ends before it introduces itself has its prompt refused with what it complained of") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.core.agent_complained("No conversation found with session ID x\n", w.now());
  w.agent_ends(1);
  CHECK(w.states_of(prompt_1).back().state() == state::REFUSED);
  CHECK(w.states_of(prompt_1).back().text().find("No conversation found") != std::string::npos);
  CHECK(w.did(kind::start) == 1);
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
