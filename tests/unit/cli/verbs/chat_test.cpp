#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

namespace {

const std::string whole_id = "c0ffee00-0000-4000-8000-000000000001";

v1::ConversationChunk item(v1::ConversationItemKind kind, const std::string& id, const std::string& body, const std::string& state = {}) {
  v1::ConversationChunk c;
  auto& i = *c.mutable_item();
  i.set_kind(kind);
  i.set_id(id);
  i.set_body(body);
  i.set_state(state);
  i.set_last(true);
  i.set_cursor("after " + id + state);
  if (state == "started")
    i.add_prompts("p1");
  return c;
}

struct cli_with_conversation : test::cli {
  v1::Conversation row;
  v1::Prompt prompt;
  cli_with_conversation() {
    row.set_id(whole_id);
    row.set_scope("/r");
    row.set_harness("claude");
    row.set_title("fix it");
    row.set_state(v1::Conversation::IDLE);
    prompt.set_id("p1");
    prompt.set_state(v1::Prompt::QUEUED);
    node.on_query = [this](const v1::Query& q) {
      v1::Answer a;
      if (q.has_list_conversations())
        *a.mutable_conversations()->add_conversations() = row;
      if (q.has_list_prompts())
        *a.mutable_prompts()->add_prompts() = prompt;
      return a;
    };
    node.on_command = [this](const v1::Command& c) {
      v1::Reply r;
      *r.mutable_conversation()->mutable_conversation() = row;
      if (c.has_send_prompt() || !c.start_conversation().prompt().empty())
        *r.mutable_conversation()->mutable_prompt() = prompt;
      return r;
    };
  }
  int run(std::vector<std::string> args) {
    args.insert(args.begin(), {"--scope", "/r"});
    return (*this)(std::move(args));
  }
};

} // namespace

TEST_CASE("chat new asks for a conversation in this directory, and a script gets its id") {
  cli_with_conversation ctl;
  REQUIRE(ctl.run({"chat", "new", "--harness", "claude", "--directory", "sub", "--detach", "--env", "A=b", "fix", "it"}) == code::ok);
  CHECK(ctl.screen.out == whole_id + "\n");
  const auto& body = ctl.node.commands.at(0).start_conversation();
  CHECK(body.harness() == "claude");
  CHECK(body.directory() == "/r/sub");
  CHECK(body.prompt() == "fix it");
  CHECK(std::find(ctl.node.last_environment.begin(), ctl.node.last_environment.end(), std::pair<std::string, std::string>{"A", "b"}) !=
        ctl.node.last_environment.end());
  REQUIRE(ctl.run({"chat", "new", "--detach", "--json"}) == code::ok);
  CHECK(ctl.out_json() == json{{"id", whole_id}, {"state", "idle"}});
}

TEST_CASE("chat new in a pipe follows the first turn: the answer is on stdout, and the status is the turn's") {
  cli_with_conversation ctl;
  for (const std::string end : {"ended", "failed"}) {
    ctl.node.conversations.push_back(
      {{item(v1::CONVERSATION_TEXT, "0", "of before"), item(v1::CONVERSATION_TURN, "1", "", "started"), item(v1::CONVERSATION_TOOL_CALL, "2", "{}"),
        item(v1::CONVERSATION_TEXT, "3", "it\x1b[2J is\ndone"), item(v1::CONVERSATION_TURN, "1", end == "failed" ? "no credit" : "", end)},
       stream_end::lost});
    CHECK(ctl.run({"chat", "new", "fix it"}) == (end == "ended" ? code::ok : code::refused));
    CHECK(ctl.screen.out == "it\\x1b[2J is\ndone\n");
    CHECK((ctl.screen.err.find("no credit") != std::string::npos) == (end == "failed"));
  }
}

TEST_CASE("chat new does not wait for a turn of a prompt that the agent never got") {
  cli_with_conversation ctl;
  ctl.prompt.set_state(v1::Prompt::UNDELIVERABLE);
  ctl.prompt.set_reason("claude is not installed");
  v1::ConversationChunk state;
  state.mutable_state()->set_state(v1::Conversation::SUSPENDED);
  ctl.node.conversations.push_back({{state}, stream_end::lost});
  CHECK(ctl.run({"chat", "new", "fix it", "--json"}) == code::refused);
  CHECK(ctl.out_json()["failed"] == true);
  CHECK(ctl.out_json()["reason"] == "the agent did not get the prompt: claude is not installed");
}

