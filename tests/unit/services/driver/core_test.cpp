// The driver core: connections and prompts.
#include "services/driver/core.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::in_a_turn;
using test::json;
using test::prompt_1;
using test::prompt_2;
using test::prompt_3;
using kind = driver::action::kind;
using state = internal::PromptState;

namespace {

const std::string png{"\x89PNG\r\n\x1a\n"};

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
  // Else its user's settings would choose the mode, and in one of them it writes files unasked.
  CHECK(std::find(arguments.begin(), arguments.end(), "--permission-mode=default") != arguments.end());
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
