#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

TEST_CASE("a pre-assigned task is claimed, and claiming it starts it under a new fence and attempt") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto s = spec("T");
  s.set_assignee(b);
  const auto t = made(w.as(a, create(s)));
  CHECK(t.status() == v1::CLAIMED);
  REQUIRE(w.mail(b).size() == 1);
  CHECK(w.mail(b)[0] == "[task:" + t.id() + "] [auto] New implement task assigned to you: \"T\" (task_id: " + t.id() +
                          "). Claim it with claim_task if not auto-claimed.");
  const auto started = w.as(b, claim(t.id(), true)).task();
  CHECK(started.task().status() == v1::IN_PROGRESS);
  CHECK(started.prior_status() == v1::CLAIMED);
  CHECK(started.task().attempt() == 1);
  CHECK(started.task().fence() > 0);
  CHECK(w.events("task.claimed") == 1);
}

TEST_CASE("a claimed task may be done without having been started") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto s = spec("T");
  s.set_assignee(b);
  const auto t = made(w.as(a, create(s)));
  CHECK(w.as(b, update(t.id(), v1::DONE, "ok")).task().task().status() == v1::DONE);
  CHECK(w.mail(a).back() == "[task:" + t.id() + "] [auto] Task \"T\" (" + t.id() + ") is now done. Result: ok");
}

TEST_CASE("a released task goes back to open, and the old fence is refused afterwards") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), c = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("T"))));
  const auto old = w.as(b, claim(t.id())).task().task().fence();
  w.as(b, deregister());
  CHECK(w.task(t.id()).status() == v1::OPEN);
  CHECK(w.task(t.id()).assignee().empty());
  CHECK(w.task(t.id()).fence() == 0);
  const auto again = w.as(c, claim(t.id(), true)).task().task();
  CHECK(again.attempt() == 2);
  CHECK(again.fence() > old);
  const auto late = w.as(c, update(t.id(), v1::DONE, "late", old));
  CHECK(late.refusal().code() == v1::Refusal::STALE);
  CHECK(text(late) == "This claim is no longer yours: the task was reopened or claimed again");
  CHECK_FALSE(w.as(c, update(t.id(), v1::DONE, "now", again.fence())).has_refusal());
}

TEST_CASE("claim_task refuses in the order of swarm-mcp: unknown, foreign, state, then unread mail") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), stranger = w.join("identity:y");
  const auto t = made(w.as(a, create(spec("T"))));
  CHECK(text(w.as(b, claim("nope"))) == "Task not found");
  const auto foreign = w.as(stranger, claim(t.id()));
  CHECK(text(foreign) == "Task belongs to another identity");
  CHECK(foreign.refusal().code() == v1::Refusal::CROSS_IDENTITY);
  v1::Command send;
  send.mutable_send_message()->set_recipient(b);
  send.mutable_send_message()->set_content("read me");
  w.as(a, send);
  const auto gated = w.as(b, claim(t.id()));
  CHECK(gated.refusal().code() == v1::Refusal::UNREAD);
  CHECK(gated.task().unread_messages() == 1);
  CHECK(gated.task().latest_message_sender() == a);
  CHECK(text(gated).find("Unread messages pending (1). Call bootstrap or poll_messages") == 0);
  w.as(b, claim(t.id(), true));
  const auto taken = w.as(a, claim(t.id()));
  CHECK(text(taken) == "Task is already in_progress");
  CHECK(taken.refusal().code() == v1::Refusal::CONFLICT);
  w.as(b, update(t.id(), v1::DONE));
  const auto over = w.as(b, claim(t.id()));
  CHECK(text(over) == "Task is already done");
  CHECK(over.refusal().code() == v1::Refusal::STATE);
}

TEST_CASE("claim_next checks unread mail before anything, takes my claimed tasks first, then by priority") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto high = spec("high");
  high.set_priority(9);
  auto mine = spec("mine");
  mine.set_assignee(b);
  w.as(a, create(spec("low")));
  w.as(a, create(high));
  w.as(a, create(mine));
  CHECK(w.as(b, claim_next()).refusal().code() == v1::Refusal::UNREAD);
  CHECK(w.as(b, claim_next(true)).task().task().title() == "mine");
  CHECK(w.as(b, claim_next(true)).task().task().title() == "high");
  CHECK(w.as(b, claim_next(true)).task().task().title() == "low");
  CHECK(text(w.as(b, claim_next(true))) == "No claimable task found");
}

TEST_CASE("claim_next filters by type and by files, and a task without files never matches a file filter") {
  task_world w;
  const auto a = w.join("identity:x");
  auto with_file = spec("f");
  with_file.add_files("/repo/a");
  w.as(a, create(spec("plain")));
  w.as(a, create(with_file));
  auto c = claim_next();
  c.mutable_claim_next_task()->add_files("/repo/a");
  CHECK(w.as(a, c).task().task().title() == "f");
  CHECK(text(w.as(a, c)) == "No claimable task found");
  auto review = claim_next();
  review.mutable_claim_next_task()->add_types("review");
  CHECK(text(w.as(a, review)) == "No claimable task found");
}

