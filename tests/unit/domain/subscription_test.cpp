#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {

constexpr std::int64_t day_ms = 86'400'000;

std::uint64_t subscribe(domain_world& w, const std::string& name) {
  auto cmd = domain_world::command();
  cmd.mutable_subscribe()->set_name(name);
  return w.reply(cmd).subscription().cursor();
}

v1::Reply ack(domain_world& w, const std::string& name, std::uint64_t cursor) {
  auto cmd = domain_world::command();
  cmd.mutable_ack_subscription()->set_name(name);
  cmd.mutable_ack_subscription()->set_cursor(cursor);
  return w.reply(cmd);
}

/// One event; its revision.
std::uint64_t change(domain_world& w) {
  auto cmd = domain_world::command();
  cmd.mutable_set_kv()->set_key("k");
  return w.run(cmd).events(0).revision();
}

v1::Batch sweep(domain_world& w) {
  auto cmd = domain_world::by(v1::Principal::NODE);
  cmd.mutable_sweep();
  return w.run(cmd);
}

std::vector<std::string> resets(const v1::Batch& b) {
  std::vector<std::string> out;
  for (const auto& e : b.events())
    if (e.type() == "subscription.reset")
      out.push_back(e.subject() + " " + e.payload());
  return out;
}

} // namespace

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

namespace {

/// A question that a session has asked, about `subject`.
std::string question(domain_world& w, v1::Command cmd, const std::string& subject) {
  cmd.mutable_request_approval()->set_subject(subject);
  cmd.mutable_request_approval()->set_action_digest("d");
  const auto a = w.reply(cmd).approval();
  CHECK(a.requested_by().kind() != v1::Principal::KIND_UNSPECIFIED);
  return a.id();
}

v1::Batch decision(domain_world& w, v1::Command cmd, const std::string& id, const std::string& decided_for = {}) {
  cmd.mutable_decide_approval()->set_approval_id(id);
  cmd.mutable_decide_approval()->set_option("yes");
  cmd.mutable_decide_approval()->set_action_digest("d");
  cmd.mutable_decide_approval()->set_decided_for(decided_for);
  return w.run(cmd);
}

bool is_forbidden(domain_world& w, const v1::Command& cmd, const std::string& id, const std::string& decided_for = {}) {
  return decision(w, cmd, id, decided_for).reply().refusal().code() == v1::Refusal::FORBIDDEN &&
         w.rows.row<v1::Approval>(domain::key(id))->decision().empty();
}

std::string task(domain_world& w) {
  auto cmd = domain_world::command();
  auto& t = *cmd.mutable_create_tasks()->add_tasks();
  t.set_type("fix");
  t.set_title("t");
  return w.reply(cmd).tasks_created().tasks(0).task().id();
}

} // namespace

TEST_CASE("of the sessions only a coordinator decides approvals, of tasks only, and none decides its own") {
  domain_world w;
  const auto plain = w.session("role:planner"), gateway = w.session("mode:gateway"), other = w.session("mode:gateway name:other");
  const auto about = "task/" + task(w);
  const auto session = [](const std::string& id) { return domain_world::by(v1::Principal::SESSION, id); };
  // Asked for by the session itself, or by the operator in its name.
  for (const auto& asked : {session(gateway), domain_world::command(gateway)}) {
    const auto id = question(w, asked, about);
    CHECK(w.rows.row<v1::Approval>(domain::key(id))->requested_by().id() == gateway);
    CHECK(is_forbidden(w, session(plain), id));
    CHECK(is_forbidden(w, session(gateway), id));
    CHECK(decision(w, session(other), id).reply().approval().decided_by().id() == other);
  }
  const auto own = question(w, session(plain), about);
  CHECK(is_forbidden(w, session(plain), own));
  CHECK_FALSE(decision(w, domain_world::command(), own).reply().has_refusal());
  for (const auto& subject : {std::string{"deploy"}, std::string{"task/"}, std::string{"task/of-nobody"}, about + "/tool", "permission/" + about}) {
    CAPTURE(subject);
    const auto id = question(w, session(plain), subject);
    CHECK(is_forbidden(w, session(gateway), id));
    CHECK_FALSE(decision(w, domain_world::command(), id).reply().has_refusal());
  }
}

