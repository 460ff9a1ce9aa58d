#include "actors/base/crypto.hpp"
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
  chat_session session{{[this](std::string_view b) { bytes += b; }, [this](chat_wish w) { wishes.push_back(std::move(w)); }, [this] { return now; },
                        [this] { return now + 1'000'000; }},
                       "c0ffee00",
                       60,
                       false};

  attached() {
    session.start();
    v1::ConversationChunk c;
    c.mutable_caught_up();
    session.take(c);
    CHECK(wishes.size() == 1); // what was asked before that is looked for
    CHECK(wishes.at(0).what == chat_wish::kind::look_open);
    wishes.clear();
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
  void pass(std::int64_t now_ms) {
    now = now_ms;
    session.pass();
  }
  /// A key, and no other for half a second.
  void press(std::string_view key, std::int64_t now_ms) {
    type(key, now_ms);
    pass(now_ms + 500);
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
  /// A question of the agent, with these options in its row.
  void question(std::int64_t now_ms, const std::string& body, const std::vector<std::string>& options) {
    now = now_ms;
    v1::Approval q;
    q.set_id("abcd1234-2");
    q.set_title("Questions");
    q.set_kind(v1::Approval::QUESTION);
    q.set_body(body);
    q.set_conversation_id("c0ffee00-1");
    for (const auto& o : options)
      q.add_options(o);
    session.found(q);
  }
  std::string screen() const { return mcp::screen_text(bytes, 60, 24, 24, true); }
};

} // namespace

TEST_CASE("a question of ask_person is asked in the attached terminal and its end told though what is said has neither") {
  attached a;
  v1::Approval asked;
  asked.set_id("abcd1234-1");
  asked.set_kind(v1::Approval::QUESTION);
  asked.set_title("Deploy now?");
  asked.set_body("Deploy now?");
  asked.set_action_digest(sha256(asked.body()));
  asked.add_options("now");
  asked.add_options("later");
  asked.set_deadline_ms(1'000'000 + 61'000);
  a.now = 1000;
  a.session.found(asked);
  CHECK(a.bytes.find("? Deploy now?  [abcd1234]") != std::string::npos);
  CHECK(a.bytes.find("expires in 1 min 0 s without an answer") != std::string::npos);
  a.press("2", 2000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].decision.option() == "later");
  a.session.found(asked); // an answer that is older than the decision
  asked.set_decision("later");
  asked.set_decided_at_ms(3);
  asked.mutable_decided_by()->set_kind(v1::Principal::OPERATOR);
  a.bytes.clear();
  a.session.found(asked);
  CHECK(a.bytes.find("later by a person") != std::string::npos);

  asked.set_id("abcd1234-2");
  asked.clear_decision();
  asked.set_decided_at_ms(0);
  a.session.found(asked);
  asked.set_decision("now");
  asked.set_decided_at_ms(4);
  a.session.found(asked);
  CHECK(a.bytes.find("now by a person") != std::string::npos);
  a.press("2", 5000);
  CHECK(a.wishes.size() == 1); // nobody asks any more
}

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
  a.press("A", 2'000);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].what == chat_wish::kind::decide);
  CHECK(a.wishes[1].decision.option() == "always");
  CHECK(a.wishes[1].decision.action_digest() == sha256(R"({"command":"rm x"})"));
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
  CHECK(a.wishes[1].decision.option() == "deny");
  CHECK(a.wishes[1].decision.message() == "use make");
}