TEST_CASE("updates are refused with swarm-mcp's texts") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), c = w.join("identity:x");
  const auto open = made(w.as(a, create(spec("open"))));
  CHECK(text(w.as(a, update(open.id(), v1::DONE))) == "Task must be claimed before it can be updated");
  auto waits = spec("waits");
  waits.add_depends_on(open.id());
  const auto blocked = made(w.as(a, create(waits)));
  CHECK(text(w.as(a, update(blocked.id(), v1::DONE))) == "Task is blocked. It will auto-unblock when dependencies complete.");
  auto asks = spec("asks");
  asks.set_approval_required(true);
  const auto approval = made(w.as(a, create(asks)));
  CHECK(text(w.as(a, update(approval.id(), v1::DONE))) == "Task is approval_required. Use approve_task to approve it first.");
  w.as(b, claim(open.id()));
  CHECK(text(w.as(c, update(open.id(), v1::FAILED))) == "Only the assignee can update this task");
  CHECK(text(w.as(c, update(open.id(), v1::CANCELLED))) == "Only the requester or assignee can cancel this task");
  CHECK_FALSE(w.as(a, update(open.id(), v1::CANCELLED)).has_refusal());
  CHECK(text(w.as(b, update(open.id(), v1::DONE))) == "Task is already cancelled");
}

TEST_CASE("the operator cancels any task in person") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("T"))));
  CHECK(w.op(update(t.id(), v1::CANCELLED)).task().task().status() == v1::CANCELLED);
}

TEST_CASE("a task stays visible to its identity after its requester has left") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x"), y = w.join("identity:y");
  const auto t = made(w.as(a, create(spec("T"))));
  w.as(a, deregister());
  v1::Query q;
  q.mutable_get_task()->set_task_id(t.id());
  CHECK(w.ask(q, b).task().title() == "T");
  CHECK(w.ask(q, y).refusal().text() == "Task not found");
  CHECK(w.as(b, claim_next(true)).task().task().id() == t.id());
}

TEST_CASE("sessions without an identity label share their user's tasks") {
  task_world w;
  const auto a = w.join(""), b = w.join("role:implementer");
  const auto t = made(w.as(a, create(spec("T"))));
  CHECK_FALSE(w.as(b, claim(t.id())).has_refusal());
}

TEST_CASE("complete_task stores compact JSON in swarm-mcp's order") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("T"))));
  w.as(a, claim(t.id()));
  auto c = complete(t.id(), "did it");
  auto& body = *c.mutable_complete_task();
  body.add_files_changed("/repo/x");
  auto& test = *body.add_tests();
  test.set_command("make");
  test.set_status("passed");
  body.set_has_tracker_update(true);
  body.set_tracker_update(R"({"id":1})");
  body.add_followups("f");
  w.as(a, c);
  CHECK(
    w.task(t.id()).result() ==
    R"({"summary":"did it","files_changed":["/repo/x"],"tests":[{"command":"make","status":"passed"}],"tracker_update":{"id":1},"followups":["f"]})");
}

TEST_CASE("a tracker update nested beyond all reason is kept as text and exhausts no stack") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("T"))));
  w.as(a, claim(t.id()));
  auto c = complete(t.id(), "did it");
  c.mutable_complete_task()->set_has_tracker_update(true);
  const auto deep = std::string(50'000, '[') + std::string(50'000, ']');
  c.mutable_complete_task()->set_tracker_update(deep);
  CHECK_FALSE(w.as(a, c).has_refusal());
  CHECK(w.task(t.id()).result().find("\"tracker_update\":\"[[[") != std::string::npos);
}

TEST_CASE("a title like Fix UTF-8 needs a tracker field only where a tracker is configured, and update_task never does") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto plain = made(w.as(a, create(spec("Fix UTF-8"))));
  w.as(a, claim(plain.id()));
  CHECK_FALSE(w.as(a, complete(plain.id(), "ok")).has_refusal());
  w.caller.set_work_tracker("linear");
  const auto tracked = made(w.as(a, create(spec("Fix UTF-8"))));
  w.as(a, claim(tracked.id()));
  CHECK(text(w.as(a, complete(tracked.id(), "ok"))) == "Tracker-backed tasks require tracker_update or tracker_update_skipped in complete_task");
  CHECK_FALSE(w.as(a, update(tracked.id(), v1::DONE)).has_refusal());
}

