// What the agents of conversations ask people, and how the decisions come to them.
#include <doctest/doctest.h>

#include <set>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/conversation_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;
using request = v1::Approval;

TEST_CASE("whoever may decide allows what is shown, and only the operator another input") {
  conversation_world w;
  const auto id = w.running();
  for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY}) {
    auto by = w.by(kind, "phone");
    by.mutable_principal()->add_grants("approve");
    auto cmd = w.deciding(w.ask(id, std::to_string(kind)), "allow", by);
    cmd.mutable_decide_approval()->set_edited_input(R"({"command":"make clean"})");
    CHECK(w.reply(cmd).refusal().code() == refusal::FORBIDDEN);
    cmd.mutable_decide_approval()->clear_edited_input();
    CHECK_FALSE(w.reply(cmd).has_refusal());
  }
  auto mine = w.deciding(w.ask(id, "mine"), "allow");
  mine.mutable_decide_approval()->set_edited_input(R"({"command":"make clean"})");
  CHECK_FALSE(w.reply(mine).has_refusal());
}

TEST_CASE("a permission blocks its conversation until it is decided or withdrawn") {
  conversation_world w;
  auto id = w.running();
  auto first = w.ask(id, "a"), second = w.ask(id, "b");
  CHECK(w.state(id) == conversation::BLOCKED);
  CHECK(first.requested_by().id() == w.row(id).session_id());
  CHECK(first.action_digest() == sha256(first.body()));
  CHECK(std::vector<std::string>(first.options().begin(), first.options().end()) == std::vector<std::string>{"allow", "deny"});
  w.reply(w.deciding(first));
  CHECK(w.state(id) == conversation::BLOCKED);
  auto cmd = w.by_node();
  cmd.mutable_withdraw_approval()->set_approval_id(second.id());
  w.reply(cmd);
  CHECK(w.state(id) == conversation::RUNNING);
  CHECK(w.approval(second.id()).delivery() == request::DELIVERY_UNSPECIFIED);
}

TEST_CASE("always is an option where the agent keeps rules") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id);
  cmd.mutable_request_approval()->mutable_conversation()->set_can_be_always(true);
  CHECK(w.reply(cmd).approval().options(2) == "always");
}

TEST_CASE("an approval says which tool waits and what it would write") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id);
  auto& of = *cmd.mutable_request_approval()->mutable_conversation();
  of.set_tool("Bash");
  of.set_more_writes(true);
  of.add_writes()->set_name("/repo/link");
  of.mutable_writes(0)->set_real("/repo/file");
  const auto a = w.reply(cmd).approval();
  CHECK(a.tool() == "Bash");
  CHECK(a.more_writes());
  REQUIRE(a.writes_size() == 1);
  CHECK(a.writes(0).real() == "/repo/file");
  for (int i = 0; i < static_cast<int>(limits::approval_writes_max); ++i)
    of.add_writes()->set_name("/repo/x");
  CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
}

TEST_CASE("the same request of an agent is one approval, and with another action the first is withdrawn") {
  conversation_world w;
  auto id = w.running();
  auto first = w.ask(id);
  CHECK(first.request_key() == "conversation/" + id + "/1/" + to_hex("toolu_1"));
  w.reply(w.deciding(first));
  CHECK(w.ask(id).id() == first.id());
  CHECK(w.ask(id).decision() == "allow");
  auto open = w.ask(id, "b");
  auto other = w.asking(id, "b");
  other.mutable_request_approval()->set_body("{}");
  CHECK(w.reply(other).approval().id() != open.id());
  CHECK_FALSE(w.approval(open.id()).withdrawn().empty());
  const std::string longest(128, 'x');
  CHECK(w.ask(id, longest).request_key() == "conversation/" + id + "/1/" + to_hex(sha256(longest)));
}

TEST_CASE("only the node asks for an agent, and an agent asks what agents ask") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id);
  cmd.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  CHECK(w.reply(cmd).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(w.asking(id, "a", request::TASK)).refusal().code() == refusal::INVALID);
  CHECK(w.reply(w.asking(id, "")).refusal().code() == refusal::INVALID);
  auto nobodys = w.asking(id);
  nobodys.mutable_request_approval()->mutable_conversation()->set_conversation_id("none");
  CHECK(w.reply(nobodys).refusal().code() == refusal::NOT_FOUND);
}

TEST_CASE("a decision waits for the driver and is delivered once") {
  conversation_world w;
  auto id = w.running();
  auto asked = w.ask(id);
  auto cmd = w.deciding(asked, "deny");
  cmd.mutable_decide_approval()->set_message("not now");
  auto decided = w.reply(cmd).approval();
  CHECK(decided.delivery() == request::PENDING);
  CHECK(decided.message() == "not now");
  CHECK(w.deliver(asked, request::DELIVERED, 2).refusal().code() == refusal::STALE);
  CHECK(w.deliver(asked, request::PENDING).refusal().code() == refusal::INVALID);
  w.deliver(asked, request::DELIVERED);
  CHECK(w.approval(asked.id()).delivery() == request::DELIVERED);
  w.deliver(asked, request::OUTCOME_UNKNOWN);
  CHECK(w.approval(asked.id()).delivery() == request::DELIVERED);
}

