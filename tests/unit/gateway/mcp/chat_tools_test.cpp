#include <doctest/doctest.h>

#include "gateway/mcp/tool.hpp"
#include "tests/support/fake_mcp_host.hpp"

using namespace swarm;
using namespace swarm::mcp;

namespace {

struct fixture {
  test::fake_mcp_host process;
  std::unique_ptr<connection> node = process.connect({}, host::start::never);

  json call(const std::string& name, const json& arguments) {
    for (const auto& t : chat_tools())
      if (t.name == name) {
        CHECK(t.right == "chat");
        const tool_call c{process, *node, process.session, arguments, {}};
        return json::parse(std::get<tool_result>(t.run(c)).texts.at(0));
      }
    FAIL("no tool " << name);
    return {};
  }
};

v1::ConversationChunk text(const std::string& id, const std::string& body) {
  v1::ConversationChunk c;
  c.mutable_item()->set_kind(v1::CONVERSATION_TEXT);
  c.mutable_item()->set_id(id);
  c.mutable_item()->set_body(body);
  c.mutable_item()->set_cursor("after " + id);
  c.mutable_item()->set_last(true);
  return c;
}

} // namespace

TEST_CASE("chat_read gives so many items as were asked for, and where the next read goes on") {
  fixture f;
  f.process.conversation = [](const v1::ReadConversationRequest& r) {
    CHECK(r.scope() == "/repo");
    CHECK(r.conversation_id() == "c1");
    CHECK_FALSE(r.follow());
    return std::vector{text("1", "one"), text("2", "two"), text("3", "three")};
  };
  const auto first = f.call("chat_read", {{"conversation", "c1"}, {"items", 2}});
  CHECK(first["items"].size() == 2);
  CHECK(first["next"] == "after 2");
  CHECK(first["more"] == true);
  CHECK(f.call("chat_read", {{"conversation", "c1"}, {"items", 50}})["more"] == false);
}

TEST_CASE("chat_read gives of an item that is too long only what it is") {
  fixture f;
  f.process.conversation = [](const v1::ReadConversationRequest&) { return std::vector{text("1", std::string(1'000'000, 'x')), text("2", "two")}; };
  const auto read = f.call("chat_read", {{"conversation", "c1"}, {"items", 50}});
  CHECK(read["items"][0]["too_long"] == true);
  CHECK(read["items"][0]["text"].is_null());
  CHECK(read["items"][1]["text"] == "two");
}

TEST_CASE("chat_send and chat_interrupt answer with what became of it, also with a refusal") {
  fixture f;
  bool steers = false;
  f.process.decide = [&](const v1::Command& c) {
    CHECK(c.actor() == "session-1");
    v1::Reply r;
    r.mutable_conversation()->mutable_conversation()->set_id("c1");
    r.mutable_conversation()->mutable_conversation()->set_state(v1::Conversation::IDLE);
    if (c.has_send_prompt()) {
      CHECK(c.send_prompt().prompt() == "go on");
      CHECK(c.send_prompt().steer() == steers);
      r.mutable_conversation()->mutable_prompt()->set_id("p1");
      r.mutable_conversation()->mutable_prompt()->set_state(v1::Prompt::QUEUED);
    }
    return r;
  };
  CHECK(f.call("chat_send", {{"conversation", "c1"}, {"text", "go on"}, {"steer", false}}) == json{{"prompt", "p1"}, {"state", "queued"}});
  steers = true;
  f.call("chat_send", {{"conversation", "c1"}, {"text", "go on"}, {"steer", true}});
  CHECK(f.call("chat_interrupt", {{"conversation", "c1"}}) == json{{"conversation", "c1"}, {"state", "idle"}});
  f.process.decide = [](const v1::Command&) {
    v1::Reply r;
    r.mutable_refusal()->set_text("there is no such conversation");
    return r;
  };
  CHECK(f.call("chat_send", {{"conversation", "x"}, {"text", "go on"}, {"steer", false}}) == json{{"error", "there is no such conversation"}});
}
