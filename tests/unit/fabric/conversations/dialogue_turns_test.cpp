// Turns, their ends, and an agent that has none.
#include "tests/unit/fabric/conversations/told_world.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a report whose words are too long for this node is told without them") {
  told_world w;
  w.row.set_state(v1::Conversation::RUNNING);
  w.row.set_open_turn("1");
  w.begin();
  w.connect();
  w.store = [&](const v1::Command& c) {
    v1::Reply r;
    if (!c.report_conversation().turn_ended().last_text().empty())
      r.mutable_refusal()->set_code(v1::Refusal::INVALID);
    return r;
  };
  internal::FromDriver f;
  f.mutable_turn_ended()->set_id("1");
  f.mutable_turn_ended()->set_reason(internal::TurnEnded::FINISHED);
  f.mutable_turn_ended()->set_last_text("words");
  w.says(f);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().turn_ended().turn() == "1");
  CHECK(w.commands[1].report_conversation().turn_ended().finished());
}

TEST_CASE("an agent with tasks beside its turns or with an open request is not idle") {
  told_world w;
  w.begin();
  w.connect();
  CHECK(w.talk->is_idle());
  internal::FromDriver f;
  f.mutable_background()->set_running(1);
  w.says(f);
  CHECK_FALSE(w.talk->is_idle());
  f.mutable_background()->set_running(0);
  w.says(f);
  CHECK(w.talk->is_idle());
  w.talk->approval_is(approval("1", "{}"), 1);
  CHECK_FALSE(w.talk->is_idle());
}

TEST_CASE("the row knows how many tasks go on beside the turns, after a start of the node too") {
  told_world w;
  w.begin();
  w.connect();
  internal::FromDriver f;
  f.mutable_background()->set_running(2);
  w.says(f);
  w.says(f);
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().background() == 2);
  w.row.set_background(2);
  w.begin();
  w.connect();
  CHECK_FALSE(w.talk->is_idle());
  f.mutable_background()->set_running(0);
  w.says(f);
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().has_background());
  CHECK(w.commands[1].report_conversation().background() == 0);
}

TEST_CASE("an agent that is idle for long ends and its driver stays") {
  told_world w;
  w.begin();
  w.connect();
  w.talk->rest();
  w.settle();
  REQUIRE(w.count("stop") == 1);
  CHECK(w.told.back().stop().agent_only());
  w.row.set_state(v1::Conversation::SUSPENDED);
  w.row_changed();
  CHECK_FALSE(w.talk->is_idle());
  CHECK(w.talk->is_resting());
  w.talk->end();
  w.settle();
  REQUIRE(w.count("stop") == 2);
  CHECK_FALSE(w.told.back().stop().agent_only());
}

TEST_CASE("a turn that the row has ended does not keep the queue waiting when its end is lost with a damaged log") {
  told_world w;
  w.row.set_driver_seq(7);
  log_tail tail;
  tail.seq = 5;
  tail.open_turn = "1";
  tail.open_turn_seq = 3;
  w.begin(tail);
  w.talk->prompt_is(w.prompt("p", v1::Prompt::QUEUED), 0);
  w.seq = 7;
  w.connect();
  REQUIRE(w.commands.size() == 1);
  CHECK(w.commands[0].report_conversation().sending() == "p");
}

TEST_CASE("what was begun and asked in an earlier generation is ended once") {
  log_tail tail;
  v1::Conversation row;
  row.set_id("c");
  row.set_generation(2);
  const auto add = [&](v1::ConversationItemKind kind, const std::string& id, const std::string& state, bool last) {
    v1::ConversationItem i;
    i.set_kind(kind);
    i.set_id(id);
    i.set_state(state);
    i.set_last(last);
    if (state == "asked")
      i.set_approval_id("a-" + id);
    take_frame(tail, 1,
               {.generation = 1, .driver_seq = tail.seq + 1, .at_ms = 1, .kind = static_cast<std::uint32_t>(kind), .body = i.SerializeAsString()});
  };
  add(v1::CONVERSATION_TURN, "1", "started", true);
  add(v1::CONVERSATION_PERMISSION, "r", "asked", true);
  add(v1::CONVERSATION_TEXT, "t", "", false);
  std::vector<std::string> out;
  for (const auto& f : unfinished(row, {1, tail, 2}, {}, "gone", 77)) {
    v1::ConversationItem i;
    REQUIRE(i.ParseFromString(f.body));
    CHECK(f.generation == 1);
    CHECK(i.at_ms() == 77);
    CHECK(i.last());
    out.push_back(i.id() + " " + i.state());
    take_frame(tail, 1, f);
  }
  CHECK(out == std::vector<std::string>{"t ", "r withdrawn", "1 failed"});
  CHECK(unfinished(row, {1, tail, 2}, {}, "gone", 78).empty());
}
