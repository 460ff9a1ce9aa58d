#include "gateway/json/shapes.hpp"

#include <doctest/doctest.h>

#include "tests/support/session_row.hpp"

using namespace swarm;
using swarm::testing::session;
using json = nlohmann::ordered_json;

namespace {

v1::Task example_task() {
  v1::Task t;
  t.set_id("T1");
  t.set_scope("/r");
  t.set_type("implement");
  t.set_title("T1");
  t.set_requester("I1");
  t.set_status(v1::OPEN);
  t.add_files("/r/src/x.ts");
  t.add_files("/abs/y");
  t.set_has_files(true);
  t.set_created_at_ms(1'795'291'672'100);
  t.set_updated_at_ms(1'795'291'672'100);
  t.set_changed_at_ms(1'795'291'672'727);
  t.set_priority(3);
  return t;
}

} // namespace

TEST_CASE("an instance object looks as in swarm-mcp") {
  auto s = session("I1", "identity:work role:planner");
  s.set_directory("/r/sub");
  s.set_file_root("/r/sub");
  CHECK(
    mcp::dump(mcp::instance(s), -1) ==
    R"({"id":"I1","scope":"/r","directory":"/r/sub","root":"/r","file_root":"/r/sub","pid":123,"label":"identity:work role:planner","adopted":true,"lease_until":null})");
}

TEST_CASE("a peer row has the integer 1 for adopted and its times in seconds") {
  CHECK(
    mcp::dump(mcp::peer(session("I1", "x")), -1) ==
    R"({"id":"I1","scope":"/r","directory":"/r","root":"/r","file_root":"/r","pid":123,"label":"x","registered_at":1795291620,"heartbeat":1795291620,"adopted":1,"lease_until":null})");
}

TEST_CASE("a full task row has every column in swarm-mcp's order") {
  CHECK(
    mcp::dump(mcp::task(example_task()), -1) ==
    R"({"id":"T1","scope":"/r","type":"implement","title":"T1","description":null,"requester":"I1","assignee":null,"status":"open","files":["/r/src/x.ts","/abs/y"],"result":null,"created_at":1795291672,"updated_at":1795291672,"changed_at":1795291672727,"priority":3,"depends_on":null,"idempotency_key":null,"parent_task_id":null,"review_of_task_id":null,"fixes_task_id":null,"progress_summary":null,"progress_updated_at":null,"blocked_reason":null,"expected_next_update_at":null,"tracker_required":0,"tracker_provider":null})");
}

TEST_CASE("an empty list of files stays a list, no list is null, and an empty result differs from none") {
  v1::Task t;
  t.set_status(v1::OPEN);
  CHECK(mcp::task(t)["files"].is_null());
  CHECK(mcp::task(t)["result"].is_null());
  t.set_has_files(true);
  t.set_has_result(true);
  CHECK(mcp::task(t)["files"] == json::array());
  CHECK(mcp::task(t)["result"] == "");
}

TEST_CASE("a snapshot without terminal tasks leaves those keys out but keeps the counts") {
  v1::Snapshot s;
  *s.add_tasks() = example_task();
  s.set_done(2);
  CHECK(mcp::dump(mcp::snapshot(v1::Snapshot{}, false), -1) ==
        R"({"open":[],"claimed":[],"in_progress":[],"blocked":[],"approval_required":[],"terminal_counts":{"done":0,"failed":0,"cancelled":0}})");
  auto full = mcp::snapshot(s);
  CHECK(full["open"].size() == 1);
  CHECK(full["done"] == json::array());
  CHECK(full["terminal_counts"]["done"] == 2);
}

TEST_CASE("messages and prompts look as in swarm-mcp") {
  v1::Message m;
  m.set_id(2);
  m.set_sender("I2");
  m.set_content("hi");
  m.set_created_at_ms(1'795'291'672'999);
  CHECK(mcp::dump(mcp::message(m), -1) == R"({"id":2,"sender":"I2","content":"hi","created_at":1795291672})");
  v1::PromptResult p;
  p.set_sender("I1");
  p.set_recipient("I2");
  p.set_message_id(2);
  p.set_skipped("no workspace identity is published for that instance");
  CHECK(
    mcp::dump(mcp::prompt(p), -1) ==
    R"({"message_sent":true,"sender":"I1","recipient":"I2","nudged":false,"nudge_skipped":"no workspace identity is published for that instance"})");
  p.clear_message_id();
  CHECK(mcp::prompt(p)["message_sent"] == false);
}

