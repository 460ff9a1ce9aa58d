// When a prompt is given to a driver, and what the log has of it.
#include "actors/base/limits.hpp"
#include "actors/domain/oldest_prompt.hpp"
#include "tests/unit/fabric/conversations/told_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

/// A store in which this prompt waits.
void store_with(told_world& w, const std::string& waiting, v1::Prompt::State becomes = v1::Prompt::SENDING) {
  w.store = [&w, waiting, becomes](const v1::Command& c) {
    v1::Reply r;
    *r.mutable_conversation()->mutable_conversation() = w.row;
    auto id = c.report_conversation().sending();
    if (id == domain::oldest_prompt)
      id = waiting;
    if (!id.empty()) {
      *r.mutable_conversation()->mutable_prompt() = w.prompt(id, becomes);
      r.mutable_conversation()->mutable_prompt()->clear_text();
    }
    return r;
  };
}

} // namespace

TEST_CASE("what a person has said stands in the log once in parts that a reader takes") {
  told_world w;
  w.begin();
  auto& p = w.prompt("p", v1::Prompt::SENDING);
  p.set_text(std::string(100 * limits::kib, 'x'));
  p.add_attachments()->set_name("a.png");
  w.talk->prompt_is(p, 0);
  w.connect();
  internal::FromDriver f;
  f.mutable_prompt_state()->set_id("p");
  f.mutable_prompt_state()->set_state(internal::PromptState::SUBMITTED);
  w.says(f);
  w.says(f); // once more, as for a prompt that was repeated
  REQUIRE(w.items.size() == 3);
  std::string body;
  for (const auto& i : w.items) {
    CHECK(i.kind() == v1::CONVERSATION_USER);
    CHECK(i.body().size() <= 48 * limits::kib);
    CHECK(i.attachments(0).name() == "a.png");
    body += i.body();
  }
  CHECK(body == p.text());
  CHECK(w.items[2].last());
}

TEST_CASE("files go to the driver behind the words and the last one ends the prompt") {
  told_world w;
  w.begin();
  auto& p = w.prompt("p", v1::Prompt::SENDING);
  p.add_attachments()->set_media_type("image/png");
  p.add_attachments()->set_name("b.txt");
  w.talk->prompt_is(p, 0);
  w.connect();
  REQUIRE(w.files.size() == 2);
  CHECK_FALSE(w.told.back().prompt().last());
  CHECK(w.files[0].head.media_type() == "image/png");
  CHECK_FALSE(w.files[0].last);
  CHECK(w.files[1].head.name() == "b.txt");
  CHECK(w.files[1].last);
}

TEST_CASE("a prompt whose file is gone is told as one that the agent never gets") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.connect();
  w.talk->file_missing("p", "it is not there");
  w.settle();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().prompts(0).state() == v1::Prompt::UNDELIVERABLE);
}

TEST_CASE("a prompt that steers goes into the open turn and others wait for its end") {
  told_world w;
  w.row.set_state(v1::Conversation::RUNNING);
  w.row.set_open_turn("1");
  w.begin();
  w.lets_send();
  w.talk->prompt_is(w.prompt("first", v1::Prompt::QUEUED), 0);
  auto& s = w.prompt("steers", v1::Prompt::QUEUED);
  s.set_steer(true);
  w.talk->prompt_is(s, 0);
  w.connect();
  CHECK(w.count("prompt steers") == 1);
  CHECK(w.count("prompt first") == 0);
  CHECK(w.told.back().prompt().steer());
}

TEST_CASE("without an open turn what waits longest is sent before a prompt that steers and that one behind it") {
  told_world w;
  w.begin();
  w.lets_send();
  w.talk->prompt_is(w.prompt("first", v1::Prompt::QUEUED), 0);
  auto& s = w.prompt("steers", v1::Prompt::QUEUED);
  s.set_steer(true);
  w.talk->prompt_is(s, 0);
  w.connect();
  CHECK(w.count("prompt first") == 1);
  CHECK(w.count("prompt steers") == 0);
  w.prompts["first"].set_state(v1::Prompt::CONSUMED);
  w.talk->prompt_is(w.prompts["first"], ++w.revision);
  w.settle();
  CHECK(w.count("prompt steers") == 1);
}

