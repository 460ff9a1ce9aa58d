#include <doctest/doctest.h>

#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

TEST_CASE("a subscription is a durable position that only moves forward") {
  domain_world w;
  auto a = w.session();
  auto cmd = domain_world::command(a);
  cmd.mutable_subscribe()->set_name("inbox");
  auto row = w.reply(cmd).subscription();
  CHECK(row.owner() == "session/" + a);
  w.session();
  auto newest = w.rows.row<v1::ScopeState>("s")->revision();
  auto ack = domain_world::command(a);
  ack.mutable_ack_subscription()->set_name("inbox");
  ack.mutable_ack_subscription()->set_cursor(newest + 1);
  CHECK(w.reply(ack).refusal().code() == v1::Refusal::INVALID);
  ack.mutable_ack_subscription()->set_cursor(newest);
  CHECK(w.reply(ack).subscription().cursor() == newest);
  ack.mutable_ack_subscription()->set_cursor(1);
  CHECK(w.reply(ack).subscription().cursor() == newest);
  CHECK(w.reply(cmd).subscription().cursor() == newest);
  auto end = domain_world::command(a);
  end.mutable_unsubscribe()->set_name("inbox");
  CHECK(w.reply(end).has_done());
  CHECK(w.reply(ack).refusal().code() == v1::Refusal::NOT_FOUND);
}

TEST_CASE("a principal has so many subscriptions") {
  domain_world w;
  auto cmd = domain_world::command();
  for (int i = 0; i < 64; ++i) {
    cmd.mutable_subscribe()->set_name(std::to_string(i));
    CHECK_FALSE(w.reply(cmd).has_refusal());
  }
  cmd.mutable_subscribe()->set_name("one more");
  CHECK(w.reply(cmd).refusal().code() == v1::Refusal::LIMIT);
}

TEST_CASE("an approval is decided once, for the action shown, in time, with one of its options") {
  domain_world w;
  auto ask = domain_world::command();
  ask.mutable_request_approval()->set_subject("task/1");
  ask.mutable_request_approval()->set_action_digest("d1");
  ask.mutable_request_approval()->set_timeout_ms(1000);
  auto id = w.reply(ask).approval().id();
  auto answer = [&](const std::string& approval, const std::string& option, const std::string& digest) {
    auto cmd = domain_world::command();
    cmd.mutable_decide_approval()->set_approval_id(approval);
    cmd.mutable_decide_approval()->set_option(option);
    cmd.mutable_decide_approval()->set_action_digest(digest);
    return w.run(cmd);
  };
  CHECK(answer("none", "yes", "d1").reply().refusal().code() == v1::Refusal::NOT_FOUND);
  CHECK(answer(id, "yes", "d2").reply().refusal().code() == v1::Refusal::STALE);
  CHECK(answer(id, "maybe", "d1").reply().refusal().code() == v1::Refusal::INVALID);
  auto batch = answer(id, "yes", "d1");
  CHECK(batch.reply().approval().decided_by().kind() == v1::Principal::OPERATOR);
  CHECK(test::has_event(batch, "approval.decided"));
  CHECK(answer(id, "no", "d1").reply().refusal().code() == v1::Refusal::STATE);
  auto late = w.reply(ask).approval().id();
  w.pass(1000);
  CHECK(answer(late, "yes", "d1").reply().refusal().code() == v1::Refusal::TIMEOUT);
  w.sweep();
  CHECK(answer(late, "yes", "d1").reply().refusal().code() == v1::Refusal::STATE);
}

TEST_CASE("of the sessions only a gateway decides approvals, and none decides its own") {
  domain_world w;
  const auto plain = w.session("role:planner"), gateway = w.session("mode:gateway"), other = w.session("mode:gateway name:other");
  const auto ask = [&](v1::Command cmd) {
    cmd.mutable_request_approval()->set_subject("deploy");
    cmd.mutable_request_approval()->set_action_digest("d");
    const auto a = w.reply(cmd).approval();
    CHECK(a.requested_by().kind() != v1::Principal::KIND_UNSPECIFIED);
    return a.id();
  };
  const auto decide = [&](v1::Command cmd, const std::string& id) {
    cmd.mutable_decide_approval()->set_approval_id(id);
    cmd.mutable_decide_approval()->set_option("yes");
    cmd.mutable_decide_approval()->set_action_digest("d");
    return w.reply(cmd);
  };
  const auto session = [](const std::string& id) { return domain_world::by(v1::Principal::SESSION, id); };
  const auto forbidden = [&](const v1::Command& cmd, const std::string& id) {
    return decide(cmd, id).refusal().code() == v1::Refusal::FORBIDDEN && w.rows.row<v1::Approval>(domain::key(id))->decision().empty();
  };
  // Asked for by the session itself, or by the operator in its name.
  for (const auto& asked : {session(gateway), domain_world::command(gateway)}) {
    const auto id = ask(asked);
    CHECK(w.rows.row<v1::Approval>(domain::key(id))->requested_by().id() == gateway);
    CHECK(forbidden(session(plain), id));
    CHECK(forbidden(session(gateway), id));
    CHECK(decide(session(other), id).approval().decided_by().id() == other);
  }
  const auto own = ask(session(plain));
  CHECK(forbidden(session(plain), own));
  CHECK_FALSE(decide(domain_world::command(), own).has_refusal());
  const auto door = ask(session(plain));
  CHECK_FALSE(decide(domain_world::by(v1::Principal::DEVICE, "phone"), door).has_refusal());
}