TEST_CASE("a held file shows its owner's age and whether it is stale or reclaimable") {
  v1::LockAnswer a;
  a.set_path("/r/src/a.ts");
  auto* view = a.mutable_active();
  view->mutable_lock()->set_id("L1");
  view->mutable_lock()->set_session_id("I1");
  view->mutable_lock()->set_path("/r/src/a.ts");
  view->mutable_lock()->set_note("actively editing");
  view->mutable_lock()->set_created_at_ms(1'795'291'620'000);
  view->mutable_owner()->set_id("I1");
  view->mutable_owner()->set_heartbeat_ms(1'795'291'620'000);
  view->mutable_owner()->set_active(true);
  CHECK(
    mcp::dump(mcp::file_lock(a, 1'795'291'620'500), -1) ==
    R"({"file":"/r/src/a.ts","active":{"id":"L1","instance_id":"I1","file":"/r/src/a.ts","type":"lock","content":"actively editing","created_at":1795291620,"owner":{"id":"I1","label":null,"heartbeat":1795291620,"heartbeat_age_seconds":0,"stale":false,"reclaimable":false,"active":true},"active_tasks":[]}})");
  auto& place = *view->mutable_owner()->mutable_workspace();
  place.set_key("identity/workspace/herdr/I1");
  place.set_backend("herdr");
  place.set_handle_kind("pane");
  place.set_handle("p1");
  place.set_pane_id("p1");
  place.set_tab_id("t2");
  auto row = mcp::lock_row(*view, 1'795'291'620'500);
  CHECK(
    mcp::dump(row["workspace"], -1) ==
    R"({"key":"identity/workspace/herdr/I1","backend":"herdr","handle_kind":"pane","handle":"p1","workspace_handle":"p1","pane_id":"p1","tab_id":"t2"})");
  CHECK(row["owner"]["workspace_backend"] == "herdr");
  CHECK(row["owner"]["workspace_handle"] == "p1");
  CHECK(row["owner"]["pane_id"] == "p1");
  auto at = [&](int age_s) { return mcp::lock_row(*view, 1'795'291'620'000 + age_s * 1000)["owner"]; };
  CHECK(at(30)["stale"] == false);
  CHECK(at(31)["stale"] == true);
  CHECK(at(60)["reclaimable"] == false);
  CHECK(at(61)["reclaimable"] == true);
}

TEST_CASE("a lock across the identity boundary shows nothing but its path") {
  v1::Reply r;
  r.mutable_refusal()->set_text("Cannot lock a path owned by another identity");
  r.mutable_lock()->mutable_active()->set_hidden(true);
  r.mutable_lock()->mutable_active()->mutable_lock()->set_path("/r/a");
  r.mutable_lock()->mutable_active()->mutable_lock()->set_note("secret");
  CHECK(mcp::dump(mcp::lock_reply(r, 0), -1) ==
        R"({"error":"Cannot lock a path owned by another identity","active":{"hidden":true,"reason":"cross_identity","file":"/r/a"}})");
}

TEST_CASE("request_task says existing only when the task was there, and prompt only when somebody was told") {
  v1::TasksCreated r;
  r.add_tasks()->mutable_task()->set_id("T1");
  r.mutable_tasks(0)->mutable_task()->set_status(v1::OPEN);
  CHECK(mcp::dump(mcp::task_requested(r), -1) == R"({"task_id":"T1","status":"open"})");
  r.mutable_tasks(0)->set_existing(true);
  r.mutable_tasks(0)->mutable_task()->set_status(v1::BLOCKED);
  CHECK(mcp::dump(mcp::task_requested(r), -1) == R"({"task_id":"T1","status":"blocked","existing":true})");
}

TEST_CASE("a batch counts what was created and what existed") {
  v1::TasksCreated r;
  r.add_tasks()->mutable_task()->set_id("A");
  r.mutable_tasks(0)->mutable_task()->set_status(v1::OPEN);
  r.add_tasks()->mutable_task()->set_id("B");
  r.mutable_tasks(1)->mutable_task()->set_status(v1::BLOCKED);
  r.mutable_tasks(1)->mutable_task()->set_idempotency_key("bk");
  CHECK(
    mcp::dump(mcp::tasks_requested(r), -1) ==
    R"({"task_ids":["A","B"],"created":2,"existing":0,"tasks":[{"id":"A","status":"open","new":true},{"id":"B","status":"blocked","idempotency_key":"bk","new":true}]})");
}

