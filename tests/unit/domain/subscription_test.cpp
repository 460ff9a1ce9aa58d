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

TEST_CASE("of the sessions only a coordinator decides approvals, and none decides its own") {
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
