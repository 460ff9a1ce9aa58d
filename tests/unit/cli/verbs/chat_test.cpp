#include "tests/unit/cli/fake_node.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace swarm;
using namespace swarm::cli;
using swarm::testing::session;

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

TEST_CASE("chat new does not wait for a turn of a prompt that the agent never got whether it ended or waits for another one") {
  for (const auto at_rest : {v1::Conversation::SUSPENDED, v1::Conversation::IDLE}) {
    cli_with_conversation ctl;
    ctl.prompt.set_state(v1::Prompt::UNDELIVERABLE);
    ctl.prompt.set_reason("claude is not installed");
    v1::ConversationChunk state;
    state.mutable_state()->set_state(at_rest);
    ctl.node.conversations.push_back({{state}, stream_end::lost});
    CHECK(ctl.run({"chat", "new", "fix it", "--json"}) == code::refused);
    CHECK(ctl.out_json()["failed"] == true);
    CHECK(ctl.out_json()["reason"] == "the agent did not get the prompt: claude is not installed");
  }
}

TEST_CASE("chat new does not wait for the end of a turn that is in a gap of the log") {
  for (const bool is_begin_kept : {true, false}) {
    cli_with_conversation ctl;
    ctl.prompt.set_state(v1::Prompt::CONSUMED);
    v1::ConversationChunk gap, caught_up, state;
    gap.mutable_resumed()->set_gap("damaged");
    caught_up.mutable_caught_up();
    *state.mutable_state() = ctl.row;
    std::vector<v1::ConversationChunk> chunks{gap, caught_up, state};
    if (is_begin_kept)
      chunks.insert(chunks.begin(), item(v1::CONVERSATION_TURN, "1", "", "started"));
    ctl.node.conversations.push_back({chunks, stream_end::lost});
    CHECK(ctl.run({"chat", "new", "fix it"}) == code::refused);
    CHECK_MESSAGE(ctl.screen.err.find("the end of the turn is not kept; what is: swarmctl chat read " + whole_id) != std::string::npos,
                  ctl.screen.err);
  }
}

TEST_CASE("chat new does not wait for an agent that cannot be started nor for a queue that somebody holds") {
  for (const bool held : {false, true}) {
    cli_with_conversation ctl;
    v1::ConversationChunk state;
    state.mutable_state()->set_state(held ? v1::Conversation::IDLE : v1::Conversation::SUSPENDED);
    state.mutable_state()->set_reason(held ? "" : "claude is not installed");
    state.mutable_state()->set_queued(1);
    state.mutable_state()->set_held(held);
    ctl.node.conversations.push_back({{state}, stream_end::lost});
    CHECK(ctl.run({"chat", "new", "fix it"}) == code::refused);
    CHECK(ctl.screen.err.find(held ? "swarmctl chat resume" : "the prompt waits: claude is not installed") != std::string::npos);
  }
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
  CHECK(ctl.screen.err.find("this cursor is not one of this conversation") != std::string::npos);
  v1::ConversationChunk state;
  state.mutable_state()->set_state(v1::Conversation::ENDED);
  ctl.node.conversations.push_back({{state}, stream_end::lost});
  CHECK(ctl.run({"chat", "read", whole_id, "--follow"}) == code::ok);
}

TEST_CASE("chat read follows a conversation that has ended until its last turn is over") {
  cli_with_conversation ctl;
  v1::ConversationChunk ending, ended;
  ending.mutable_state()->set_state(v1::Conversation::ENDED);
  ending.mutable_state()->set_open_turn("1");
  ended.mutable_state()->set_state(v1::Conversation::ENDED);
  ctl.node.conversations.push_back({{ending, item(v1::CONVERSATION_TURN, "1", "the agent was ended", "failed"), ended}, stream_end::lost});
  CHECK(ctl.run({"chat", "read", whole_id, "--follow"}) == code::ok);
  CHECK(ctl.screen.out.find("the agent was ended") != std::string::npos);
}