TEST_CASE("a tracker is configured by the key of the identity that acts, else by the default key, else by the caller's environment") {
  task_world w;
  const auto ada = w.join("identity:ada"), bob = w.join("identity:bob");
  const auto configure = [&](const std::string& name, const std::string& value) {
    v1::KvEntry entry;
    entry.set_scope(scope);
    entry.set_key("config/work_tracker/" + name);
    entry.set_value(value);
    w.rows.put(entry);
  };
  const auto provider = [&](const std::string& session) {
    auto c = create(spec("ABC-12"));
    c.mutable_create_tasks()->set_detect_tracker(true);
    const auto t = made(w.as(session, c));
    CHECK(t.tracker_required() == !t.tracker_provider().empty());
    return t.tracker_provider();
  };
  CHECK(provider(ada).empty());
  w.caller.set_work_tracker("own");
  CHECK(provider(ada) == "own");
  configure("ada", R"({"provider":" Jira "})");
  CHECK(provider(ada) == "jira");
  CHECK(provider(bob) == "own");
  configure("default", "not JSON");
  CHECK(provider(bob) == "linear");
  CHECK(provider(ada) == "jira");
  configure("ada", R"({"provider":"no name"})");
  CHECK(provider(ada) == "linear");
  // An identity that cannot be part of a key has the default's.
  configure("a/b", R"({"provider":"other"})");
  CHECK(provider(w.join("identity:a/b")) == "linear");
}

TEST_CASE("a tracker that a key configures demands the tracker field on completion, as one in the environment does") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto t = made(w.as(a, create(spec("Fix UTF-8"))));
  w.as(a, claim(t.id()));
  v1::KvEntry entry;
  entry.set_scope(scope);
  entry.set_key("config/work_tracker/x");
  entry.set_value("{}");
  entry.set_expires_at_ms(w.in.now_ms + 1);
  w.rows.put(entry);
  CHECK(text(w.as(a, complete(t.id(), "ok"))) == "Tracker-backed tasks require tracker_update or tracker_update_skipped in complete_task");
  w.in.now_ms += 1;
  CHECK_FALSE(w.as(a, complete(t.id(), "ok")).has_refusal());
}

TEST_CASE("tracker_required is detected from ticket keys and links, not from other words with dashes") {
  task_world w;
  w.caller.set_work_tracker("linear");
  const auto a = w.join("identity:x");
  const auto required = [&](const std::string& title) {
    auto c = create(spec(title));
    c.mutable_create_tasks()->set_detect_tracker(true);
    return made(w.as(a, c)).tracker_required();
  };
  for (const char* title : {"ABC-12", "do linear:abc-7 now", "https://linear.app/team/issue/abc-9/title", "(X1-2)"})
    CHECK_MESSAGE(required(title), title);
  for (const char* title : {"abc-12", "ABC-", "A_B-1", "1A-2", "ABC-1x", "xlinear:abc-1", "linear.app/issue/abc-9", "-1"})
    CHECK_MESSAGE(!required(title), title);
}

TEST_CASE("progress is kept, changed and cleared field by field, and only by the assignee while in progress") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto s = spec("T");
  s.set_assignee(b);
  const auto t = made(w.as(a, create(s)));
  v1::Command p;
  auto& r = *p.mutable_report_progress();
  r.set_task_id(t.id());
  r.set_summary("half");
  CHECK(text(w.as(a, p)) == "Only the assignee can report progress on this task");
  CHECK(text(w.as(b, p)) == "Task must be in_progress before progress can be reported");
  w.as(b, claim(t.id(), true));
  r.set_set_blocked_reason(true);
  r.set_blocked_reason("waiting");
  w.as(b, p);
  r.set_set_blocked_reason(false);
  r.clear_blocked_reason();
  CHECK(w.as(b, p).task().task().blocked_reason() == "waiting");
  r.set_set_blocked_reason(true);
  CHECK(w.as(b, p).task().task().blocked_reason().empty());
  w.as(b, update(t.id(), v1::DONE));
  CHECK(w.task(t.id()).progress_summary().empty());
  CHECK(text(w.as(b, p)) == "Task is already done");
}

TEST_CASE("a repeated idempotency key returns the first task untouched, without a prompt and without checking relations") {
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  auto s = spec("first");
  s.set_idempotency_key("k");
  const auto first = made(w.as(a, create(s)));
  auto again = spec("second");
  again.set_idempotency_key("k");
  again.set_assignee(b);
  again.add_depends_on("missing");
  const auto r = w.as(a, create(again));
  CHECK(r.tasks_created().tasks(0).existing());
  CHECK(made(r).id() == first.id());
  CHECK(made(r).title() == "first");
  CHECK(r.tasks_created().prompts_size() == 0);
  again.set_assignee("nobody");
  CHECK(text(w.as(a, create(again))) == "Instance nobody is not active in this scope");
}

