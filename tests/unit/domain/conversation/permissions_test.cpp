// What the agents of conversations may do unasked, and who says so.
#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/conversation_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;

namespace {

v1::Command setting(const std::string& id, conversation::Permissions p, std::int64_t for_ms = 0, v1::Command cmd = domain_world::command()) {
  auto& s = *cmd.mutable_set_conversation();
  s.set_conversation_id(id);
  s.set_permissions(p);
  s.set_permissions_ms(for_ms);
  return cmd;
}

v1::Command allowing(const std::string& id, const std::string& pattern, v1::Command cmd = domain_world::command()) {
  cmd.mutable_set_conversation()->set_conversation_id(id);
  cmd.mutable_set_conversation()->add_allow(pattern);
  return cmd;
}

v1::Command with_mode(const std::string& id, const std::string& mode, v1::Command cmd = domain_world::command()) {
  cmd.mutable_set_conversation()->set_conversation_id(id);
  cmd.mutable_set_conversation()->set_mode(mode);
  return cmd;
}

std::vector<std::string> allowed(conversation_world& w, const std::string& id) {
  const auto c = w.row(id);
  return {c.allowed().begin(), c.allowed().end()};
}

conversation seen(conversation_world& w, const std::string& id) {
  v1::Query q;
  q.set_scope("s");
  q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  q.mutable_list_conversations()->set_id(id);
  return domain::answer(q, w.rows, w.in).conversations().conversations(0);
}

/// Of an agent that could be allowed by that pattern.
v1::Approval ask_with_pattern(conversation_world& w, const std::string& id, const std::string& pattern, const std::string& native = "a") {
  auto cmd = w.asking(id, native);
  cmd.mutable_request_approval()->mutable_conversation()->set_pattern(pattern);
  return w.reply(cmd).approval();
}

} // namespace

TEST_CASE("a conversation asks a person unless somebody says otherwise") {
  conversation_world w;
  auto id = w.start();
  CHECK(w.row(id).permissions() == conversation::ASK);
  auto older = w.row(id);
  older.set_permissions(conversation::PERMISSIONS_UNSPECIFIED);
  w.rows.put(older);
  CHECK(seen(w, id).permissions() == conversation::ASK);
}

TEST_CASE("a conversation starts with the permissions, patterns and wishes that are said") {
  conversation_world w;
  auto cmd = w.starting("x");
  auto& s = *cmd.mutable_start_conversation();
  s.set_permissions(conversation::AUTO_EDIT);
  s.add_allowed("Read");
  s.add_allowed("Read");
  s.set_model("opus");
  const auto c = w.reply(cmd).conversation().conversation();
  CHECK(c.permissions() == conversation::AUTO_EDIT);
  CHECK(c.allowed_size() == 1);
  CHECK(c.wished_model() == "opus");
  CHECK(c.wishes() == 1);
  s.set_permissions(conversation::PLAN);
  s.set_permissions_ms(5);
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  s.set_permissions_ms(0);
  s.set_permissions(static_cast<conversation::Permissions>(77));
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
}

TEST_CASE("only a person loosens what an agent may do, and anybody who chats tightens it") {
  conversation_world w;
  auto id = w.start();
  auto session = w.session("identity:a");
  const auto by = [&] { return w.by_grant(session, "chat"); };
  CHECK(w.reply(setting(id, conversation::AUTO, 0, by())).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(setting(id, conversation::AUTO_EDIT, 0, by())).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(setting(id, conversation::AUTO, 0, w.command(session))).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(allowing(id, "Bash", by())).refusal().code() == refusal::FORBIDDEN);
  CHECK_FALSE(w.reply(setting(id, conversation::DENY, 0, by())).has_refusal());
  CHECK(w.row(id).permissions() == conversation::DENY);
  auto started = by();
  started.mutable_caller()->set_allow_spawn(true);
  started.mutable_principal()->add_grants("spawn");
  *started.mutable_start_conversation() = w.starting("x").start_conversation();
  CHECK_FALSE(w.reply(started).has_refusal());
  started.mutable_start_conversation()->set_permissions(conversation::AUTO);
  CHECK(w.reply(started).refusal().code() == refusal::FORBIDDEN);
}

