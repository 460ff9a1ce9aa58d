#include "gateway/json/conversation.hpp"

#include <doctest/doctest.h>

using namespace swarm::mcp;

namespace {

v1::ConversationChunk item(v1::ConversationItemKind kind, const std::string& id, const std::string& body, const std::string& cursor,
                           bool last = true) {
  v1::ConversationChunk c;
  auto& i = *c.mutable_item();
  i.set_kind(kind);
  i.set_id(id);
  i.set_generation(1);
  i.set_body(body);
  i.set_cursor(cursor);
  i.set_last(last);
  i.set_at_ms(5'000);
  return c;
}

} // namespace

TEST_CASE("the parts of an item are one line, with the cursor behind the last of them") {
  conversation_lines lines{{}};
  CHECK(lines.take(item(v1::CONVERSATION_TEXT, "a", "one ", "c1", false)).empty());
  const auto out = lines.take(item(v1::CONVERSATION_TEXT, "a", "two", "c2"));
  REQUIRE(out.size() == 1);
  CHECK(out[0]["kind"] == "text");
  CHECK(out[0]["text"] == "one two");
  CHECK(out[0]["cursor"] == "c2");
  CHECK(out[0]["at"] == 5);
  CHECK(lines.cursor() == "c2");
}

TEST_CASE("a gap is a line, and what had begun before it is not joined with what comes after") {
  conversation_lines lines{"c0"};
  CHECK(lines.take(item(v1::CONVERSATION_TEXT, "a", "lost ", "c1", false)).empty());
  v1::ConversationChunk gap;
  gap.mutable_resumed()->set_gap("retention");
  gap.mutable_resumed()->set_to(7);
  const auto told = lines.take(gap);
  REQUIRE(told.size() == 1);
  CHECK(told[0]["kind"] == "gap");
  CHECK(told[0]["reason"] == "retention");
  CHECK(told[0]["cursor"] == "c0");
  CHECK(lines.take(item(v1::CONVERSATION_TEXT, "a", "kept", "c2"))[0]["text"] == "kept");
  gap.mutable_resumed()->clear_gap();
  CHECK(lines.take(gap).empty());
}

TEST_CASE("a tool's call and its result are both of the kind tool, and the result names the tool") {
  conversation_lines lines{{}};
  auto call = item(v1::CONVERSATION_TOOL_CALL, "t1", R"({"command":"make"})", "c1");
  call.mutable_item()->set_title("Bash");
  CHECK(lines.take(call)[0]["input"]["command"] == "make");
  auto result = item(v1::CONVERSATION_TOOL_RESULT, "r1", "no rule", "c2");
  result.mutable_item()->set_of("t1");
  result.mutable_item()->set_failed(true);
  const auto out = lines.take(result);
  CHECK(out[0]["kind"] == "tool");
  CHECK(out[0]["state"] == "failed");
  CHECK(out[0]["tool"] == "Bash");
  CHECK(out[0]["output"] == "no rule");
  auto image = item(v1::CONVERSATION_TOOL_RESULT, "r2", "\xff\xd8", "c3");
  image.mutable_item()->set_media_type("image/png");
  CHECK(lines.take(image)[0]["output"].is_null());
}

TEST_CASE("what a turn has used comes before its end, and an interrupted turn has ended") {
  conversation_lines lines{"c0"};
  auto turn = item(v1::CONVERSATION_TURN, "1", "", "c1");
  turn.mutable_item()->set_state("interrupted");
  turn.mutable_item()->mutable_usage()->set_output_tokens(3);
  const auto out = lines.take(turn);
  REQUIRE(out.size() == 2);
  CHECK(out[0]["kind"] == "usage");
  CHECK(out[0]["cursor"] == "c0+usage");
  CHECK(out[0]["output_tokens"] == 3);
  CHECK(out[1]["kind"] == "turn");
  CHECK(out[1]["state"] == "ended");
  CHECK(out[1]["interrupted"] == true);
  CHECK(out[1]["cursor"] == "c1");
  turn.mutable_item()->set_state("failed");
  turn.mutable_item()->clear_usage();
  CHECK(lines.take(turn)[0]["state"] == "failed");
}

TEST_CASE("who goes on behind the usage of a turn gets its end and the usage not again") {
  const std::string cursor = "c0+usage";
  CHECK(log_cursor(cursor) == "c0");
  CHECK(log_cursor("c0") == "c0");
  conversation_lines lines{cursor};
  auto turn = item(v1::CONVERSATION_TURN, "1", "", "c1");
  turn.mutable_item()->set_state("ended");
  turn.mutable_item()->mutable_usage()->set_output_tokens(3);
  auto out = lines.take(turn);
  REQUIRE(out.size() == 1);
  CHECK(out[0]["kind"] == "turn");
  turn.mutable_item()->set_cursor("c2");
  CHECK(lines.take(turn).size() == 2);
}

TEST_CASE("the cursor of a reader that was caught up in the middle of an item stands before that item") {
  conversation_lines lines{"c0"};
  v1::ConversationChunk caught_up;
  CHECK(lines.take(item(v1::CONVERSATION_TOOL_RESULT, "a", "first half, ", "c1", false)).empty());
  caught_up.mutable_caught_up()->set_cursor("c1");
  lines.take(caught_up);
  CHECK(lines.cursor() == "c0");
  lines.take(item(v1::CONVERSATION_TOOL_RESULT, "a", "second half", "c2"));
  CHECK(lines.cursor() == "c2");
  caught_up.mutable_caught_up()->set_cursor("c3");
  lines.take(caught_up);
  CHECK(lines.cursor() == "c3");
}