TEST_CASE("chat send and the changes name the conversation by the first characters of its id") {
  cli_with_conversation ctl;
  REQUIRE(ctl.run({"chat", "send", "c0ffee", "go", "on", "--json"}) == code::ok);
  CHECK(ctl.out_json() == json{{"prompt", "p1"}, {"state", "queued"}, {"reason", nullptr}});
  CHECK(ctl.node.commands.back().send_prompt().prompt() == "go on");
  CHECK(ctl.node.commands.back().send_prompt().conversation_id() == whole_id);
  REQUIRE(ctl.run({"chat", "interrupt", "@last"}) == code::ok);
  CHECK(ctl.node.commands.back().interrupt_conversation().conversation_id() == whole_id);
  REQUIRE(ctl.run({"chat", "stop", "c0ffee"}) == code::ok);
  REQUIRE(ctl.run({"chat", "resume", "c0ffee"}) == code::ok);
  REQUIRE(ctl.run({"chat", "rename", "c0ffee", "other", "name"}) == code::ok);
  CHECK(ctl.node.commands.back().rename_conversation().title() == "other name");
  CHECK(ctl.run({"chat", "delete", "c0ffee"}) == code::refused);
  CHECK(ctl.screen.err.find("swarmctl chat stop " + whole_id) != std::string::npos);
  ctl.row.set_state(v1::Conversation::ENDED);
  REQUIRE(ctl.run({"chat", "delete", "c0ffee"}) == code::ok);
  CHECK(ctl.node.commands.back().delete_conversation().conversation_id() == whole_id);
  CHECK(ctl.run({"chat", "send", "beef", "x"}) == code::refused);
  CHECK(ctl.run({"chat", "send", "c0ffee", " "}) == code::usage);
}

TEST_CASE("chat send hands over the files first and names them by their digest") {
  cli_with_conversation ctl;
  const auto directory = std::filesystem::temp_directory_path() / ("swarm-chat-" + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  ctl.directory = directory.string();
  std::ofstream{directory / "a.png"} << "\x89PNG\r\n\x1a\nrest";
  std::ofstream{directory / "notes.md"} << "words";
  REQUIRE_MESSAGE(ctl.run({"chat", "send", "c0ffee", "look", "--image", "a.png", "--file", "notes.md", "--steer"}) == code::ok, ctl.screen.err);
  const auto& body = ctl.node.commands.back().send_prompt();
  CHECK(body.steer());
  REQUIRE(body.attachments_size() == 2);
  CHECK(body.attachments(0).media_type() == "image/png");
  CHECK(body.attachments(0).name() == "a.png");
  CHECK(ctl.node.blobs.at(body.attachments(0).digest()) == "\x89PNG\r\n\x1a\nrest");
  CHECK(body.attachments(1).media_type() == "text/plain");
  CHECK(body.attachments(1).bytes() == 5);
  CHECK(ctl.node.blob_of == whole_id);
  const auto sent = ctl.node.commands.size();
  CHECK(ctl.run({"chat", "send", "c0ffee", "look", "--image", "notes.md"}) == code::refused);
  CHECK(ctl.run({"chat", "send", "c0ffee", "look", "--file", "none"}) == code::refused);
  CHECK(ctl.run({"chat", "send", "c0ffee", "look", "--stdin"}) == code::usage);
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);
  CHECK(ctl.run({"chat", "send", "c0ffee", "look", "--file", "pipe"}) == code::refused);
  CHECK(ctl.screen.err.find("is no regular file") != std::string::npos);
  CHECK(ctl.node.commands.size() == sent);
  std::filesystem::remove_all(directory);
}

TEST_CASE("chat set says what the agent may do unasked and for how long") {
  cli_with_conversation ctl;
  ctl.row.set_permissions(v1::Conversation::AUTO);
  ctl.row.add_allowed("Bash(make)");
  REQUIRE(ctl.run({"chat", "set", "c0ffee", "--permissions", "auto", "--for", "2h", "--allow", "Bash(make)", "--forget", "Write", "--model", "m"}) ==
          code::ok);
  const auto& body = ctl.node.commands.back().set_conversation();
  CHECK(body.conversation_id() == whole_id);
  CHECK(body.permissions() == v1::Conversation::AUTO);
  CHECK(body.permissions_ms() == 7'200'000);
  CHECK(body.allow(0) == "Bash(make)");
  CHECK(body.forget(0) == "Write");
  CHECK(body.model() == "m");
  CHECK(ctl.screen.out == "conversation c0ffee00: permissions auto\n  allowed unasked: Bash(make)\n");
  const auto sent = ctl.node.commands.size();
  CHECK(ctl.run({"chat", "set", "c0ffee"}) == code::ok); // shows the same
  CHECK(ctl.screen.out == "conversation c0ffee00: permissions auto\n  allowed unasked: Bash(make)\n");
  CHECK(ctl.node.commands.size() == sent);
  CHECK(ctl.run({"chat", "set", "c0ffee", "--permissions", "all"}) == code::usage);
  CHECK(ctl.run({"chat", "set", "c0ffee", "--permissions", "ask", "--for", "2h"}) == code::usage);
  CHECK(ctl.run({"chat", "set", "c0ffee", "--permissions", "auto", "--for", "soon"}) == code::usage);
  CHECK(ctl.run({"chat", "set", "c0ffee", "--permissions", "auto", "--for", "9h"}) == code::usage);
  CHECK(ctl.screen.err.find("--for takes a time such as 30m or 2h, at most 8 h") != std::string::npos);
  REQUIRE(ctl.run({"chat", "new", "--detach", "--permissions", "auto-edit", "--allow", "Read"}) == code::ok);
  CHECK(ctl.node.commands.back().start_conversation().permissions() == v1::Conversation::AUTO_EDIT);
  CHECK(ctl.node.commands.back().start_conversation().allowed(0) == "Read");
}