TEST_CASE("dispatch replies follow swarm-mcp's branches, status last where a worker is started") {
  v1::DispatchReply d;
  *d.mutable_task() = example_task();
  d.set_existing(true);
  d.set_status(v1::DispatchReply::NO_WORKER);
  d.set_role("researcher");
  auto none = mcp::dispatch(d);
  CHECK(none["status"] == "no_worker");
  CHECK(none["role"] == "researcher");
  CHECK(none.begin().key() == "status");
  d.set_status(v1::DispatchReply::SPAWNING);
  d.set_spawn_lock("/__swarm/spawn/implementer/3386b7620cc9da19");
  auto started = mcp::dispatch(d);
  CHECK(started.begin().key() == "task_id");
  CHECK((--started.end()).key() == "status");
  CHECK(started["spawn_lock"] == "/__swarm/spawn/implementer/3386b7620cc9da19");
  d.set_status(v1::DispatchReply::SPAWN_IN_FLIGHT);
  CHECK(mcp::dispatch(d)["lock"]["file"] == "/__swarm/spawn/implementer/3386b7620cc9da19");
  CHECK_FALSE(mcp::dispatch(d).contains("promotion"));
}

TEST_CASE("dispatch says of a new task whether it belongs into the tracker, and what it was tied to") {
  v1::DispatchReply d;
  *d.mutable_task() = example_task();
  d.set_status(v1::DispatchReply::NO_WORKER);
  auto& p = *d.mutable_promotion();
  p.set_reason("no_tracker_configured");
  p.set_identity("work");
  auto shown = [&] { return mcp::dump(mcp::dispatch(d)["promotion"], -1); };
  CHECK(shown() == R"({"decision":{"promote":false,"reason":"no_tracker_configured","identity":"work","provider":null}})");
  p.set_promote(true);
  p.set_mode("create");
  p.set_reason("medium_or_larger");
  p.set_provider("linear");
  p.set_precedence("default");
  CHECK(
    shown() ==
    R"({"decision":{"promote":true,"mode":"create","reason":"medium_or_larger","identity":"work","provider":"linear","existing_binding":null,"precedence":"default"}})");
  p.set_identifier("VUH-36");
  p.set_url("https://t/VUH-36");
  p.set_linked_at_ms(1'795'291'620'123);
  auto linked = mcp::dispatch(d)["promotion"];
  CHECK(linked["decision"]["identifier"] == "VUH-36");
  CHECK(linked["decision"]["url"] == "https://t/VUH-36");
  CHECK(mcp::dump(linked["binding_written"], -1) == R"({"identifier":"VUH-36","url":"https://t/VUH-36","linked_at":1795291620123})");
  p.clear_linked_at_ms();
  p.set_link_error("KV key is owned by another identity");
  CHECK(mcp::dispatch(d)["promotion"]["binding_error"] == "KV key is owned by another identity");
}

TEST_CASE("a gated claim reports the unread messages") {
  v1::Reply r;
  r.mutable_refusal()->set_code(v1::Refusal::UNREAD);
  r.mutable_refusal()->set_text("Unread messages pending (2).");
  r.mutable_task()->set_unread_messages(2);
  r.mutable_task()->set_latest_message_id(9);
  r.mutable_task()->set_latest_message_sender("I2");
  CHECK(mcp::dump(mcp::error(r), -1) ==
        R"({"error":"Unread messages pending (2).","unread_message_count":2,"latest_message_id":9,"latest_message_sender":"I2"})");
}

TEST_CASE("a wait that ran out has swarm-mcp's three keys") {
  v1::Activity a;
  a.set_timed_out(true);
  CHECK(mcp::dump(mcp::activity(a), -1) == R"({"changes":[],"timeout":true,"message":"No new activity within timeout."})");
}

TEST_CASE("a result nested without end is shown as the text it is") {
  v1::TaskReply reply;
  auto deep = std::string(100'000, '[') + std::string(100'000, ']');
  reply.mutable_task()->set_status(v1::DONE);
  reply.mutable_task()->set_result(deep);
  CHECK(mcp::task_completed(reply)["result"] == deep);
  reply.mutable_task()->set_result("[[1]]");
  CHECK(mcp::task_completed(reply)["result"] == json::parse("[[1]]"));
}

TEST_CASE("bytes that are not UTF-8 become replacement characters instead of an exception") {
  CHECK(mcp::dump(json("a\xff"), -1) == "\"a\xef\xbf\xbd\"");
}