TEST_CASE("a session does not take back what a person has tightened") {
  conversation_world w;
  auto id = w.start();
  auto session = w.session("identity:a");
  for (auto strict : {conversation::PLAN, conversation::DENY}) {
    w.reply(setting(id, strict));
    for (auto other : {conversation::ASK, conversation::PLAN, conversation::DENY}) {
      const auto refused = w.reply(setting(id, other, 0, w.by_grant(session, "chat"))).refusal().code() == refusal::FORBIDDEN;
      CHECK(refused == (other != strict));
    }
    CHECK(w.row(id).permissions() == strict);
  }
  CHECK_FALSE(w.reply(setting(id, conversation::ASK)).has_refusal());
}

TEST_CASE("a session may take patterns back, and set auto back to ask") {
  conversation_world w;
  auto id = w.start();
  auto session = w.session("identity:a");
  w.reply(allowing(id, "Read"));
  w.reply(setting(id, conversation::AUTO));
  auto forgetting = setting(id, conversation::ASK, 0, w.by_grant(session, "chat"));
  forgetting.mutable_set_conversation()->add_forget("Read");
  CHECK_FALSE(w.reply(forgetting).has_refusal());
  CHECK(allowed(w, id).empty());
  CHECK(w.row(id).permissions() == conversation::ASK);
}

TEST_CASE("a session sets no mode but plan, neither of a conversation that is there nor of a new one") {
  conversation_world w;
  auto id = w.start();
  auto session = w.session("identity:a");
  for (const char* loose : {"acceptEdits", "default", "auto", "Plan"}) {
    CHECK(w.reply(with_mode(id, loose, w.by_grant(session, "chat"))).refusal().code() == refusal::FORBIDDEN);
    CHECK(w.reply(with_mode(id, loose, w.command(session))).refusal().code() == refusal::FORBIDDEN);
  }
  CHECK(w.row(id).wished_mode().empty());
  CHECK_FALSE(w.reply(with_mode(id, "plan", w.by_grant(session, "chat"))).has_refusal());
  CHECK(w.row(id).wished_mode() == "plan");
  auto started = w.by_grant(session, "spawn");
  started.mutable_caller()->set_allow_spawn(true);
  *started.mutable_start_conversation() = w.starting("x").start_conversation();
  started.mutable_start_conversation()->set_mode("acceptEdits");
  CHECK(w.reply(started).refusal().code() == refusal::FORBIDDEN);
  started.mutable_start_conversation()->set_mode("plan");
  CHECK_FALSE(w.reply(started).has_refusal());
  CHECK_FALSE(w.reply(with_mode(id, "acceptEdits")).has_refusal());
}

TEST_CASE("nobody sets the mode that asks about nothing, since it has no end") {
  conversation_world w;
  auto id = w.start();
  CHECK(w.reply(with_mode(id, "bypassPermissions")).refusal().code() == refusal::INVALID);
  auto cmd = w.starting("x");
  cmd.mutable_start_conversation()->set_mode("bypassPermissions");
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  CHECK(w.row(id).wishes() == 0);
}

TEST_CASE("a model and a mode are words that can be arguments of the agent's program") {
  conversation_world w;
  auto id = w.start();
  for (const char* wrong : {"--dangerously-skip-permissions", "x\ny", "\x7f"}) {
    CHECK(w.reply(with_mode(id, wrong)).refusal().code() == refusal::INVALID);
    auto cmd = w.starting("x");
    cmd.mutable_start_conversation()->set_model(wrong);
    CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  }
  CHECK(w.row(id).wishes() == 0);
}

TEST_CASE("a session changes nothing of the conversation that it is itself") {
  conversation_world w;
  auto id = w.running();
  const auto me = w.row(id).session_id();
  CHECK(w.reply(setting(id, conversation::DENY, 0, w.by_grant(me, "chat"))).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(with_mode(id, "plan", w.by_grant(me, "chat"))).refusal().code() == refusal::FORBIDDEN);
  CHECK_FALSE(w.reply(setting(w.start(), conversation::DENY, 0, w.by_grant(me, "chat"))).has_refusal());
}

