// A conversation from its first prompt to the end of its turn, with a recording in the agent's place.
#include <doctest/doctest.h>

#include "swarm/v1/conversation.grpc.pb.h"
#include "tests/support/recorded_agent.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

struct talk : recorded_agent {
  std::string id;

  talk() : recorded_agent(part{}) {
    auto c = client->command();
    auto& start = *c.mutable_start_conversation();
    start.set_harness("claude");
    start.add_argv(agent);
    start.set_prompt("write a file");
    const auto r = client->execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    id = r.conversation().conversation().id();
  }

  v1::Conversation row() { return conversation(id); }
  /// "kind state" of what the log holds now.
  std::vector<std::string> read() {
    auto stub = v1::Conversations::NewStub(grpc::CreateChannel("unix:" + node.dir().socket().string(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    client->prepare(context);
    v1::ReadConversationRequest q;
    q.set_scope(node.work());
    q.set_conversation_id(id);
    auto stream = stub->Read(&context, q);
    std::vector<std::string> out;
    v1::ConversationChunk c;
    bool caught_up = false;
    while (stream->Read(&c)) {
      if (c.has_item() && c.item().last())
        out.push_back(std::to_string(c.item().kind()) + (c.item().state().empty() ? "" : " " + c.item().state()));
      caught_up |= c.has_caught_up();
    }
    const auto status = stream->Finish();
    CHECK_MESSAGE(status.ok(), status.error_message());
    CHECK(caught_up);
    return out;
  }
};

std::size_t count(const std::vector<std::string>& all, const std::string& one) {
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), one));
}

void check_whole_turn(const std::vector<std::string>& items) {
  CAPTURE(items.size());
  CHECK(count(items, "9 started") == 1);
  CHECK(count(items, "7 asked") == 1);
  CHECK(count(items, "7 allow") == 1);
  CHECK(count(items, "9 ended") == 1);
  CHECK(count(items, "4") == 3); // calls of tools
  CHECK(count(items, "5") == 3); // and what they have given
  REQUIRE_FALSE(items.empty());
  CHECK(items.back() == "9 ended");
}

} // namespace

TEST_CASE("a conversation asks for its permission, goes on with the decision and ends its turn") {
  talk t;
  const auto a = t.open_permission();
  CHECK(a.kind() == v1::Approval::FILE);
  CHECK(a.conversation_id() == t.id);
  CHECK(t.row().state() == v1::Conversation::BLOCKED);
  t.decide(a, "allow");
  REQUIRE(eventually([&] { return t.row().state() == v1::Conversation::IDLE; }));
  CHECK(t.row().usage().output_tokens() == 80);
  check_whole_turn(t.read());
}

TEST_CASE("what was said comes back with a backup that has the logs and is gone with one that has none") {
  talk t;
  t.decide(t.open_permission(), "allow");
  REQUIRE(eventually([&] { return t.row().state() == v1::Conversation::IDLE; }));
  const auto with = t.node.work() + "/with.db", without = t.node.work() + "/without.db";
  const auto made = t.node.ctl_json({"backup", "--with-logs", with});
  CHECK(made.at("conversations") == 1);
  CHECK(made.at("conversation_bytes").get<std::uint64_t>() > 0);
  CHECK_FALSE(t.node.ctl_json({"backup", without}).contains("conversations"));
  CHECK(t.node.ctl({"backup", "--with-logs", t.node.work() + "/with.db"}).status == 1);

  t.node.down();
  REQUIRE(t.node.ctl({"restore", without}).status == 0);
  CHECK_FALSE(fs::exists(t.node.dir().root / "conversations" / t.id));
  REQUIRE(t.node.ctl({"restore", with}).status == 0);
  t.node.start();
  t.reconnect();
  check_whole_turn(t.read());
}

TEST_CASE("a node that is killed while a permission is open loses and doubles nothing of the conversation") {
  talk t;
  const auto a = t.open_permission();
  t.node.kill_node();
  t.node.start();
  t.reconnect();
  CHECK(t.open_permission().id() == a.id());
  t.decide(a, "allow");
  REQUIRE(eventually([&] { return t.row().state() == v1::Conversation::IDLE; }));
  check_whole_turn(t.read());
  CHECK(count_lines(t.heard) == 7); // of the recording; each once
}