TEST_CASE("chat prompts says what became of each") {
  cli_with_conversation ctl;
  ctl.prompt.set_text("fix it\nnow");
  ctl.prompt.set_state(v1::Prompt::UNKNOWN);
  ctl.prompt.set_reason("its driver ended");
  REQUIRE(ctl.run({"chat", "prompts", "c0ffee"}) == code::ok);
  CHECK(ctl.screen.out.find("unknown (its driver ended)  fix it  (again: swarmctl chat resend c0ffee00 p1)\n") != std::string::npos);
  REQUIRE(ctl.run({"chat", "prompts", "c0ffee", "--json"}) == code::ok);
  CHECK(ctl.out_json()[0]["reason"] == "its driver ended");
}

TEST_CASE("chat resend sends a prompt again that is undeliverable or whose outcome is unknown and no other") {
  cli_with_conversation ctl;
  ctl.prompt.set_id("feed0000-1");
  ctl.prompt.set_text("fix it");
  ctl.prompt.add_attachments()->set_name("a.png");
  ctl.prompt.set_state(v1::Prompt::CONSUMED);
  CHECK(ctl.run({"chat", "resend", "c0ffee"}) == code::refused);
  CHECK(ctl.screen.err.find("there is no prompt that is undeliverable or whose outcome is unknown") != std::string::npos);
  ctl.prompt.set_state(v1::Prompt::UNKNOWN);
  CHECK(ctl.run({"chat", "resend", "c0ffee", "dead"}) == code::refused);
  REQUIRE(ctl.run({"chat", "resend", "c0ffee", "feed"}) == code::ok);
  const auto& body = ctl.node.commands.back().send_prompt();
  CHECK(body.prompt() == "fix it");
  CHECK(body.attachments(0).name() == "a.png");
  ctl.prompt.set_state(v1::Prompt::UNDELIVERABLE);
  REQUIRE(ctl.run({"chat", "resend", "c0ffee"}) == code::ok);
  REQUIRE(ctl.run({"chat", "prompts", "c0ffee"}) == code::ok);
  CHECK(ctl.screen.out.find("fix it  (again: swarmctl chat resend c0ffee00 feed0000)\n") != std::string::npos);
  ctl.prompt.clear_text();
  CHECK(ctl.run({"chat", "resend", "c0ffee"}) == code::refused);
}

TEST_CASE("agents shows the agent of a conversation beside those on terminals with what it does") {
  cli_with_conversation ctl;
  ctl.row.set_session_id("5e551044-1");
  ctl.row.set_state(v1::Conversation::BLOCKED);
  ctl.row.set_model("opus");
  ctl.row.set_open_turn("3");
  ctl.row.mutable_usage()->set_turns(2);
  ctl.row.mutable_usage()->set_cost_usd(0.5);
  ctl.row.mutable_usage()->set_cost_known(true);
  const auto before = ctl.node.on_query;
  ctl.node.on_query = [&](const v1::Query& q) {
    v1::Answer a;
    if (q.has_list_sessions())
      *a.mutable_sessions()->add_sessions() = session("5e551044-1", "role:x");
    if (q.has_list_spawns()) {
      auto& s = *a.mutable_spawns()->add_spawns();
      s.set_session_id("5e551044-1");
      s.set_harness("claude");
    }
    return q.has_list_conversations() ? before(q) : a;
  };
  REQUIRE(ctl.run({"agents"}) == code::ok);
  CHECK(ctl.screen.out == "  5e551044  blocked  claude  chat=c0ffee00  opus  2 turns  $0.5000  task=-  role:x\n");
  REQUIRE(ctl.run({"agents", "--json"}) == code::ok);
  CHECK(ctl.out_json()[0]["conversation"] == whole_id);
  CHECK(ctl.out_json()[0]["turn"] == "3");
}

