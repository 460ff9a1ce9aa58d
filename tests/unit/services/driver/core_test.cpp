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
using test::prompt_3;
using kind = driver::action::kind;
using state = internal::PromptState;

namespace {

const std::string png{"\x89PNG\r\n\x1a\n"};

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
  driver_world w{{.resume = "old", .generation = 1, .version = "1", .at = {.directory = "/", .home = "/"}}};
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

TEST_CASE("who comes after a loss hears how many tasks the agent runs beside its turns") {
  auto w = in_a_turn();
  w.agent_writes(json{{"type", "system"}, {"subtype", "background_tasks_changed"}, {"tasks", {1, 2}}});
  w.ends_turn();
  w.stored(w.last_seq);
  w.hello(w.last_seq);
  CHECK(w.ready().background() == 2);
  w.agent_ends();
  w.hello(w.last_seq);
  CHECK(w.ready().background() == 0);
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
  CHECK(bytes <= limits::driver_passing_bytes_max);
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
  p.set_media(png);
  p.set_media_type("image/jpeg"); // by mistake
  p.set_name("shot.png");
  p.set_last(true);
  w.tell(f);
  w.introduce();
  CHECK(w.lines_with("one two") == 1);
  CHECK(w.lines_with("shot.png:") == 1);
  CHECK(w.lines_with(R"("media_type":"image/png","data":"iVBORw0KGgo=")") == 1);
}

TEST_CASE("a file goes to the agent as text or PDF, and a prompt with what it cannot take is refused with what to do") {
  const auto sent = [](const std::string& type, const std::string& name, const std::string& bytes, const std::string& words = "look") {
    driver_world w;
    w.hello();
    internal::ToDriver f;
    auto& p = *f.mutable_prompt();
    p.set_id(prompt_1);
    p.set_generation(1);
    p.set_begins(true);
    p.set_text(words);
    w.tell(f);
    p.set_media_type(type);
    p.set_name(name);
    p.set_media("");
    for (std::size_t at = 0; at < bytes.size(); at += 40'000) {
      p.set_media(bytes.substr(at, 40'000));
      p.set_begins(at == 0);
      p.set_last(at + 40'000 >= bytes.size());
      w.tell(f);
    }
    w.introduce();
    return w.states_of(prompt_1).back().state() == state::REFUSED ? w.states_of(prompt_1).back().text() : w.input;
  };
  CHECK(sent("text/x-c", "a.c", "int main\n").find(R"({"type":"text","text":"a.c:\nint main\n"})") != std::string::npos);
  CHECK(sent("", "a.c", "int main\n").find("a.c:") != std::string::npos);
  CHECK(sent("application/pdf", "a.pdf", "%PDF-1.7").find(R"("media_type":"application/pdf","data":"JVBERi0xLjc="},"title":"a.pdf"})") !=
        std::string::npos);
  CHECK(sent("image/png", "", png, "").find(R"("content":[{"type":"image")") != std::string::npos); // an empty text would be refused
  CHECK(sent("image/png", "x.png", "no image").find("x.png cannot be shown to the agent, which takes PNG") == 0);
  CHECK(sent("image/png", "x.png", png + std::string(4'000'000, 'x')).find("larger than the 3840 KiB") != std::string::npos);
  CHECK(sent("application/zip", "x.zip", std::string{"PK\0", 3}).find("put it into the agent's directory") != std::string::npos);
  CHECK(sent("text/plain", "x", std::string(600'000, 'x')).find("larger than the 512 KiB of text") != std::string::npos);
}

TEST_CASE("a prompt waits until the turn before has ended, and one that steers goes into it") {
  auto w = in_a_turn();
  w.prompt(prompt_2, "later");
  CHECK(w.lines_with(prompt_2) == 0);
  CHECK(w.states_of(prompt_2).empty());
  w.steer(prompt_3, "now");
  CHECK(w.lines_with(prompt_3) == 1);
  w.agent_writes(json{{"type", "command_lifecycle"}, {"command_uuid", prompt_3}, {"state", "started"}});
  CHECK(w.states_of(prompt_3).back().turn() == "1");
  w.ends_turn();
  CHECK(w.lines_with(prompt_2) == 1);
  w.begins(prompt_2);
  CHECK(w.states_of(prompt_2).back().turn() == "2");
}

TEST_CASE("what steers goes before what waits, and begins a turn of its own where none is open") {
  driver_world w;
  w.hello();
  w.prompt(prompt_1);
  w.steer(prompt_2, "first");
  w.introduce();
  CHECK(w.lines_with(prompt_2) == 1);
  CHECK(w.lines_with(prompt_1) == 0);
  w.begins(prompt_2);
  CHECK(w.states_of(prompt_2).back().turn() == "1");
  w.ends_turn();
  CHECK(w.lines_with(prompt_1) == 1);
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
  for (std::size_t sent = 0; sent <= limits::driver_prompt_bytes_max; sent += 50'000)
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

// ---- bounds ----

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