TEST_CASE("words go only with a decision that an agent of a conversation waits for") {
  conversation_world w;
  auto id = w.running();
  auto edited = w.deciding(w.ask(id), "allow");
  edited.mutable_decide_approval()->set_edited_input("no json");
  CHECK(w.reply(edited).refusal().code() == refusal::INVALID);
  edited.mutable_decide_approval()->set_edited_input(R"({"command":"make -n"})");
  edited.mutable_decide_approval()->set_option("deny");
  CHECK(w.reply(edited).refusal().code() == refusal::INVALID);
  edited.mutable_decide_approval()->set_option("allow");
  CHECK(w.reply(edited).approval().edited_input() == R"({"command":"make -n"})");
  auto of_task = w.command();
  of_task.mutable_request_approval()->set_title("t");
  of_task.mutable_request_approval()->set_subject("task/1");
  auto said = w.deciding(w.reply(of_task).approval(), "yes");
  said.mutable_decide_approval()->set_message("m");
  CHECK(w.reply(said).refusal().code() == refusal::INVALID);
}

TEST_CASE("the answers of a question are stored, and its asker gets no mail") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id, "q", request::QUESTION);
  cmd.mutable_request_approval()->add_options("red");
  auto asked = w.reply(cmd).approval();
  auto decision = w.deciding(asked, "red");
  for (int n = 0; n < 4; ++n)
    decision.mutable_decide_approval()->add_answers()->set_question("q" + std::to_string(n));
  CHECK(w.reply(decision).approval().answers_size() == 4);
  CHECK(w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).empty());
}

TEST_CASE("a permission that expires is denied to its agent") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.asking(id);
  cmd.mutable_request_approval()->set_timeout_ms(1'000);
  auto asked = w.reply(cmd).approval();
  w.pass(1'000);
  w.sweep();
  CHECK(w.approval(asked.id()).delivery() == request::PENDING);
  CHECK(w.approval(asked.id()).decision().empty());
  CHECK(w.state(id) == conversation::RUNNING);
}

TEST_CASE("only the node withdraws what an agent waits for, and no session decides it") {
  conversation_world w;
  auto id = w.running();
  auto asked = w.ask(id);
  auto cmd = w.command();
  cmd.mutable_withdraw_approval()->set_approval_id(asked.id());
  CHECK(w.reply(cmd).refusal().code() == refusal::FORBIDDEN);
  auto coordinator = w.session("mode:gateway");
  CHECK(w.reply(w.deciding(asked, "allow", w.by_grant(coordinator, "chat"))).refusal().code() == refusal::FORBIDDEN);
  auto device = w.by(v1::Principal::DEVICE, "phone");
  device.mutable_principal()->add_grants("chat");
  CHECK(w.reply(w.deciding(asked, "allow", device)).refusal().code() == refusal::FORBIDDEN);
  device.mutable_principal()->add_grants("approve");
  CHECK(w.reply(w.deciding(asked, "allow", device)).approval().delivery() == request::PENDING);
}

TEST_CASE("nobody decides for an agent that has gone") {
  conversation_world w;
  auto id = w.running();
  auto asked = w.ask(id);
  auto spawn = w.driver(id);
  spawn.set_status(v1::Spawn::ENDED); // as when the end of the driver had no room for the approval
  w.rows.put(spawn);
  CHECK(w.reply(w.deciding(asked)).refusal().code() == refusal::STATE);
  w.sweep();
  CHECK_FALSE(w.approval(asked.id()).withdrawn().empty());
}

TEST_CASE("a device with the grant chat reads what agents of conversations ask, and nothing else") {
  conversation_world w;
  auto id = w.running();
  auto asked = w.ask(id);
  auto of_task = w.command();
  of_task.mutable_request_approval()->set_title("t");
  of_task.mutable_request_approval()->set_subject("task/1");
  w.reply(of_task);
  v1::Query q;
  q.set_scope("s");
  q.mutable_principal()->set_kind(v1::Principal::DEVICE);
  q.mutable_principal()->add_grants("chat");
  q.mutable_list_approvals();
  auto seen = domain::answer(q, w.rows, w.in).approvals();
  REQUIRE(seen.approvals_size() == 1);
  CHECK(seen.approvals(0).id() == asked.id());
  q.mutable_principal()->add_grants("approve");
  CHECK(domain::answer(q, w.rows, w.in).approvals().approvals_size() == 2);
}

TEST_CASE("what a conversation waits for is found however much was asked since") {
  conversation_world w;
  const auto id = w.running(), other = w.running();
  const auto open = w.ask(id, "open"), decided = w.ask(id, "decided"), delivered = w.ask(id, "delivered");
  w.reply(w.deciding(decided));
  w.reply(w.deciding(delivered));
  w.deliver(delivered, v1::Approval::DELIVERED);
  w.ask(other);
  auto newer = w.approval(delivered.id());
  newer.set_conversation_id(other);
  newer.set_created_at_ms(w.in.now_ms + 1);
  for (std::size_t n = 0; n <= limits::page_rows_max; ++n) {
    newer.set_id("newer-" + std::to_string(n));
    w.rows.put(newer);
  }
  v1::Query q;
  q.set_scope("s");
  q.mutable_principal()->set_kind(v1::Principal::NODE);
  q.mutable_list_approvals()->set_conversation_id(id);
  std::set<std::string> found;
  const auto answer = domain::answer(q, w.rows, w.in);
  for (const auto& a : answer.approvals().approvals())
    found.insert(a.id());
  CHECK(found == std::set<std::string>{open.id(), decided.id()});
}

TEST_CASE("agents have a quota of their own for what they ask") {
  conversation_world w;
  auto id = w.running();
  for (std::size_t n = 0; n < limits::conversation_approvals_open_max(); ++n)
    REQUIRE_FALSE(w.reply(w.asking(id, std::to_string(n))).has_refusal());
  CHECK(w.reply(w.asking(id, "more")).refusal().code() == refusal::LIMIT);
  auto of_task = w.command();
  of_task.mutable_request_approval()->set_title("t");
  of_task.mutable_request_approval()->set_subject("task/1");
  CHECK_FALSE(w.reply(of_task).has_refusal());
}