TEST_CASE("a letter that comes with others decides nothing") {
  attached a;
  a.permission(1'000);
  a.type("and then do it", 9'000);
  a.pass(20'000);
  CHECK(a.wishes.size() == 1);
  CHECK(a.screen().find("and then do it") != std::string::npos);
}

TEST_CASE("a letter decides half a second after it, unless another one follows: then it begins a word") {
  attached a;
  a.permission(1'000);
  a.type("a", 9'000);
  CHECK(a.screen().find("allow? a") != std::string::npos);
  CHECK(a.session.due_ms() == 9'500);
  a.pass(9'499);
  a.type("l", 9'499);
  CHECK_FALSE(a.session.due_ms());
  a.pass(20'000);
  CHECK(a.wishes.size() == 1);
  a.type("so\r", 20'000);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].text == "also");
  a.type("d", 21'000);
  a.pass(21'500);
  REQUIRE(a.wishes.size() == 3);
  CHECK(a.wishes[2].decision.option() == "deny");
  CHECK(a.screen().find("deny?") == std::string::npos);
}

TEST_CASE("a letter with Enter decides at once, and one that is taken back decides nothing") {
  attached a;
  a.permission(1'000);
  a.type("a", 9'000);
  a.type("\x7f", 9'100);
  a.pass(20'000);
  CHECK(a.wishes.size() == 1);
  a.type("d", 20'000);
  a.type("\r", 20'010);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].what == chat_wish::kind::decide);
  CHECK(a.wishes[1].decision.option() == "deny");
  a.pass(30'000);
  CHECK(a.wishes.size() == 2);
}

TEST_CASE("a letter for an answer that somebody else has just given is neither an answer to the next question nor a prompt") {
  attached a;
  a.permission(1'000);
  a.type("a", 9'000);
  a.question(9'100, R"({"questions":[{"question":"A?","options":[{"label":"x"},{"label":"y"}]}]})", {"a", "y"});
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.take(i);
  a.pass(20'000);
  a.type("\r", 20'000);
  CHECK(a.wishes.size() == 1);
  CHECK(a.screen().find("! not sent: it was an answer") != std::string::npos);
}

TEST_CASE("words for an answer that somebody else gives meanwhile are not sent to the agent and stay") {
  attached a;
  a.permission(1'000);
  a.type("m", 2'000);
  a.type("because it is da", 2'100);
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.take(i);
  CHECK(a.screen().find("decided elsewhere> because it is da") != std::string::npos);
  a.type("ngerous\r", 2'200);
  CHECK(a.wishes.size() == 1);
  CHECK(a.screen().find("! not sent: it was an answer") != std::string::npos);
  a.type("\x1b[A\r", 2'300);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].text == "because it is dangerous");
}

TEST_CASE("numbers that were typed at a question which somebody else answers are no prompt") {
  attached a;
  a.question(1'000, R"({"questions":[{"question":"A?","options":[{"label":"x"},{"label":"y"}]}]})", {"a", "y"});
  a.type("2", 5'000);
  a.type("1", 5'010);
  a.type("3", 5'020);
  auto i = a.item(v1::CONVERSATION_QUESTION, "n2", "");
  i.set_state("answered");
  i.set_approval_id("abcd1234-2");
  a.take(i);
  a.type("\r", 6'000);
  CHECK(a.wishes.empty());
  CHECK(a.screen().find("! not sent: it was an answer") != std::string::npos);
}

TEST_CASE("what is withdrawn has been decided by nobody") {
  attached a;
  a.permission(1'000);
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("withdrawn");
  a.take(i);
  CHECK(a.bytes.find("permission: withdrawn: Bash: rm x") != std::string::npos);
  CHECK(a.bytes.find("decided elsewhere") == std::string::npos);
}

TEST_CASE("what somebody else has decided is shown, and is not asked any more") {
  attached a;
  a.permission(1'000);
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.take(i);
  CHECK(a.bytes.find("permission: deny: Bash: rm x  [abcd1234]  (decided elsewhere)") != std::string::npos);
  a.press("a", 9'000);
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
  a.press("a", 6'000);
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

TEST_CASE("Ctrl-C interrupts what has not begun: while the agent starts and before it has the prompt") {
  attached a;
  a.state(v1::Conversation::STARTING);
  a.type("\x03", 1'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].what == chat_wish::kind::interrupt);
  a.state(v1::Conversation::IDLE);
  a.type("delete all\r", 5'000);
  a.type("\x03", 6'000);
  REQUIRE(a.wishes.size() == 3);
  CHECK(a.wishes[2].what == chat_wish::kind::interrupt);
  a.take(a.item(v1::CONVERSATION_USER, "u", "delete all"));
  a.type("\x03", 9'000);
  CHECK(a.wishes.size() == 3);
  CHECK(a.screen().find("  nothing runs") != std::string::npos);
}

TEST_CASE("Ctrl-C at rest interrupts nothing, also after a prompt that was refused") {
  attached a;
  a.state(v1::Conversation::IDLE);
  a.type("fix it\r", 0);
  a.session.failed(a.wishes.at(0), "32 prompts wait already");
  a.type("\x03", 5'000);
  CHECK(a.wishes.size() == 1);
  CHECK(a.screen().find("  nothing runs") != std::string::npos);
}

TEST_CASE("who leaves right after an interrupt is not told that words are being sent") {
  attached a;
  a.session.left(true, false);
  CHECK(a.screen().find("  interrupting; ^C gives up") != std::string::npos);
  CHECK(a.screen().find("what you typed") == std::string::npos);
}

TEST_CASE("what was typed and fails after the person has left is said and remembered") {
  attached a;
  a.type("third\r", 0);
  CHECK_FALSE(a.type("\x04", 1'000));
  a.session.left(true);
  CHECK(a.screen().find("  sending what you typed; ^C gives up") != std::string::npos);
  CHECK_FALSE(a.session.has_lost());
  a.session.failed({.what = chat_wish::kind::look_open}, "cancelled");
  CHECK_FALSE(a.session.has_lost());
  a.session.failed(a.wishes.at(0), "no answer by the deadline");
  CHECK(a.session.has_lost());
  CHECK(a.screen().find("! not sent: third") != std::string::npos);
}

TEST_CASE("of several permissions the end of each names it") {
  attached a;
  a.permission(1'000);
  a.question(1'000, R"({"questions":[{"question":"A?","options":[{"label":"x"}]}]})", {"x"});
  a.press("d", 9'000);
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", "");
  i.set_state("deny");
  a.take(i);
  CHECK(a.screen().find("permission: deny: Bash: rm x  [abcd1234]\n") != std::string::npos);
}

TEST_CASE("a permission says what always allows from then on") {
  attached a;
  v1::Approval p;
  p.set_id("abcd1234-5");
  p.set_title("Bash: make");
  p.set_body("{}");
  p.set_conversation_id("c0ffee00-1");
  p.set_pattern("Bash(make)");
  for (const auto* o : {"allow", "deny"})
    p.add_options(o);
  a.session.found(p);
  CHECK(a.screen().find("always") == std::string::npos);
  p.set_id("abcd1234-6");
  p.add_options("always");
  a.press("d", 9'000);
  a.session.found(p);
  CHECK(a.screen().find("    always: Bash(make)\n") != std::string::npos);
}

TEST_CASE("a permission counts down to its denial") {
  attached a;
  v1::Approval p;
  p.set_id("abcd1234-5");
  p.set_title("Bash: make");
  p.set_body("{}");
  p.set_conversation_id("c0ffee00-1");
  p.set_deadline_ms(1'000'000 + 30 * 60'000);
  p.add_options("deny");
  a.session.found(p);
  CHECK(a.screen().find("    denied in 30 min, unless somebody decides\n") != std::string::npos);
  CHECK(a.screen().find("d  30 min>") != std::string::npos);
  REQUIRE(a.session.due_ms());
  a.pass(29 * 60'000 + 15'000);
  CHECK(a.screen().find("d  45 s>") != std::string::npos);
  CHECK(*a.session.due_ms() <= a.now + 1'001);
  a.pass(30 * 60'000);
  CHECK_FALSE(a.session.due_ms());
}

TEST_CASE("what an agent says behind a permission makes it be shown again before a key counts") {
  attached a;
  a.permission(1'000);
  a.now = 5'000;
  for (int i = 0; i < 30; ++i)
    a.take(a.item(v1::CONVERSATION_TEXT, "t" + std::to_string(i), "a line"));
  a.take(a.item(v1::CONVERSATION_TEXT, "x", "? Bash: ls  [fc595ef7]\n    command: ls\n  a allow   d deny"));
  CHECK(a.screen().find("| ? Bash: ls  [fc595ef7]") != std::string::npos);
  CHECK(a.screen().find("rm x") == std::string::npos);
  a.type("a", 9'000);
  CHECK(a.screen().find("? Bash: rm x  [abcd1234]\n    command: rm x\n") != std::string::npos);
  a.pass(20'000);
  CHECK(a.wishes.size() == 1);
  a.type("\x7f", 20'100);
  a.type("a", 21'000);
  a.delta("and", 0); // in the half second that the key waits
  a.pass(21'500);
  CHECK(a.wishes.size() == 1);
  a.type("\r", 21'600); // it cannot have been read again
  CHECK(a.wishes.size() == 1);
  a.type("\r", 22'500);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].decision.option() == "allow");
  CHECK(a.wishes[1].decision.action_digest() == sha256(R"({"command":"rm x"})"));
}

TEST_CASE("a permission is shown again by itself once nothing more is said behind it") {
  attached a;
  a.permission(1'000);
  a.now = 5'000;
  a.take(a.item(v1::CONVERSATION_TEXT, "t", "meanwhile"));
  REQUIRE(a.session.due_ms() == 5'500);
  a.pass(5'500);
  const auto shown = a.screen();
  CHECK(shown.find("? Bash: rm x") < shown.find("meanwhile"));
  CHECK(shown.rfind("? Bash: rm x") > shown.find("meanwhile"));
  CHECK_FALSE(a.session.due_ms());
  a.press("a", 7'000);
  CHECK(a.wishes.size() == 2);
}

TEST_CASE("a permission that Ctrl-L takes from the screen is shown again before a key counts") {
  attached a;
  a.permission(1'000);
  a.type("\x0c", 5'000);
  CHECK(a.screen().find("rm x") == std::string::npos);
  a.type("a", 5'100);
  CHECK(a.screen().find("? Bash: rm x") != std::string::npos);
  a.pass(9'000);
  CHECK(a.wishes.size() == 1);
}

TEST_CASE("keys for a question that somebody else has answered meanwhile are not sent to the agent") {
  attached a;
  a.question(1'000, R"({"questions":[{"question":"Sizes?","multiSelect":true,"options":[{"label":"S"},{"label":"M"},{"label":"L"}]}]})",
             {"answer", "deny"});
  a.type("1", 5'000);
  auto i = a.item(v1::CONVERSATION_QUESTION, "q", "");
  i.set_state("answer");
  i.set_approval_id("abcd1234-2");
  a.take(i);
  a.type("3", 5'100);
  a.type("\r", 5'200);
  CHECK(a.wishes.empty());
  CHECK(a.screen().find("! not sent: it was an answer") != std::string::npos);
  a.type("\x1b[A\r", 6'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].text == "3");
}

TEST_CASE("what is typed and is not UTF-8 is not sent") {
  attached a;
  a.type("caf\xe9 x\r", 0);
  CHECK(a.wishes.empty());
  CHECK(a.bytes.find("! not sent: it is not UTF-8") != std::string::npos);
}

TEST_CASE("whose decision came second is told what was decided") {
  attached a;
  a.permission(1'000);
  a.press("a", 5'000);
  a.session.failed(a.wishes.at(1), "Already decided: deny");
  CHECK(a.screen().find("! not decided by you\n! Already decided: deny\n") != std::string::npos);
}

TEST_CASE("a choice and Enter that come together answer the question") {
  attached a;
  a.question(1'000, R"({"questions":[{"question":"Sizes?","multiSelect":true,"options":[{"label":"S"},{"label":"M"},{"label":"L"}]}]})",
             {"answer", "deny"});
  a.type("1\r", 1'100); // it cannot have been read yet
  CHECK(a.wishes.empty());
  a.type("\x15", 1'200);
  a.type("13\r", 9'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].what == chat_wish::kind::decide);
  CHECK(a.wishes[0].decision.answers(0).choice() == "S, L");
}

TEST_CASE("the key for words and Enter that come together ask for the words") {
  attached a;
  a.permission(1'000);
  a.type("m\r", 9'000);
  CHECK(a.wishes.size() == 1);
  a.type("use make\r", 9'100);
  REQUIRE(a.wishes.size() == 2);
  CHECK(a.wishes[1].decision.message() == "use make");
  a.type("13\r", 20'000); // nothing is asked any more
  REQUIRE(a.wishes.size() == 3);
  CHECK(a.wishes[2].text == "13");
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

TEST_CASE("a question of several parts is asked part by part and answered as a whole") {
  attached a;
  a.question(1'000,
             R"({"questions":[{"question":"Which colour?","options":[{"label":"Red","description":"warm"},{"label":"Blue"}]},)"
             R"({"question":"Which sizes?","multiSelect":true,"options":[{"label":"S"},{"label":"M"},{"label":"L"}]}]})",
             {"answer", "deny"});
  CHECK(a.screen().find("    Which colour?\n      1 Red  (warm)\n      2 Blue\n") != std::string::npos);
  CHECK(a.screen().find("1 answer") == std::string::npos);
  a.type("3", 2'000); // no choice: the begin of a line
  a.type("\x7f", 2'001);
  a.press("2", 2'100);
  CHECK(a.wishes.empty());
  CHECK(a.screen().find("Which sizes?") != std::string::npos);
  a.type("1", 2'700); // it was not there to be read
  a.type("\x7f", 2'800);
  for (const auto* key : {"3", "1", "2"})
    a.type(key, 3'200);
  a.type("2", 3'201); // and not the second one
  CHECK(a.screen().find("1-3/d (S, L)>") != std::string::npos);
  a.type("\r", 3'300);
  REQUIRE(a.wishes.size() == 1);
  const auto& d = a.wishes[0].decision;
  CHECK(d.option() == "answer");
  REQUIRE(d.answers_size() == 2);
  CHECK(d.answers(0).question() == "Which colour?");
  CHECK(d.answers(0).choice() == "Blue");
  CHECK(d.answers(1).choice() == "S, L");
}

TEST_CASE("a question takes an answer in the person's own words") {
  attached a;
  a.question(1'000, R"({"questions":[{"question":"A?","options":[{"label":"x"}]},{"question":"B?","options":[{"label":"y"}]}]})", {"answer", "deny"});
  a.type("w", 2'000);
  CHECK(a.screen().find("answer>") != std::string::npos);
  a.type("neither of them\r", 2'100);
  a.press("1", 3'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].decision.answers(0).choice() == "neither of them");
  CHECK(a.wishes[0].decision.answers(1).choice() == "y");
}

TEST_CASE("of a choice that is longer than an option of the row the agent hears all") {
  const std::string label(100, 'l');
  attached a;
  a.question(1'000, R"({"questions":[{"question":"A?","options":[{"label":"short"},{"label":")" + label + R"("}]}]})",
             {"short", label.substr(0, 64)});
  a.press("2", 2'000);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].decision.option() == label.substr(0, 64));
  REQUIRE(a.wishes[0].decision.answers_size() == 1);
  CHECK(a.wishes[0].decision.answers(0).choice() == label);
}

TEST_CASE("what is too long to be shown can be denied and not allowed") {
  attached a;
  v1::Approval big;
  big.set_id("abcd1234-3");
  big.set_title("Write: x");
  big.set_kind(v1::Approval::FILE);
  big.set_conversation_id("c0ffee00-1");
  big.set_body_bytes(100'000);
  big.set_action_digest(std::string(32, 'd'));
  for (const auto* o : {"allow", "deny"})
    big.add_options(o);
  a.now = 1'000;
  a.session.found(big);
  CHECK(a.bytes.find("swarmctl approvals abcd1234") != std::string::npos);
  a.press("a", 2'000);
  CHECK(a.wishes.empty());
  a.type("\x7f", 2'600);
  a.press("d", 2'700);
  REQUIRE(a.wishes.size() == 1);
  CHECK(a.wishes[0].decision.option() == "deny");
  CHECK(a.wishes[0].decision.action_digest() == std::string(32, 'd'));
}

TEST_CASE("what an agent does beside the text that it says does not say that text again") {
  attached a;
  a.delta("Hello wor", 0);
  a.take(a.item(v1::CONVERSATION_NOTICE, "n", "a warning", "stderr"));
  a.take(a.item(v1::CONVERSATION_TEXT, "x", "Hello world"));
  const auto shown = a.screen();
  CHECK(shown.find("Hello") == shown.rfind("Hello"));
  CHECK(shown.find("ld") != std::string::npos);
}

TEST_CASE("a part of a streamed text that was missed comes with the whole of it and is marked before") {
  attached a;
  a.delta("one ", 0);
  a.delta("three", 8);
  CHECK(a.screen().find("…") != std::string::npos);
  a.take(a.item(v1::CONVERSATION_TEXT, "x", "one two three"));
  CHECK(a.screen().find("… the whole of it:\none two three\n") != std::string::npos);
}

TEST_CASE("a text of a megabyte in one line is shown in no time and the keys go on") {
  attached a;
  const std::string text(1'000'000, 'x');
  a.delta("x", 0);
  a.take(a.item(v1::CONVERSATION_TEXT, "t", text));
  CHECK(static_cast<std::size_t>(std::count(a.bytes.begin(), a.bytes.end(), 'x')) >= text.size());
}

TEST_CASE("what is asked of a person who may not decide it is shown all the same") {
  attached a;
  auto i = a.item(v1::CONVERSATION_PERMISSION, "n1", R"({"command":"rm x"})", "Bash: rm x");
  i.set_state("asked");
  i.set_approval_id("abcd1234-1");
  a.take(i);
  a.session.not_found("abcd1234-1");
  CHECK(a.screen().find("command: rm x") != std::string::npos);
}

TEST_CASE("of a prompt that may have been sent nobody says that it was not") {
  attached a;
  a.type("fix it\r", 0);
  a.session.failed(a.wishes.at(0), "no answer by the deadline", true);
  CHECK(a.screen().find("nobody knows whether this was sent: fix it") != std::string::npos);
  CHECK(a.screen().find("not sent: fix it") == std::string::npos);
}