TEST_CASE("relations that do not exist are refused by name") {
  task_world w;
  const auto a = w.join("identity:x");
  auto s = spec("T");
  s.set_fixes_task_id("f");
  CHECK(text(w.as(a, create(s))) == "Fix target task f not found in scope");
  s.set_review_of_task_id("r");
  CHECK(text(w.as(a, create(s))) == "Review target task r not found in scope");
  s.set_parent_task_id("p");
  CHECK(text(w.as(a, create(s))) == "Parent task p not found in scope");
  s.add_depends_on("d");
  CHECK(text(w.as(a, create(s))) == "Dependency task d not found in scope");
  CHECK(w.rows.all<v1::Task>().empty());
}

TEST_CASE("a task has a bounded number of dependants") {
  task_world w;
  const auto a = w.join("identity:x");
  const auto root = made(w.as(a, create(spec("root"))));
  auto s = spec("d");
  s.add_depends_on(root.id());
  for (std::size_t i = 0; i < limits::task_dependants_max(); ++i)
    REQUIRE_FALSE(w.as(a, create(s)).has_refusal());
  CHECK(w.as(a, create(s)).refusal().code() == v1::Refusal::LIMIT);
}

TEST_CASE("a requester has exactly so many unfinished tasks, however many others have") {
  const auto before = limits::principal_open_tasks_max();
  REQUIRE(limits::principal_open_tasks_max.set(limits::principal_open_tasks_max.lowest()));
  task_world w;
  const auto a = w.join("identity:x"), b = w.join("identity:x");
  v1::Task t;
  t.set_scope(test::scope);
  t.set_requester(a);
  t.set_status(v1::OPEN);
  for (std::size_t i = 1; i < limits::principal_open_tasks_max(); ++i) {
    t.set_id("t" + std::to_string(i));
    w.rows.put(t);
  }
  const auto last = made(w.as(a, create(spec("the last one")))).id();
  for (int i = 0; i < 20; ++i)
    CHECK(w.as(a, create(spec("one more"))).refusal().code() == v1::Refusal::LIMIT);
  CHECK_FALSE(w.as(b, batch({spec("of"), spec("another")})).has_refusal());
  CHECK_FALSE(w.as(a, update(last, v1::CANCELLED)).has_refusal());
  CHECK(w.as(a, batch({spec("room for"), spec("one only")})).refusal().code() == v1::Refusal::LIMIT);
  CHECK_FALSE(w.as(a, create(spec("in its place"))).has_refusal());
  CHECK(w.as(a, create(spec("one more"))).refusal().code() == v1::Refusal::LIMIT);
  CHECK(w.rows.row<v1::ScopeState>(domain::key(test::scope))->open_tasks() == limits::principal_open_tasks_max() + 2);
  limits::principal_open_tasks_max.set(before);
}

TEST_CASE("statuses and types have swarm-mcp's names") {
  for (int n = v1::OPEN; n <= v1::APPROVAL_REQUIRED; ++n)
    CHECK(domain::task_status_from(domain::to_text(static_cast<v1::TaskStatus>(n))) == n);
  CHECK(domain::task_status_from("finished") == v1::TASK_STATUS_UNSPECIFIED);
  CHECK(domain::valid_task_type("research"));
  CHECK_FALSE(domain::valid_task_type("Research"));
}

TEST_CASE("what the operator asks for is for everybody, or for the identity of the operator's shell") {
  task_world w;
  const auto work = w.join("identity:work"), other = w.join("identity:other"), plain = w.join("role:implementer");
  const auto open = made(w.op(create(spec("for all"))));
  CHECK(open.identity().empty());
  v1::Query tasks;
  tasks.mutable_list_tasks();
  for (const auto& who : {work, other, plain})
    CHECK(w.ask(tasks, who).tasks().tasks_size() == 1);
  CHECK_FALSE(w.as(work, claim(open.id())).has_refusal());
  made(w.op(create(spec("next"))));
  CHECK(w.as(other, claim_next()).task().task().title() == "next");
  for (const std::string identity : {"work", "identity:work"}) {
    w.caller.set_identity(identity);
    const auto t = made(w.op(create(spec("for work"))));
    CHECK(t.identity() == "identity:work");
    w.caller.clear_identity();
    CHECK(w.as(other, claim(t.id())).refusal().code() == v1::Refusal::CROSS_IDENTITY);
    CHECK(w.as(plain, claim_next()).refusal().code() == v1::Refusal::NOT_FOUND);
    CHECK(w.as(work, claim_next()).task().task().id() == t.id());
  }
  // The shell's identity says nothing for the operator who acts as a session.
  w.caller.set_identity("other");
  auto as_work = create(spec("as work"));
  as_work.set_actor(work);
  CHECK(made(w.op(as_work)).identity() == "identity:work");
}