TEST_CASE("a prompt that comes to an idle agent is asked for before its row is heard of and given once it is") {
  told_world w;
  w.begin();
  w.connect();
  store_with(w, "p");
  w.talk->prompt_comes();
  w.settle();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().sending() == domain::oldest_prompt);
  CHECK(w.count("prompt p") == 0);
  // As it was stored, and as it was before the driver may have it: the words alone are not the intent.
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), w.revision);
  w.settle();
  CHECK(w.count("prompt p") == 0);
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), w.revision);
  w.settle();
  CHECK(w.count("prompt p") == 1);
  CHECK(w.told.back().prompt().text() == "words of p");
  CHECK(w.commands.size() == 1);
  CHECK_FALSE(w.talk->is_idle());
}

TEST_CASE("a prompt whose row is heard of before the answer is given with the answer") {
  told_world w;
  w.begin();
  w.connect();
  store_with(w, "p");
  w.talk->prompt_comes();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), 1);
  w.settle();
  CHECK(w.commands.size() == 1);
  CHECK(w.count("prompt p") == 1);
}

TEST_CASE("a prompt that comes is asked for by itself when it was not given with its row") {
  told_world w;
  w.begin();
  w.connect();
  SUBCASE("since the command was refused") {
    w.talk->prompt_comes();
    w.settle();
    REQUIRE(w.commands.size() == 1);
    store_with(w, "p");
    w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), ++w.revision);
  }
  SUBCASE("since another one was before it") {
    store_with(w, "other");
    w.talk->prompt_comes();
    w.settle();
    REQUIRE(w.commands.size() == 1);
    w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), ++w.revision);
    w.settle();
    CHECK(w.count("prompt p") == 0);
    w.talk->prompt_is(w.prompt("other", v1::Prompt::SENDING), ++w.revision);
    w.settle();
    CHECK(w.count("prompt other") == 1);
    CHECK(w.commands.size() == 1);
    w.talk->prompt_is(w.prompt("other", v1::Prompt::CONSUMED), ++w.revision);
  }
  w.settle();
  CHECK(w.count("prompt p") == 1);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().sending() == "p");
}

TEST_CASE("nothing is asked for when a prompt comes that cannot be given now") {
  told_world w;
  SUBCASE("in a turn") {
    w.row.set_state(v1::Conversation::RUNNING);
    w.row.set_open_turn("1");
    w.begin();
    w.connect();
  }
  SUBCASE("while the queue is held") {
    w.row.set_held(true);
    w.begin();
    w.connect();
  }
  SUBCASE("to a conversation that was stopped") {
    w.row.set_state(v1::Conversation::ENDED);
    w.begin();
    w.connect();
  }
  SUBCASE("before the driver answers") { w.begin(); }
  SUBCASE("behind another one") {
    w.begin();
    w.connect();
    w.talk->prompt_is(w.prompt("other", v1::Prompt::SUBMITTED), 1);
  }
  SUBCASE("after the driver's end") {
    w.begin();
    w.connect();
    w.talk->driver_ended("gone");
  }
  w.settle();
  w.commands.clear();
  w.talk->prompt_comes();
  w.settle();
  CHECK(w.commands.empty());
}

TEST_CASE("a prompt that the agent never gets is a notice with its words") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.connect();
  internal::FromDriver f;
  f.mutable_prompt_state()->set_id("p");
  f.mutable_prompt_state()->set_state(internal::PromptState::REFUSED);
  f.mutable_prompt_state()->set_text("the agent ended");
  w.says(f);
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "undelivered");
  CHECK(w.items[0].prompts(0) == "p");
  CHECK(w.items[0].body() == "the agent ended: words of p");
}

TEST_CASE("a prompt whose outcome nobody knows is a notice when its driver has ended") {
  told_world w;
  w.begin();
  w.talk->prompt_is(w.prompt("p", v1::Prompt::SENDING), 0);
  w.talk->prompt_is(w.prompt("waits", v1::Prompt::QUEUED), 0);
  w.connect();
  w.talk->driver_ended("it was killed", 5);
  w.settle();
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "outcome-unknown");
  CHECK(w.items[0].prompts(0) == "p");
}
