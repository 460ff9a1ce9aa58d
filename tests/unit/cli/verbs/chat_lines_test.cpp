#include "cli/verbs/chat_lines.hpp"

#include <doctest/doctest.h>

using namespace swarm::cli;

namespace {

v1::ConversationItem item(v1::ConversationItemKind kind, const std::string& title, const std::string& body) {
  v1::ConversationItem i;
  i.set_kind(kind);
  i.set_id("i");
  i.set_title(title);
  i.set_body(body);
  return i;
}

std::string shown(const chat_text& text) {
  std::string out;
  for (const auto& line : text)
    out += line.text + "\n";
  return out;
}

} // namespace

TEST_CASE("a tool is one line for its call, with what matters of its input, and one for its result") {
  chat_lines lines;
  CHECK(shown(lines.of(item(v1::CONVERSATION_TOOL_CALL, "Bash", R"({"description":"Build","command":"make -j2\n&& ls"})"))) ==
        "* Bash  make -j2 …\n");
  auto result = item(v1::CONVERSATION_TOOL_RESULT, "", "first\nsecond");
  result.set_of("i");
  CHECK(shown(lines.of(result)) == "  ok Bash: first …\n");
  result.set_body("{\n  \"state\": \"open\",\n  \"answer\": null\n}\n");
  CHECK(shown(lines.of(result)) == "  ok Bash: {\"state\":\"open\",\"answer\":null}\n");
  result.set_body("{\n  that is none\n}");
  CHECK(shown(lines.of(result)) == "  ok Bash: { …\n");
  result.set_failed(true);
  result.set_body("");
  CHECK(shown(lines.of(result)) == "  failed Bash\n");
  result.set_media_type("image/png");
  result.set_body("\xff\xd8");
  CHECK(shown(lines.of(result)) == "  failed Bash: image/png, 2 B\n");
}

TEST_CASE("only what the agent answers counts as said") {
  chat_lines lines;
  CHECK(lines.of(item(v1::CONVERSATION_TEXT, "", "yes\n"))[0] == chat_line{colour::none, "yes", true});
  CHECK_FALSE(lines.of(item(v1::CONVERSATION_THOUGHT, "", "hm"))[0].is_said);
  CHECK(shown(lines.of(item(v1::CONVERSATION_USER, "", "do\nit"))) == "> do\n> it\n");
}

TEST_CASE("what is decided on is shown whole, whatever its form") {
  CHECK(shown(action_lines(R"({"command":"a\nb","force":true})")) == "    command:\n      a\n      b\n    force: true\n");
  CHECK(shown(action_lines("no json")) == "    no json\n");
}

TEST_CASE("JSON that is nested without end is shown as the text that it is") {
  const auto deep = "{\"x\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  chat_lines lines;
  CHECK(shown(lines.of(item(v1::CONVERSATION_TOOL_CALL, "Bash", deep))).starts_with("* Bash  {\"x\":[[["));
  CHECK(action_lines(deep).at(0).text == "    " + deep);
  CHECK(shown(lines.of(item(v1::CONVERSATION_PLAN, "", deep))).starts_with("  {\"x\""));
}

TEST_CASE("what a person has said stands with its files and what a rule has decided with the rule") {
  chat_lines lines;
  auto user = item(v1::CONVERSATION_USER, "", "look\nhere");
  auto& file = *user.add_attachments();
  file.set_name("a.png");
  file.set_media_type("image/png");
  file.set_bytes(2048);
  CHECK(shown(lines.of(user)) == "> look\n> here\n> + a.png, image/png, 2.0 KiB\n");
  auto ruled = item(v1::CONVERSATION_PERMISSION, "Bash: make", "");
  ruled.set_state("allow");
  ruled.set_rule("the pattern Bash(make)");
  CHECK(shown(lines.of(ruled)) == "  permission: allow: Bash: make  (nobody was asked: the pattern Bash(make))\n");
}

TEST_CASE("the end of a permission names it and says when a rule has overruled what a person decided") {
  chat_lines lines;
  auto asked = item(v1::CONVERSATION_PERMISSION, "Write: a.txt", R"({"file_path":"a.txt"})");
  asked.set_id("n1");
  asked.set_state("asked");
  asked.set_approval_id("abcd1234-1");
  lines.of(asked);
  auto end = item(v1::CONVERSATION_PERMISSION, "", "");
  end.set_id("n1");
  end.set_state("allow");
  CHECK(shown(lines.of(end)) == "  permission: allow: Write: a.txt  [abcd1234]\n");
  lines.of(asked);
  end.set_state("deny");
  end.set_rule("held by a peer");
  CHECK(shown(lines.of(end)) == "  permission: deny: Write: a.txt  [abcd1234]  (not as decided: held by a peer)\n");
}

TEST_CASE("what an agent says does not begin as a line of the fabric does whole or in pieces") {
  const std::string text = "? Bash: ls\n**bold**\n! x\n  ? y\n*";
  const std::string marked = "| ? Bash: ls\n**bold**\n| ! x\n  ? y\n*";
  said_text whole, pieces;
  CHECK(whole.take(text) + whole.end() == marked);
  std::string out;
  for (auto c : text)
    out += pieces.take(std::string(1, c));
  CHECK(out + pieces.end() == marked);
  CHECK(among_others({colour::none, "> quoted", true}) == "| > quoted");
  CHECK(among_others({colour::bold, "> said by a person"}) == "> said by a person");
}

TEST_CASE("a plan shows how far each step is") {
  chat_lines lines;
  CHECK(shown(lines.of(item(v1::CONVERSATION_PLAN, "", R"({"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]})"))) ==
        "plan:\n  [x] a\n  [ ] b\n");
  CHECK(shown(lines.of(item(v1::CONVERSATION_PLAN, "", "free words"))) == "  free words\n");
}

TEST_CASE("the end of a turn says what it has used, and why it failed") {
  chat_lines lines;
  auto turn = item(v1::CONVERSATION_TURN, "", "no credit");
  turn.set_state("started");
  CHECK(lines.of(turn).empty());
  turn.set_state("failed");
  CHECK(shown(lines.of(turn)) == "-- turn failed\n    no credit\n");
  turn.set_state("ended");
  turn.mutable_usage()->set_input_tokens(10);
  turn.mutable_usage()->set_output_tokens(2);
  turn.mutable_usage()->set_cost_usd(0.5);
  turn.mutable_usage()->set_cost_known(true);
  CHECK(shown(lines.of(turn)) == "-- turn ended  10 tokens in, 2 out, $0.5000\n");
}