TEST_CASE("who is neither a person nor granted it decides no approval, and only a gateway says for whom it decides") {
  domain_world w;
  const auto plain = w.session();
  const auto id = question(w, domain_world::by(v1::Principal::SESSION, plain), "task/" + task(w));
  for (auto kind : {v1::Principal::DEVICE, v1::Principal::GATEWAY, v1::Principal::ORPHAN, v1::Principal::NODE})
    CHECK(is_forbidden(w, domain_world::by(kind, "x"), id));
  // As a session it might be a coordinator: it is told to register.
  CHECK(decision(w, domain_world::by(v1::Principal::AGENT, "7.9"), id).reply().refusal().code() == v1::Refusal::NOT_REGISTERED);
  CHECK(w.rows.row<v1::Approval>(domain::key(id))->decision().empty());
  CHECK(is_forbidden(w, domain_world::command(), id, "telegram:7"));
  auto phone = domain_world::by(v1::Principal::DEVICE, "phone"), messenger = domain_world::by(v1::Principal::GATEWAY, "telegram");
  phone.mutable_principal()->add_grants("approve");
  messenger.mutable_principal()->add_grants("approve");
  CHECK(is_forbidden(w, phone, id, "telegram:7"));
  auto batch = decision(w, messenger, id, "telegram:7");
  CHECK(batch.reply().approval().decided_for() == "telegram:7");
  CHECK(batch.reply().approval().decided_by().kind() == v1::Principal::GATEWAY);
  REQUIRE(batch.events_size() == 1);
  CHECK(batch.events(0).payload().find("\"decided_for\":\"telegram:7\"") != std::string::npos);
  const auto door = question(w, domain_world::by(v1::Principal::SESSION, plain), "door");
  CHECK_FALSE(decision(w, phone, door).reply().has_refusal());
}

TEST_CASE("events stay for a subscription that has not taken them, until it has or is given up") {
  domain_world w;
  change(w);
  auto start = subscribe(w, "slow");
  change(w);
  w.pass(6 * day_ms);
  auto half = change(w);
  ack(w, "slow", start);
  // The first two events are old enough to go; the second one is waited for.
  w.pass(2 * day_ms);
  auto batch = sweep(w);
  CHECK(resets(batch).empty());
  CHECK(w.rows.oldest_event("s") == start + 1);
  ack(w, "slow", start + 1);
  sweep(w);
  CHECK(w.rows.oldest_event("s") == half);
  // It was touched now, so its time runs from now.
  w.pass(7 * day_ms);
  CHECK(resets(sweep(w)).empty());
  CHECK(w.rows.oldest_event("s") == half);
  w.pass(1);
  auto expected = "slow {\"owner\":\"operator/\",\"cursor\":" + std::to_string(start + 1) + ",\"reason\":\"untouched\"}";
  CHECK(resets(sweep(w)) == std::vector{expected});
  CHECK(w.rows.oldest_event("s") > half);
  CHECK(ack(w, "slow", half).refusal().code() == v1::Refusal::NOT_FOUND);
}

TEST_CASE("a subscription that has taken everything stays, however quiet its scope is") {
  domain_world w;
  auto newest = change(w);
  subscribe(w, "patient");
  w.pass(100 * day_ms);
  CHECK(resets(sweep(w)).empty());
  ack(w, "patient", w.rows.row<v1::ScopeState>("s")->revision());
  w.pass(100 * day_ms);
  newest = change(w);
  // The first event for months: its time runs from here, not from its last move.
  CHECK(resets(sweep(w)).empty());
  w.pass(6 * day_ms);
  CHECK(resets(sweep(w)).empty());
  CHECK(ack(w, "patient", newest).subscription().cursor() == newest);
}

TEST_CASE("what a subscription did not ask for does not put it behind") {
  domain_world w;
  change(w);
  auto cmd = domain_world::command();
  cmd.mutable_subscribe()->set_name("tasks");
  cmd.mutable_subscribe()->add_types("task.");
  auto start = w.reply(cmd).subscription().cursor();
  auto newest = change(w);
  w.pass(7 * day_ms + 1);
  CHECK(resets(sweep(w)).empty());
  CHECK(w.rows.oldest_event("s") > newest);
  CHECK(ack(w, "tasks", start).subscription().cursor() == newest);
}

TEST_CASE("the bound on the number of events wins over a subscription, which is told once") {
  const auto before = limits::events_rows_max();
  REQUIRE(limits::events_rows_max.set(limits::events_rows_max.lowest()));
  domain_world w;
  auto first = change(w);
  auto start = subscribe(w, "slow");
  auto state = w.rows.row<v1::ScopeState>("s").value();
  // As if so many events had been written since; they have no rows in this test.
  state.set_revision(state.revision() + limits::events_rows_max() - 1);
  w.rows.put(state);
  CHECK(resets(sweep(w)).empty());
  CHECK(w.rows.oldest_event("s") == first);
  for (int i = 0; i < 3; ++i)
    change(w);
  subscribe(w, "late");
  auto expected = "slow {\"owner\":\"operator/\",\"cursor\":" + std::to_string(start) + ",\"reason\":\"events_rows_max\"}";
  CHECK(resets(sweep(w)) == std::vector{expected});
  CHECK(w.rows.oldest_event("s") > start + 1);
  CHECK(resets(sweep(w)).empty());
  CHECK_FALSE(ack(w, "slow", start).has_refusal());
  limits::events_rows_max.set(before);
}
