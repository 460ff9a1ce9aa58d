#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "actors/domain/rules.hpp"
#include "tests/support/domain_world.hpp"

using namespace swarm;
using test::domain_world;
namespace v1 = swarm::v1;

namespace {
constexpr std::int64_t day_ms = 86'400'000;

void put_key(domain_world& w, const std::string& name) {
  auto cmd = domain_world::command();
  cmd.mutable_set_kv()->set_key(name);
  w.run(cmd);
}
} // namespace

TEST_CASE("only keys that name an instance expire with it") {
  domain_world w;
  auto a = w.session();
  auto gone = std::string("11111111-2222-4333-8444-555555555555");
  for (const auto& name : {"plan/v3", "plan/latest", "progress/notes", "findings/x"})
    put_key(w, name);
  put_key(w, "progress/" + a);
  put_key(w, "progress/" + gone);
  put_key(w, "identity/workspace/herdr/" + gone);
  w.pass(3'600'001);
  auto report = w.sweep();
  CHECK(report.kv_deleted() == 2);
  CHECK(report.identity_rows_deleted() == 1);
  CHECK(w.rows.all<v1::KvEntry>().size() == 5);
}

TEST_CASE("a new epoch is no reason to delete the events of the one before") {
  domain_world w;
  w.session();
  auto set = domain_world::command();
  set.mutable_set_kv()->set_key("k");
  set.mutable_set_kv()->set_value("v");
  w.run(set);
  auto oldest = w.rows.oldest_event("s");
  REQUIRE(oldest != 0);
  auto state = w.rows.row<v1::ScopeState>(domain::key("s")).value();
  state.set_epoch(state.epoch() + 1);
  w.rows.put(state);
  w.run(set);
  REQUIRE(w.rows.newest_events("s", 1).front().revision() > oldest + limits::events_rows_max());
  CHECK(w.sweep().events_deleted() == 0);
  CHECK(w.rows.oldest_event("s") == oldest);
}

TEST_CASE("messages, finished tasks and events live seven days") {
  domain_world w;
  auto a = w.session(), b = w.session();
  auto send = domain_world::command(a);
  send.mutable_send_message()->set_recipient(b);
  send.mutable_send_message()->set_content("x");
  w.run(send);
  v1::Task t;
  t.set_id("t");
  t.set_scope("s");
  t.set_status(v1::DONE);
  t.set_updated_at_ms(w.in.now_ms);
  w.rows.put(t);
  w.pass(7 * day_ms);
  CHECK(w.sweep().messages_deleted() == 0);
  w.pass(1);
  auto preview = domain::preview_sweep(w.rows, "s", w.in);
  CHECK(w.rows.all<v1::Message>().size() == 1);
  auto report = w.sweep();
  CHECK(report.messages_deleted() == 1);
  CHECK(report.terminal_tasks_deleted() == 1);
  CHECK(report.events_deleted() > 0);
  CHECK(preview.messages_deleted() == 1);
  CHECK(preview.dry_run());
  CHECK(w.rows.events("s", 0, 0).front().at_ms() == w.in.now_ms);
}

TEST_CASE("a waiter whose deadline has passed is answered") {
  domain_world w;
  auto a = w.session(), b = w.session();
  for (const auto& who : {a, b}) {
    auto cmd = domain_world::command(who);
    cmd.mutable_acquire_lock()->set_path("/repo/x");
    cmd.mutable_acquire_lock()->set_wait_ms(100);
    w.run(cmd);
  }
  w.pass(100);
  auto cmd = domain_world::by(v1::Principal::NODE);
  cmd.mutable_sweep();
  auto batch = w.run(cmd);
  CHECK(batch.reply().sweep().waiters_expired() == 1);
  REQUIRE(batch.resolved_size() == 1);
  CHECK(batch.resolved(0).reply().refusal().code() == v1::Refusal::TIMEOUT);
  CHECK(batch.reply().sweep().next_deadline_ms() == 0);
}