TEST_CASE("chat read prints a line for each item, and goes on at its cursor when the stream was cut") {
  cli_with_conversation ctl;
  ctl.node.conversations.push_back({{item(v1::CONVERSATION_TEXT, "1", "one")}, stream_end::lost});
  ctl.node.conversations.push_back({{item(v1::CONVERSATION_TEXT, "2", "two")}, stream_end::complete});
  REQUIRE(ctl.run({"chat", "read", "c0ff", "--json", "--from", "here"}) == code::ok);
  REQUIRE(ctl.node.conversation_reads.size() == 2);
  CHECK(ctl.node.conversation_reads[0].cursor() == "here");
  CHECK(ctl.node.conversation_reads[1].cursor() == "after 1");
  const auto end = ctl.screen.out.find('\n');
  CHECK(json::parse(ctl.screen.out.substr(0, end))["text"] == "one");
  CHECK(json::parse(ctl.screen.out.substr(end))["cursor"] == "after 2");
}

TEST_CASE("chat read refuses a cursor that is none, and ends with a conversation that has ended") {
  cli_with_conversation ctl;
  ctl.node.conversations.push_back({{}, stream_end::not_kept});
  CHECK(ctl.run({"chat", "read", whole_id, "--from", "x"}) == code::refused);
  CHECK(ctl.screen.err.find("the cursor is none of this conversation") != std::string::npos);
  v1::ConversationChunk state;
  state.mutable_state()->set_state(v1::Conversation::ENDED);
  ctl.node.conversations.push_back({{state}, stream_end::lost});
  CHECK(ctl.run({"chat", "read", whole_id, "--follow"}) == code::ok);
}

TEST_CASE("chat send and the changes name the conversation by the first characters of its id") {
  cli_with_conversation ctl;
  REQUIRE(ctl.run({"chat", "send", "c0ffee", "go", "on", "--json"}) == code::ok);
  CHECK(ctl.out_json() == json{{"prompt", "p1"}, {"state", "queued"}});
  CHECK(ctl.node.commands.back().send_prompt().prompt() == "go on");
  CHECK(ctl.node.commands.back().send_prompt().conversation_id() == whole_id);
  REQUIRE(ctl.run({"chat", "interrupt", "@last"}) == code::ok);
  CHECK(ctl.node.commands.back().interrupt_conversation().conversation_id() == whole_id);
  REQUIRE(ctl.run({"chat", "stop", "c0ffee"}) == code::ok);
  REQUIRE(ctl.run({"chat", "resume", "c0ffee"}) == code::ok);
  REQUIRE(ctl.run({"chat", "rename", "c0ffee", "other", "name"}) == code::ok);
  CHECK(ctl.node.commands.back().rename_conversation().title() == "other name");
  REQUIRE(ctl.run({"chat", "delete", "c0ffee"}) == code::ok);
  CHECK(ctl.node.commands.back().delete_conversation().conversation_id() == whole_id);
  CHECK(ctl.run({"chat", "send", "beef", "x"}) == code::refused);
  CHECK(ctl.run({"chat", "send", "c0ffee", " "}) == code::usage);
}

TEST_CASE("attaching without a terminal is refused, with what to do instead") {
  cli_with_conversation ctl;
  CHECK(ctl.run({"chat", "c0ffee"}) == code::usage);
  CHECK(ctl.screen.err.find("swarmctl chat read c0ffee00 --follow") != std::string::npos);
  CHECK(ctl.run({"chat"}) == code::usage);
}

TEST_CASE("usage sums by conversation, agent and day") {
  cli_with_conversation ctl;
  ctl.node.on_query = [](const v1::Query& q) {
    v1::Answer a;
    CHECK(q.list_usage().since_day() == 20'771);
    for (auto day : {20'777u, 20'778u}) {
      auto& d = *a.mutable_usage()->add_days();
      d.set_conversation_id(whole_id);
      d.set_harness("claude");
      d.set_day(day);
      d.mutable_usage()->set_turns(1);
      d.mutable_usage()->set_cost_usd(0.25);
      d.mutable_usage()->set_cost_known(true);
    }
    return a;
  };
  REQUIRE(ctl.run({"usage", "--since", "7d", "--json"}) == code::ok);
  const auto out = ctl.out_json();
  CHECK(out["total"]["cost_usd"] == 0.5);
  CHECK(out["conversations"][0]["turns"] == 2);
  CHECK(out["agents"][0]["harness"] == "claude");
  CHECK(out["days"].size() == 2);
  CHECK(ctl.run({"usage", "--since", "last week"}) == code::usage);
}
