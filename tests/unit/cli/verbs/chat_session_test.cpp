#include "cli/verbs/chat_session.hpp"
#include "gateway/session/screen.hpp"

#include <doctest/doctest.h>

using namespace swarm;
using namespace swarm::cli;

namespace {

struct attached {
  std::string bytes;
  std::vector<chat_wish> wishes;
  std::int64_t now = 0;
  chat_session session{{[this](std::string_view b) { bytes += b; }, [this](chat_wish w) { wishes.push_back(std::move(w)); }, [this] { return now; }},
                       "c0ffee00",
                       60,
                       false};

  attached() {
    session.start();
    v1::ConversationChunk c;
    c.mutable_caught_up();
    session.take(c);
  }
  void state(v1::Conversation::State s) {
    v1::ConversationChunk c;
    c.mutable_state()->set_id("c0ffee00-1");
    c.mutable_state()->set_state(s);
    session.take(c);
  }
  v1::ConversationItem item(v1::ConversationItemKind kind, const std::string& id, const std::string& body, const std::string& title = {}) {
    v1::ConversationItem i;
    i.set_kind(kind);
    i.set_id(id);
    i.set_body(body);
    i.set_title(title);
    i.set_last(true);
    return i;
  }
  void take(const v1::ConversationItem& i) {
    v1::ConversationChunk c;
    *c.mutable_item() = i;
    session.take(c);
  }
  void delta(const std::string& text, std::uint64_t offset) {
    v1::ConversationChunk c;
    c.mutable_delta()->set_kind(v1::CONVERSATION_TEXT);
    c.mutable_delta()->set_text(text);
    c.mutable_delta()->set_offset(offset);
    session.take(c);
  }
  bool type(std::string_view keys, std::int64_t now_ms) {
    now = now_ms;
    return session.type(keys);
  }
  void permission(std::int64_t now_ms) {
    now = now_ms;
    auto i = item(v1::CONVERSATION_PERMISSION, "n1", R"({"command":"rm x"})", "Bash: rm x");
    i.set_state("asked");
    i.set_approval_id("abcd1234-1");
    take(i);
    v1::Approval a;
    a.set_id("abcd1234-1");
    a.set_title("Bash: rm x");
    a.set_body(R"({"command":"rm x"})");
    a.set_conversation_id("c0ffee00-1");
    for (const auto* o : {"allow", "deny", "always"})
      a.add_options(o);
    session.found(a);
  }
  std::string screen() const { return mcp::screen_text(bytes, 60, 24, 24, true); }
};

} // namespace

TEST_CASE("what is streamed is shown once, also when the whole of it comes at the end") {
  attached a;
  a.state(v1::Conversation::RUNNING);
  a.delta("Hello wor", 0);
  CHECK(a.screen().find("Hello wor\nrunning>") != std::string::npos);
  a.delta("Hello world", 0); // the begin again, after a reconnection
  a.take(a.item(v1::CONVERSATION_TEXT, "x", "Hello world, and more"));
  CHECK(a.screen() == "Hello world, and more\nrunning>\n");
}

TEST_CASE("a long text that is streamed is wrapped between words and leaves nothing behind") {
  attached a;
  std::string text;
  for (int i = 0; i < 20; ++i) {
    a.delta("word" + std::to_string(i) + " ", text.size());
    text += "word" + std::to_string(i) + " ";
  }
  a.take(a.item(v1::CONVERSATION_TEXT, "x", text));
  auto shown = a.screen();
  CHECK(shown.find("word0 word1") == 0);
  for (int i = 0; i < 20; ++i)
    CHECK(shown.find("word" + std::to_string(i)) == shown.rfind("word" + std::to_string(i) + (i == 1 ? " " : "")));
}