TEST_CASE("auto ends by itself, is seen as ask at once and becomes it with the next sweep") {
  conversation_world w;
  auto id = w.start();
  w.reply(setting(id, conversation::AUTO));
  CHECK(w.row(id).permissions_end_ms() == w.in.now_ms + limits::conversation_bypass_max.count());
  auto batch = w.run(setting(id, conversation::AUTO, 60'000));
  CHECK(has_event(batch, "conversation.set"));
  CHECK(w.row(id).permissions_end_ms() == w.in.now_ms + 60'000);
  CHECK(w.sweep().next_deadline_ms() <= w.in.now_ms + 60'000);
  CHECK(w.row(id).permissions() == conversation::AUTO);
  w.pass(60'000);
  CHECK(seen(w, id).permissions() == conversation::ASK);
  w.sweep();
  CHECK(w.row(id).permissions() == conversation::ASK);
  CHECK(w.row(id).permissions_end_ms() == 0);
  CHECK(w.reply(setting(id, conversation::PLAN, 1'000)).refusal().code() == refusal::INVALID);
  CHECK(w.reply(setting(id, conversation::AUTO, limits::conversation_bypass_max.count() + 1)).refusal().code() == refusal::INVALID);
}

TEST_CASE("patterns are added once and removed, and there are at most 64 of them") {
  conversation_world w;
  auto id = w.start();
  w.reply(allowing(id, "Read"));
  w.reply(allowing(id, "Read"));
  CHECK(allowed(w, id) == std::vector<std::string>{"Read"});
  auto forgetting = w.command();
  forgetting.mutable_set_conversation()->set_conversation_id(id);
  forgetting.mutable_set_conversation()->add_forget("Read");
  CHECK(has_event(w.run(forgetting), "conversation.set"));
  CHECK_FALSE(has_event(w.run(forgetting), "conversation.set"));
  CHECK(allowed(w, id).empty());
  for (std::size_t n = 0; n < limits::conversation_patterns_max; ++n)
    REQUIRE_FALSE(w.reply(allowing(id, "Bash(" + std::to_string(n) + ")")).has_refusal());
  CHECK(w.reply(allowing(id, "Bash(more)")).refusal().code() == refusal::LIMIT);
  const auto asked = ask_with_pattern(w, w.running(), "x");
  auto full = w.row(asked.conversation_id());
  *full.mutable_allowed() = w.row(id).allowed();
  w.rows.put(full);
  CHECK(w.reply(w.deciding(asked, "always")).refusal().code() == refusal::LIMIT);
  CHECK(w.approval(asked.id()).decided_at_ms() == 0);
}

TEST_CASE("a conversation's patterns are few enough bytes for one frame, whoever adds them") {
  conversation_world w;
  auto id = w.running();
  const auto long_one = [](int n) {
    const auto begin = "Bash(" + std::to_string(100 + n);
    return begin + std::string(limits::conversation_pattern_bytes_max - begin.size() - 1, 'x') + ")";
  };
  int n = 0;
  while (n < 100 && !w.reply(allowing(id, long_one(n))).has_refusal())
    ++n;
  CHECK(n > 0);
  CHECK(static_cast<std::size_t>(n) <= limits::conversation_patterns_bytes_max / limits::conversation_pattern_bytes_max);
  CHECK(w.reply(allowing(id, long_one(n))).refusal().code() == refusal::LIMIT);
  CHECK(w.row(id).allowed_size() == n);
  const auto asked = ask_with_pattern(w, id, long_one(n));
  CHECK(w.reply(w.deciding(asked, "always")).refusal().code() == refusal::LIMIT);
  auto starting = w.starting("x");
  for (int i = 0; i <= n; ++i)
    starting.mutable_start_conversation()->add_allowed(long_one(i));
  CHECK(w.reply(starting).refusal().code() == refusal::LIMIT);
}

TEST_CASE("a pattern that can never match is refused with the reason, and one that may is not") {
  conversation_world w;
  auto id = w.start();
  const std::vector<std::pair<std::string, std::string>> wrong{{"Bash(make", "bracket"},
                                                               {"Bash(a; b)", "several"},
                                                               {"Bash(make > log)", "several"},
                                                               {"Bash(npm run test:*)", "stands for itself"},
                                                               {"Bash()", "empty"},
                                                               {"bash", "capital letter"},
                                                               {"Write(src/a.txt)", "absolute"},
                                                               {"Edit(/repo/**)", "stands for itself"},
                                                               {"(make)", "the name of a tool"},
                                                               {"a tool", "the name of a tool"},
                                                               {"Bash(make\ntest)", "one line"},
                                                               {"Bash)", "the name of a tool"},
                                                               {"*", "the name of a tool"},
                                                               {"Ba\xe2\x80\x8bsh", "the name of a tool"},
                                                               {"Bash(*)", "stands for itself"}};
  for (const auto& [pattern, reason] : wrong) {
    CAPTURE(pattern);
    const auto r = w.reply(allowing(id, pattern));
    CHECK(r.refusal().code() == refusal::INVALID);
    CHECK(r.refusal().text().find(reason) != std::string::npos);
    auto cmd = w.starting("x");
    cmd.mutable_start_conversation()->add_allowed(pattern);
    CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  }
  CHECK(allowed(w, id).empty());
  for (const char* right :
       {"Bash", "Bash(ls *.txt)", "Write(/repo/a b.txt)", "WebFetch(https://example.org/?a=(b))", "mcp__files__read", "mcp__a__b({\"x\":1})"})
    CHECK_FALSE(w.reply(allowing(id, right)).has_refusal());
  CHECK(allowed(w, id).size() == 6);
}

TEST_CASE("always allows what the approval's pattern says from then on, and its event does not say what that is") {
  conversation_world w;
  auto id = w.running();
  const auto asked = ask_with_pattern(w, id, "Bash(make)");
  CHECK(asked.pattern() == "Bash(make)");
  REQUIRE(asked.options_size() == 3);
  CHECK(asked.options(2) == "always");
  const auto batch = w.run(w.deciding(asked, "always"));
  CHECK(allowed(w, id) == std::vector<std::string>{"Bash(make)"});
  REQUIRE(has_event(batch, "conversation.set"));
  for (const auto& e : batch.events())
    CHECK(e.payload().find("make") == std::string::npos);
  const auto another = ask_with_pattern(w, id, "Bash(make)", "b");
  CHECK_FALSE(has_event(w.run(w.deciding(another, "always")), "conversation.set"));
  w.reply(w.deciding(ask_with_pattern(w, id, "Edit", "c"), "allow"));
  CHECK(allowed(w, id).size() == 1);
}

TEST_CASE("a wish for a model or mode is counted, told once and told again to the next driver") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.command();
  cmd.mutable_set_conversation()->set_conversation_id(id);
  cmd.mutable_set_conversation()->set_model("opus");
  w.reply(cmd);
  cmd.mutable_set_conversation()->clear_model();
  cmd.mutable_set_conversation()->set_mode("plan");
  w.reply(cmd);
  CHECK(w.row(id).wishes() == 2);
  CHECK(w.row(id).wished_model() == "opus");
  CHECK(w.row(id).wished_mode() == "plan");
  const auto told = [&](std::uint32_t n) {
    auto report = w.about(id);
    report.mutable_report_conversation()->set_wishes_told(n);
    w.reply(report);
    return w.row(id).wishes_told();
  };
  CHECK(told(1) == 1);
  CHECK(told(9) == 2);
  CHECK(told(1) == 2);
  w.say(id);
  w.ended(id);
  CHECK(w.row(id).generation() == 2);
  CHECK(w.row(id).wishes_told() == 0);
}

TEST_CASE("a body that is too large for the row is named by its digest alone") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id);
  auto& r = *cmd.mutable_request_approval();
  r.set_body_bytes(100'000);
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID); // the body is there as well
  r.clear_body();
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID); // no digest
  r.set_action_digest(sha256("long"));
  const auto asked = w.reply(cmd).approval();
  CHECK(asked.body().empty());
  CHECK(asked.body_bytes() == 100'000);
  CHECK(asked.action_digest() == sha256("long"));
  CHECK(w.reply(cmd).approval().id() == asked.id());
  CHECK_FALSE(w.reply(w.deciding(asked)).has_refusal());
  r.set_body_bytes(limits::conversation_blob_bytes_max() + 1);
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  auto of_person = w.command();
  of_person.mutable_request_approval()->set_title("t");
  of_person.mutable_request_approval()->set_subject("task/1");
  of_person.mutable_request_approval()->set_body_bytes(5);
  CHECK(w.reply(of_person).refusal().code() == refusal::INVALID);
}