TEST_CASE("approvals follows the pages of what is open and asks for a body that a page leaves out") {
  cli_with_conversation ctl;
  auto approval = [&](const std::string& id, std::int64_t at_ms) {
    v1::Approval a;
    a.set_id(id);
    a.set_scope("/r");
    a.set_kind(v1::Approval::COMMAND);
    a.set_conversation_id(whole_id);
    a.set_title("Bash: make");
    a.set_created_at_ms(at_ms);
    a.set_deadline_ms(1'795'291'700'000 + 90'000);
    a.add_options("deny");
    return a;
  };
  ctl.node.on_query = [&](const v1::Query& q) {
    v1::Answer a;
    if (!q.has_list_approvals())
      return a;
    auto& out = *a.mutable_approvals();
    const auto& asked = q.list_approvals();
    if (!asked.id().empty()) {
      *out.add_approvals() = approval(asked.id(), 1'000);
      out.mutable_approvals(0)->set_body("all of it");
    } else if (asked.page().token().empty()) {
      CHECK(asked.has_page());
      *out.add_approvals() = approval("first", 1'000);
      out.mutable_approvals(0)->set_body_bytes(9);
      out.mutable_approvals(0)->set_body_left_out(true);
      out.mutable_page()->set_token("2");
    } else {
      *out.add_approvals() = approval("second", 2'000);
    }
    return a;
  };
  REQUIRE(ctl.run({"approvals", "--json"}) == code::ok);
  const auto rows = ctl.out_json();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["id"] == "first");
  CHECK(rows[0]["body"] == "all of it");
  CHECK(rows[0]["decided_by"].is_null());
  CHECK(rows[1]["id"] == "second");
  REQUIRE(ctl.run({"approvals"}) == code::ok);
  CHECK(ctl.screen.out.find("      all of it\n      denied in 1 min 30 s, unless somebody decides\n") != std::string::npos);
  CHECK(ctl.screen.out.find("(0 B") == std::string::npos);
}

TEST_CASE("approvals says who has decided and whether the agent has it, and of what was deleted that it was") {
  cli_with_conversation ctl;
  v1::Approval a;
  a.set_id("abcd1234-0000-4000-8000-000000000001");
  a.set_scope("/r");
  a.set_kind(v1::Approval::COMMAND);
  a.set_conversation_id(whole_id);
  a.set_title("Bash: make");
  a.set_body_bytes(50'000);
  a.set_decided_at_ms(2'000);
  a.set_decision("allow");
  a.mutable_decided_by()->set_kind(v1::Principal::SESSION);
  a.mutable_decided_by()->set_id("5e551044-1");
  a.set_delivery(v1::Approval::REFUSED);
  a.set_delivery_reason("held by a peer");
  ctl.node.on_query = [&](const v1::Query& q) {
    v1::Answer out;
    if (q.has_list_approvals())
      *out.mutable_approvals()->add_approvals() = a;
    return out;
  };
  REQUIRE(ctl.run({"approvals", "--all"}) == code::ok);
  CHECK(ctl.screen.out.find("allow by session 5e551044, and did not reach the agent: held by a peer\n") != std::string::npos);
  CHECK(ctl.screen.out.find("all of it: swarmctl approvals " + a.id() + ")\n") != std::string::npos); // from any directory
  REQUIRE(ctl.run({"approvals", "--all", "--json"}) == code::ok);
  CHECK(ctl.out_json()[0]["decided_by"] == json{{"kind", "session"}, {"id", "5e551044-1"}});
  a.clear_title();
  a.clear_decision();
  a.set_withdrawn("deleted");
  REQUIRE(ctl.run({"approvals", "--all"}) == code::ok);
  CHECK(ctl.screen.out.find("what was asked has been deleted with it") != std::string::npos);
  CHECK(ctl.screen.out.find("all of it") == std::string::npos);
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
    CHECK(q.list_usage().since_day() == 20'772); // today and the six days before
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