TEST_CASE("however many rows are due later, the next deadline is found by looking at a few, and is never missed") {
  domain_world w;
  constexpr std::int64_t hour = 3'600'000;
  auto first = w.in.now_ms + hour;
  for (int i = 0; i < 1'000; ++i) {
    v1::KvEntry e;
    e.set_scope("s");
    e.set_key("k" + std::to_string(i));
    e.set_expires_at_ms(first + i / 500);
    w.rows.put(e);
  }
  int sweeps = 0;
  for (; w.in.now_ms < first; ++sweeps) {
    auto next = w.sweep().next_deadline_ms();
    REQUIRE(next > w.in.now_ms);
    REQUIRE(next <= first + 20);
    w.in.now_ms = next;
  }
  CHECK(sweeps < 30);
  CHECK(w.in.now_ms <= first + 20);
  v1::KvEntry alone;
  alone.set_scope("t");
  alone.set_key("k");
  alone.set_expires_at_ms(w.in.now_ms + 30 * 24 * hour);
  w.rows.put(alone);
  auto cmd = domain_world::by(v1::Principal::NODE);
  cmd.set_scope("t");
  cmd.mutable_sweep();
  CHECK(w.run(cmd).reply().sweep().next_deadline_ms() == alone.expires_at_ms());
}

TEST_CASE("one sweep takes so many rows and says at once that more is due") {
  domain_world w;
  for (std::uint64_t i = 1; i <= 600; ++i) {
    v1::Message m;
    m.set_scope("s");
    m.set_id(i);
    w.rows.put(m);
  }
  auto first = w.sweep();
  CHECK(first.messages_deleted() == 500);
  CHECK(first.next_deadline_ms() == w.in.now_ms);
  CHECK(w.sweep().messages_deleted() == 100);
}

namespace {

template <class Row>
std::int64_t due_at(const Row& row) {
  v1::RowPatch p;
  *domain::table<Row>::mutable_in(p) = row;
  return domain::due_at(p);
}

/// A sweep finds the row at the moment that it names, and not before.
template <class Row>
void found_when_due(const Row& row) {
  const auto at_ms = due_at(row);
  CAPTURE(row.ShortDebugString());
  REQUIRE(at_ms > 1);
  CHECK(domain::table<Row>::matches({.due_at_ms = at_ms}, row));
  CHECK_FALSE(domain::table<Row>::matches({.due_at_ms = at_ms - 1}, row));
}

} // namespace

TEST_CASE("a row names the moment from which on a sweep finds it") {
  v1::Session lease, heartbeat, process;
  lease.set_presence(v1::Session::LEASE);
  lease.set_lease_until_ms(5'000'000);
  heartbeat.set_presence(v1::Session::HEARTBEAT);
  heartbeat.set_heartbeat_ms(5'000'000);
  process.set_presence(v1::Session::PROCESS);
  v1::Lock lock;
  lock.set_deadline_ms(5'000);
  v1::LockWaiter waiter;
  waiter.set_deadline_ms(5'000);
  v1::KvEntry entry;
  entry.set_expires_at_ms(5'000);
  found_when_due(lease);
  found_when_due(heartbeat);
  found_when_due(lock);
  found_when_due(waiter);
  found_when_due(entry);
  CHECK(due_at(process) == 0);
  CHECK(due_at(v1::Lock{}) == 0);
  CHECK(due_at(v1::Task{}) == 0);
  CHECK(domain::due_at(v1::RowPatch{}) == 0);
}

TEST_CASE("an open question is due at its deadline, and what a scope has begun is due at once") {
  v1::Approval a;
  a.set_deadline_ms(5'000);
  CHECK(due_at(a) == 5'000);
  a.set_decided_at_ms(4'000);
  CHECK(due_at(a) == 0);
  v1::ScopeState begun, idle;
  begun.set_lines_pending(true);
  CHECK(due_at(begun) == 1);
  CHECK(due_at(idle) == 0);
}
