// A conversation from its first prompt to the end of its turn, with a recording in the agent's place.
#include <doctest/doctest.h>

#include <fstream>

#include "swarm/v1/conversation.grpc.pb.h"
#include "tests/support/node_client.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// Plays the program's part of a recording; of what it hears, one line takes the place of each that was recorded.
constexpr const char* player = R"(#!/bin/bash
was_init=init-1
was_prompt=87916540-ed07-41dd-b0f0-984e9a4fb95a
while IFS= read -r recorded <&3; do
  if [[ $recorded == *'"to":'* ]]; then
    IFS= read -r heard || exit 0
    printf '%s\n' "$heard" >> "$HEARD"
    if [[ $recorded == *'"subtype":"initialize"'* && $heard =~ \"request_id\":\"([^\"]*)\" ]]; then init=${BASH_REMATCH[1]}; fi
    if [[ $recorded == *'"to":{"type":"user"'* && $heard =~ \"uuid\":\"([^\"]*)\" ]]; then prompt=${BASH_REMATCH[1]}; fi
  elif [[ $recorded =~ ^\{\"at\":[0-9]+,\"from\":(.*)\}$ ]]; then
    said=${BASH_REMATCH[1]}
    said=${said//$was_init/$init}
    printf '%s\n' "${said//$was_prompt/$prompt}"
  fi
done 3< "$RECORDING"
cat > /dev/null
)";

struct talk {
  test_node node;
  std::unique_ptr<node_client> client;
  std::string id;
  fs::path heard;

  talk() {
    const auto agent = fs::path{node.work()} / "agent";
    heard = fs::path{node.work()} / "heard";
    std::ofstream{agent} << "#!/bin/bash\nexport HEARD=" << heard.string() << " RECORDING=" << std::getenv("SWARM_SOURCE_DIR")
                         << "/tests/agents/fixtures/claude/streams/tools.jsonl\n"
                         << player;
    fs::permissions(agent, fs::perms::owner_all);
    node.start();
    client = std::make_unique<node_client>(node);
    auto c = client->command();
    auto& start = *c.mutable_start_conversation();
    start.set_harness("claude");
    start.add_argv(agent.string());
    start.set_prompt("write a file");
    const auto r = client->execute(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    id = r.conversation().conversation().id();
  }
  void reconnect() { client = std::make_unique<node_client>(node); }

  v1::Conversation row() {
    auto q = client->query();
    q.mutable_list_conversations()->set_id(id);
    const auto a = client->ask(q);
    REQUIRE(a.conversations().conversations_size() == 1);
    return a.conversations().conversations(0);
  }
  v1::Approval open_permission() {
    v1::Approval found;
    REQUIRE(eventually([&] {
      auto q = client->query();
      q.mutable_list_approvals()->set_open_only(true);
      const auto a = client->ask(q);
      if (a.approvals().approvals_size() != 1)
        return false;
      found = a.approvals().approvals(0);
      return true;
    }));
    return found;
  }
  void decide(const v1::Approval& a, const std::string& option) {
    auto c = client->command();
    c.mutable_decide_approval()->set_approval_id(a.id());
    c.mutable_decide_approval()->set_option(option);
    c.mutable_decide_approval()->set_action_digest(a.action_digest());
    const auto r = client->execute(c);
    CHECK_MESSAGE(!r.has_refusal(), r.refusal().text());
  }
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