TEST_CASE("control characters of an agent are shown and do nothing") {
  attached a;
  a.delta("a\x1b[2Jb\rc", 0);
  CHECK(a.bytes.find("\x1b[2J") == std::string::npos);
  a.take(a.item(v1::CONVERSATION_TOOL_CALL, "t", R"({"command":"\u001b]0;x\u0007"})", "Ba\x1b[31msh"));
  CHECK(a.bytes.find("\x1b[31m") == std::string::npos);
  CHECK(a.bytes.find("\x1b]0") == std::string::npos);
}

TEST_CASE("a permission is shown with its action and answered by a key, about exactly what was shown") {
  attached a;
  a.permission(1'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].what == chat_wish::kind::look);
  CHECK(a.screen().find("? Bash: rm x  [abcd1234]\n    command: rm x\n  a allow   d deny   A always") != std::string::npos);
  a.type("a", 1'100); // it may have been meant for a line
  CHECK(a.wishes.size() == 1);
  a.type("\x7f", 1'200);
  a.type("A", 2'000);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].what == chat_wish::kind::decide);
  CHECK(a.wishes[1].option == "always");
  CHECK(a.wishes[1].shown == R"({"command":"rm x"})");
}

TEST_CASE("a key in a line that is being typed decides nothing, nor does one in a paste or in an escape sequence") {
  attached a;
  a.type("x", 0);
  a.permission(1'000);
  a.type("a", 9'000);
  a.type("\x15", 9'001);
  a.type("\x1b[A", 9'002);
  a.type("\x15\x1b[200~d\x1b[201~", 9'003);
  CHECK(a.wishes.size() == 1);
}

TEST_CASE("a denial takes words for the agent") {
  attached a;
  a.permission(1'000);
  a.type("m", 2'000);
  CHECK(a.screen().find("deny, because>") != std::string::npos);
  a.type("use make\r", 2'100);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].option == "deny");
  CHECK(a.wishes[1].message == "use make");
}

TEST_CASE("what somebody else has decided is shown, and is not asked any more") {
  attached a;
  a.permission(1'000);
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.take(i);
  CHECK(a.screen().find("permission: deny  (decided elsewhere)") != std::string::npos);
  a.type("a", 9'000);
  CHECK(a.wishes.size() == 1);
}

TEST_CASE("of a question that comes after another one the key counts only once it can have been read") {
  attached a;
  a.permission(1'000);
  v1::Approval next;
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n2", "{}", "Write");
  i.set_state("asked");
  i.set_approval_id("beef1234-1");
  a.take(i);
  next.set_id("beef1234-1");
  next.add_options("allow");
  a.session.found(next);
  i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.now = 5'000;
  a.take(i);
  a.type("a", 5'100);
  CHECK(a.wishes.size() == 2);
  a.type("\x7f", 5'200);
  a.type("a", 6'000);
  REQUIRE(a.wishes.size() == 3);
  CHECK(a.wishes[2].approval_id == "beef1234-1");
}

TEST_CASE("Ctrl-C interrupts the turn, and a second one within a second leaves, as Ctrl-D does") {
  attached a;
  a.state(v1::Conversation::RUNNING);
  CHECK(a.type("\x03", 1'000));
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].what == chat_wish::kind::interrupt);
  CHECK(a.type("\x03", 5'000));
  CHECK_FALSE(a.type("\x03", 5'500));
  CHECK_FALSE(a.type("\x04", 9'000));
}

TEST_CASE("a line becomes a prompt, and a refusal is said") {
  attached a;
  a.type("fix it\r", 0);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].text == "fix it");
  a.session.failed(a.wishes[0], "32 prompts wait already");
  CHECK(a.screen().find("! not sent: fix it\n! 32 prompts wait already\n") != std::string::npos);
}

TEST_CASE("that the node is away is said once, and that it is back") {
  attached a;
  a.session.away(true);
  a.session.away(true);
  a.state(v1::Conversation::IDLE);
  const auto shown = a.screen();
  CHECK(shown.find("! the node is away") == shown.rfind("! the node is away"));
  CHECK(shown.find("! the node is back") != std::string::npos);
}
