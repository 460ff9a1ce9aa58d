// The payloads of docs/events.md, key by key: programs read them, so a key that is spelt otherwise is missing.
#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

domain::json payload_of(const task_world& w, const std::string& type) {
  for (const auto& e : w.last.events())
    if (e.type() == type)
      return domain::json::parse(e.payload());
  FAIL("no event " << type);
  return {};
}

std::string keys(const domain::json& payload) {
  std::string out;
  for (const auto& [name, value] : payload.items())
    out += (out.empty() ? "" : " ") + name;
  return out;
}

v1::Command sweeping() {
  v1::Command c;
  c.mutable_sweep();
  return c;
}

} // namespace

TEST_CASE("progress tells its times in seconds, under swarm-mcp's names") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("T"))));
  w.as(a, claim(t.id()));
  v1::Command c;
  auto& p = *c.mutable_report_progress();
  p.set_task_id(t.id());
  p.set_summary("half");
  w.as(a, c);
  auto payload = payload_of(w, "task.progress");
  CHECK(keys(payload) == "summary blocked_reason expected_next_update_at progress_updated_at");
  CHECK(payload["expected_next_update_at"].is_null());
  CHECK(payload["progress_updated_at"] == w.in.now_ms / 1000);
  p.set_set_expected_next_update_at(true);
  p.set_expected_next_update_at_ms(1'800'000'000'999);
  w.as(a, c);
  CHECK(payload_of(w, "task.progress")["expected_next_update_at"] == 1'800'000'000);
}

TEST_CASE("a worker's session is announced like any leased one") {
  task_world w;
  v1::Command leased;
  leased.mutable_register_session()->set_directory("/repo");
  leased.mutable_register_session()->set_lease_ms(5'000);
  w.op(leased);
  const auto expected = keys(payload_of(w, "instance.registered"));
  CHECK(expected == "label adopted pid directory root file_root lease_until");
  v1::Command c;
  c.mutable_dispatch()->set_title("count");
  c.mutable_dispatch()->set_harness("exec");
  c.mutable_dispatch()->add_argv("true");
  w.op(c);
  auto payload = payload_of(w, "instance.registered");
  CHECK(keys(payload) == expected);
  CHECK(payload["lease_until"] == (w.in.now_ms + limits::spawn_session_lease().count()) / 1000);
}

TEST_CASE("a key that has run out is announced with what it was, like one that somebody deletes") {
  task_world w;
  v1::Command set, remove;
  set.mutable_set_kv()->set_key("k");
  set.mutable_set_kv()->set_value("na\xc3\xafve");
  w.op(set);
  remove.mutable_delete_kv()->set_key("k");
  w.op(remove);
  CHECK(keys(payload_of(w, "kv.deleted")) == "prior_value prior_length");
  set.mutable_set_kv()->set_ttl_ms(10);
  w.op(set);
  w.in.now_ms += 10;
  w.node(sweeping());
  const auto payload = payload_of(w, "kv.deleted");
  CHECK(keys(payload) == "prior_value prior_length reason");
  CHECK(payload["prior_value"] == "na\xc3\xafve");
  CHECK(payload["prior_length"] == 5);
}

TEST_CASE("deleted keys are announced also by a sweep that had to stop in the middle of them") {
  task_world w;
  v1::KvEntry e;
  e.set_scope(test::scope);
  for (int i = 0; i < 600; ++i) {
    e.set_key("plan/" + std::to_string(i) + "/11111111-2222-4333-8444-555555555555");
    w.rows.put(e);
  }
  w.node(sweeping());
  CHECK(payload_of(w, "cleanup.kv_deleted")["deleted"] == 500);
  w.node(sweeping());
  CHECK(payload_of(w, "cleanup.kv_deleted")["deleted"] == 100);
  CHECK(w.rows.row<v1::ScopeState>(domain::key(test::scope))->kv_entries() == 0);
}
