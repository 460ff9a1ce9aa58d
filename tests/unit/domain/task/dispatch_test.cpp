#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/domain/task/task_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

v1::Command work(const std::string& title, const std::string& harness = {}) {
  v1::Command c;
  c.mutable_dispatch()->set_title(title);
  c.mutable_dispatch()->set_harness(harness);
  return c;
}

v1::Command starting(const std::string& spawn) {
  v1::Command c;
  c.mutable_spawn_starting()->set_spawn_id(spawn);
  c.mutable_spawn_starting()->set_attempt(1);
  c.mutable_spawn_starting()->set_pid(7);
  return c;
}

v1::Command run_command(const std::string& title, std::vector<std::string> argv = {"sh", "-c", "true"}) {
  auto c = work(title, "exec");
  for (auto& a : argv)
    c.mutable_dispatch()->add_argv(a);
  return c;
}

/// The command of this task ends with that status.
void finish(task_world& w, const std::string& task, int exit_status = 0) {
  domain::spawn_filter of_task;
  of_task.scope = scope;
  of_task.task_id = task;
  v1::Command c;
  c.mutable_spawn_ended()->set_spawn_id(w.rows.rows<v1::Spawn>(of_task).at(0).id());
  c.mutable_spawn_ended()->set_attempt(1);
  c.mutable_spawn_ended()->set_exit_status(exit_status);
  REQUIRE_FALSE(w.node(c).has_refusal());
}

} // namespace

TEST_CASE("the dispatch hash is swarm-mcp's") {
  const auto key = "dispatch:" + domain::dispatch_hash({"/repo", "identity:work", "implement", "Do it", "implementer"});
  CHECK(key == "dispatch:78e34052518ea3cf");
  CHECK(domain::dispatch_hash({key}) == "3386b7620cc9da19");
  task_world w;
  const auto gateway = w.join("identity:work mode:gateway");
  const auto r = w.as(gateway, work("Do it")).dispatch();
  CHECK(r.task().idempotency_key() == key);
  CHECK(r.spawn_lock() == "/__swarm/spawn/implementer/3386b7620cc9da19");
  CHECK(r.status() == v1::DispatchReply::NO_WORKER);
}

TEST_CASE("a role is made safe in the lock path only") {
  task_world w;
  auto c = work("T");
  c.mutable_dispatch()->set_role("resear/cher");
  const auto r = w.op(c).dispatch();
  CHECK(r.spawn_lock() == "/__swarm/spawn/resear_cher/" + r.intent_hash());
  CHECK(r.role() == "resear/cher");
}

TEST_CASE("only the operator, coordinators and those granted it may dispatch") {
  task_world w;
  const auto plain = w.join("identity:x");
  const auto refused = w.as(plain, work("T"));
  CHECK(refused.refusal().code() == v1::Refusal::FORBIDDEN);
  CHECK(text(refused).find("dispatch is gateway-only. Use a requester labeled mode:gateway") == 0);
  w.caller.set_allow_spawn(true);
  CHECK(w.as(plain, work("T")).has_refusal());
  CHECK_FALSE(w.op(work("T")).has_refusal());
}

TEST_CASE("a worker that the operator's shell asks for has the identity of its task") {
  task_world w;
  w.caller.set_identity("work");
  const auto r = w.op(work("T", "shell")).dispatch();
  REQUIRE(r.status() == v1::DispatchReply::SPAWNING);
  CHECK(r.task().identity() == "identity:work");
  CHECK(domain::identity_token(r.spawn().label()) == "identity:work");
  auto named = work("U", "shell");
  named.mutable_dispatch()->set_label("identity:other");
  CHECK(text(w.op(named)) == "Spawn label identity identity:other does not match requester identity:work");
  w.caller.clear_identity();
  CHECK(domain::identity_token(w.op(named).dispatch().spawn().label()) == "identity:other");
}

TEST_CASE("a session that may start workers makes no coordinator unless it is one") {
  task_world w;
  const auto plain = w.join("identity:x"), gateway = w.join("identity:x mode:gateway");
  auto cmd = work("T");
  cmd.mutable_dispatch()->set_label("mode:gateway");
  cmd.set_scope(scope);
  *cmd.mutable_caller() = w.caller;
  cmd.mutable_caller()->set_allow_spawn(true);
  cmd.mutable_principal()->set_kind(v1::Principal::SESSION);
  cmd.mutable_principal()->set_id(plain);
  cmd.mutable_principal()->add_grants("spawn");
  CHECK(domain::decide(cmd, w.rows, w.in).reply().refusal().code() == v1::Refusal::FORBIDDEN);
  cmd.mutable_dispatch()->clear_label();
  CHECK_FALSE(domain::decide(cmd, w.rows, w.in).reply().has_refusal());
  cmd.mutable_dispatch()->set_label("mode:gateway");
  CHECK_FALSE(w.as(gateway, cmd).has_refusal());
  CHECK_FALSE(w.op(cmd).has_refusal());
}

TEST_CASE("bad dispatches are refused before any task is made") {
  task_world w;
  const auto gateway = w.join("identity:x mode:gateway");
  CHECK(text(w.op(work(" \t"))) == "dispatch requires a title");
  auto spawner = work("T");
  spawner.mutable_dispatch()->set_spawner("herdr");
  CHECK(text(w.op(spawner)) == "Unknown dispatch spawner \"herdr\". Registered spawners: pty.");
  auto label = work("T");
  label.mutable_dispatch()->set_label("identity:y");
  CHECK(text(w.as(gateway, label)) == "Spawn label identity identity:y does not match requester identity:x");
  CHECK(w.op(work("T", "emacs")).refusal().code() == v1::Refusal::INVALID);
  CHECK(w.op(work("T", "exec")).refusal().code() == v1::Refusal::INVALID);
  auto stubborn = run_command("T");
  stubborn.mutable_dispatch()->set_retries(limits::spawn_retries_max() + 1);
  CHECK(text(w.op(stubborn)) == "retries must be at most 16");
  CHECK(w.rows.all<v1::Task>().empty());
}

TEST_CASE("a live worker gets the task: its role first, then a generalist, of the requester's identity, busy or not") {
  task_world w;
  const auto gateway = w.join("identity:x mode:gateway");
  w.join("identity:y role:implementer");
  w.join("identity:x role:implementer", false);
  w.join("identity:x role:implementer provider:exec");
  w.join("identity:x role:implementer provider:shell");
  const auto general = w.join("identity:x");
  CHECK(w.as(gateway, work("one")).dispatch().recipient() == general);
  const auto worker = w.join("identity:x role:implementer");
  const auto r = w.as(gateway, work("two")).dispatch();
  CHECK(r.status() == v1::DispatchReply::DISPATCHED);
  CHECK(r.recipient() == worker);
  CHECK(r.task().status() == v1::CLAIMED);
  CHECK(w.mail(worker)[0].find("[task:" + r.task().id() + "] Task " + r.task().id() + " is ready: two\n\ntwo\n\n") == 0);
}

TEST_CASE("a coordinator without a role is no worker for what others ask, and with the task's role it is") {
  task_world w;
  w.join("name:second mode:gateway");
  CHECK(w.op(work("one")).dispatch().status() == v1::DispatchReply::NO_WORKER);
  const auto general = w.join("name:third");
  CHECK(w.op(work("two")).dispatch().recipient() == general);
  const auto chosen = w.join("name:fourth mode:gateway role:implementer");
  CHECK(w.op(work("three")).dispatch().recipient() == chosen);
}

TEST_CASE("a known task is not assigned again, but its worker is prompted each time") {
  task_world w;
  const auto gateway = w.join("identity:x mode:gateway role:planner");
  const auto first = w.as(gateway, work("T")).dispatch();
  CHECK(first.status() == v1::DispatchReply::NO_WORKER);
  const auto worker = w.join("identity:x role:implementer");
  w.as(gateway, work("T"));
  const auto again = w.as(gateway, work("T")).dispatch();
  CHECK(again.existing());
  CHECK(again.task().id() == first.task().id());
  CHECK(again.task().status() == v1::OPEN);
  CHECK(w.mail(worker).size() == 2);
}

TEST_CASE("asking for another worker for an assigned task tells nobody, and the reply says so") {
  task_world w;
  const auto gateway = w.join("identity:x mode:gateway role:planner");
  const auto worker = w.join("identity:x role:implementer");
  CHECK(w.as(gateway, work("T")).dispatch().prompt().message_id() != 0);
  auto c = work("T", "claude");
  c.mutable_dispatch()->set_force_spawn(true);
  const auto again = w.as(gateway, c).dispatch();
  CHECK(again.status() == v1::DispatchReply::DISPATCHED);
  CHECK(again.prompt().message_id() == 0);
  CHECK(again.prompt().sender() == gateway);
  CHECK(again.prompt().recipient() == worker);
  CHECK(w.mail(worker).size() == 1);
}

TEST_CASE("an exec dispatch makes one task, one spawn and one session however often it is repeated") {
  task_world w;
  w.join("role:implementer");
  const auto first = w.op(run_command("count")).dispatch();
  CHECK(first.status() == v1::DispatchReply::SPAWNING);
  CHECK(first.task().harness() == "exec");
  CHECK(first.task().status() == v1::OPEN);
  CHECK(first.task().type() == "implement");
  const auto worker = w.rows.row<v1::Session>(first.spawn().session_id()).value();
  CHECK_FALSE(worker.adopted());
  CHECK(worker.label() == "role:implementer provider:exec launch:" + first.intent_hash());
  CHECK(w.events("spawn.requested") == 1);
  const auto second = w.op(run_command("count")).dispatch();
  CHECK(second.status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
  CHECK(second.spawn().id() == first.spawn().id());
  CHECK(w.rows.all<v1::Task>().size() == 1);
  CHECK(w.rows.all<v1::Spawn>().size() == 1);
  CHECK(w.op(run_command("count", {"sh", "-c", "false"})).dispatch().task().id() != first.task().id());
  auto fresh = run_command("count");
  fresh.mutable_dispatch()->set_fresh(true);
  CHECK(w.op(fresh).dispatch().status() == v1::DispatchReply::SPAWNING);
}

TEST_CASE(
  "the newest task of a dispatch without a key answers while it runs and when it is done, and one new one follows when it failed or was cancelled") {
  task_world w;
  auto line = run_command("count");
  line.mutable_dispatch()->set_again_if_unsuccessful(true);
  auto again = [&] {
    ++w.in.now_ms;
    return w.op(line).dispatch();
  };
  auto first = again();
  for (const auto end : {v1::FAILED, v1::CANCELLED}) {
    if (end == v1::FAILED)
      finish(w, first.task().id(), 1);
    else
      REQUIRE_FALSE(w.op(update(first.task().id(), end)).has_refusal());
    const auto second = again();
    CHECK(second.status() == v1::DispatchReply::SPAWNING);
    CHECK_FALSE(second.existing());
    CHECK(second.in_place_of().id() == first.task().id());
    CHECK(second.in_place_of().status() == end);
    CHECK(second.in_place_of().changed_at_ms() == w.task(first.task().id()).changed_at_ms());
    const auto third = again();
    CHECK(third.existing());
    CHECK(third.status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
    CHECK(third.task().id() == second.task().id());
    CHECK(third.intent_hash() == second.intent_hash());
    CHECK_FALSE(third.has_in_place_of());
    first = second;
  }
  CHECK(w.rows.all<v1::Task>().size() == 3);
  // A task that was asked for as a new one is the newest, too.
  auto fresh = line;
  fresh.mutable_dispatch()->set_fresh(true);
  ++w.in.now_ms;
  const auto newest = w.op(fresh).dispatch().task().id();
  CHECK(again().task().id() == newest);
  finish(w, newest);
  CHECK(again().status() == v1::DispatchReply::ALREADY_TERMINAL);
  CHECK(again().task().id() == newest);
  // Without the wish, and with a key, the task that has the key answers, however it ended.
  line.mutable_dispatch()->set_again_if_unsuccessful(false);
  CHECK(again().task().status() == v1::FAILED);
  line.mutable_dispatch()->set_again_if_unsuccessful(true);
  line.mutable_dispatch()->set_idempotency_key("mine");
  const auto keyed = again().task().id();
  REQUIRE_FALSE(w.op(update(keyed, v1::CANCELLED)).has_refusal());
  CHECK(again().status() == v1::DispatchReply::ALREADY_TERMINAL);
}

TEST_CASE("however often a task is retried, one task is made from it until that one has failed or was cancelled") {
  task_world w;
  auto line = run_command("count");
  line.mutable_dispatch()->set_again_if_unsuccessful(true);
  line.mutable_dispatch()->set_message("twice"); // which makes the line's key another one than that of what retry asks for
  const auto original = w.op(line).dispatch().task().id();
  finish(w, original, 1);
  auto retry = run_command("count");
  retry.mutable_dispatch()->set_retry_of(original);
  retry.mutable_dispatch()->set_fresh(true);
  auto again = [&] {
    ++w.in.now_ms;
    return w.op(retry).dispatch();
  };
  const auto first = again();
  CHECK(first.status() == v1::DispatchReply::SPAWNING);
  CHECK(first.task().id() != original);
  const auto beside = again();
  CHECK(beside.existing());
  CHECK(beside.status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
  CHECK(beside.task().id() == first.task().id());
  CHECK(beside.spawn().id() == first.spawn().id());
  CHECK(w.op(line).dispatch().task().id() == first.task().id()); // an equal dispatch finds it, too
  CHECK(w.rows.all<v1::Task>().size() == 2);
  finish(w, first.task().id(), 1);
  const auto second = again();
  CHECK(second.status() == v1::DispatchReply::SPAWNING);
  CHECK(second.in_place_of().id() == first.task().id());
  finish(w, second.task().id());
  CHECK(again().status() == v1::DispatchReply::ALREADY_TERMINAL);
  CHECK(again().task().id() == second.task().id());
  // Another task of the same words is retried by itself.
  retry.mutable_dispatch()->set_retry_of(second.task().id());
  CHECK(again().status() == v1::DispatchReply::SPAWNING);
  CHECK(w.rows.all<v1::Task>().size() == 4);
}

TEST_CASE("a retry that another one was before tells the worker nothing more") {
  task_world w;
  const auto gateway = w.join("identity:x mode:gateway role:planner");
  const auto worker = w.join("identity:x role:implementer");
  auto retry = work("look");
  retry.mutable_dispatch()->set_retry_of("11111111-2222-4333-8444-555555555555");
  CHECK(w.as(gateway, retry).dispatch().recipient() == worker);
  CHECK(w.as(gateway, retry).dispatch().existing());
  CHECK(w.mail(worker).size() == 1);
  CHECK(w.rows.all<v1::Task>().size() == 1);
}

TEST_CASE("other variables make another task, and so does input, or none, and with input on the way no task that is over answers") {
  task_world w;
  auto line = run_command("count");
  auto& body = *line.mutable_dispatch();
  body.set_again_if_unsuccessful(true);
  const auto plain = w.op(line).dispatch();
  body.set_variables_digest("aa");
  const auto one = w.op(line).dispatch();
  CHECK(one.task().id() != plain.task().id());
  CHECK(one.spawn().has_variables());
  CHECK(w.op(line).dispatch().task().id() == one.task().id());
  body.set_variables_digest("bb");
  CHECK_FALSE(w.op(line).dispatch().existing());
  body.clear_variables_digest();
  body.set_passes_input(true);
  const auto first = w.op(line).dispatch();
  CHECK(first.task().id() != plain.task().id());
  CHECK(w.op(line).dispatch().task().id() == first.task().id());
  ++w.in.now_ms;
  finish(w, first.task().id());
  const auto second = w.op(line).dispatch();
  CHECK_FALSE(second.existing());
  CHECK(second.in_place_of().id() == first.task().id());
  CHECK(second.in_place_of().status() == v1::DONE);
  CHECK(second.spawn().passed_input());
  ++w.in.now_ms;
  finish(w, second.task().id());
  body.clear_passes_input();
  CHECK(w.op(line).dispatch().task().id() == plain.task().id());
  finish(w, plain.task().id());
  CHECK(w.op(line).dispatch().status() == v1::DispatchReply::ALREADY_TERMINAL);
}

TEST_CASE("a line that asks for other work makes another task, and one that asks an agent gets the same as an agent's") {
  task_world w;
  const auto done = [&](v1::Command line) {
    const auto first = w.op(line).dispatch();
    finish(w, first.task().id());
    CHECK(w.op(line).dispatch().task().id() == first.task().id());
    CHECK(w.op(line).dispatch().status() == v1::DispatchReply::ALREADY_TERMINAL);
    return first.task().id();
  };
  auto plain = run_command("count");
  CHECK(w.op(plain).dispatch().task().id() == [&] {
    plain.mutable_dispatch()->set_again_if_unsuccessful(true);
    return w.op(plain).dispatch().task().id();
  }());
  done(plain);
  const auto other = made(w.op(create(spec("other"))));
  using wish = std::function<void(v1::Dispatch&)>;
  const std::vector<wish> wishes{
    [&](auto& d) { d.add_depends_on(other.id()); },
    [](auto& d) { d.set_approval_required(true); },
    [](auto& d) { d.set_message("count twice"); },
    [](auto& d) { d.set_description("count twice"); },
    [](auto& d) { d.add_files("/r/a"); },
    [&](auto& d) { d.set_parent_task_id(other.id()); },
    [](auto& d) { d.set_on("there"); },
    [](auto& d) {
      auto& label = *d.add_where();
      label.set_name("gpu");
      label.set_value("yes");
    },
  };
  std::set<std::string> seen;
  for (const auto& make_other : wishes) {
    auto line = plain;
    make_other(*line.mutable_dispatch());
    const auto r = w.op(line).dispatch();
    CHECK_FALSE(r.existing());
    CHECK(w.op(line).dispatch().task().id() == r.task().id());
    CHECK(seen.insert(r.task().id()).second);
  }
  // The order of a set says nothing.
  auto one_way = plain;
  one_way.mutable_dispatch()->add_files("/r/a");
  one_way.mutable_dispatch()->add_files("/r/b");
  auto other_way = plain;
  other_way.mutable_dispatch()->add_files("/r/b");
  other_way.mutable_dispatch()->add_files("/r/a");
  CHECK(w.op(one_way).dispatch().task().id() == w.op(other_way).dispatch().task().id());
  // Callers that keep swarm-mcp's key get its one task, whatever they say of it.
  auto agents = work("look");
  const auto theirs = w.op(agents).dispatch().task().id();
  agents.mutable_dispatch()->set_message("closely");
  CHECK(w.op(agents).dispatch().task().id() == theirs);
}

TEST_CASE("what one agent has done does not answer who asks for another one") {
  task_world w;
  const auto worker = w.join("provider:exec"); // no dispatch finds it
  auto ask = [&](const std::string& harness) {
    auto c = work("review", harness);
    c.mutable_dispatch()->set_again_if_unsuccessful(true);
    ++w.in.now_ms;
    return w.op(c).dispatch();
  };
  const auto first = ask("claude");
  CHECK(ask("codex").task().id() == first.task().id()); // it is under way
  w.as(worker, claim(first.task().id()));
  REQUIRE_FALSE(w.as(worker, update(first.task().id(), v1::DONE)).has_refusal());
  CHECK(ask("claude").status() == v1::DispatchReply::ALREADY_TERMINAL);
  CHECK(ask("").task().id() == first.task().id());
  const auto second = ask("codex");
  CHECK_FALSE(second.existing());
  CHECK(second.in_place_of().id() == first.task().id());
}

TEST_CASE("command tasks are never claimed by agents") {
  task_world w;
  const auto a = w.join("");
  const auto t = w.op(run_command("count")).dispatch().task();
  CHECK(text(w.as(a, claim(t.id()))) == "Task runs a command and is driven by the fabric");
  CHECK(text(w.as(a, claim_next(true))) == "No claimable task found");
}

TEST_CASE("whatever runs for a task that waits for another one is spawned when that is done, and never when it fails") {
  for (const auto end : {v1::DONE, v1::CANCELLED})
    for (const std::string harness : {"exec", "shell", "claude", "codex", "opencode", "gemini", "hermes"}) {
      CAPTURE(harness);
      task_world w;
      const auto a = w.join("provider:exec"); // no dispatch finds it
      const auto root = made(w.as(a, create(spec("root"))));
      auto c = harness == "exec" ? run_command("after " + root.id()) : work("after " + root.id(), harness);
      c.mutable_dispatch()->add_depends_on(root.id());
      const auto r = w.op(c).dispatch();
      CHECK(r.status() == v1::DispatchReply::SPAWNING);
      CHECK(r.task().status() == v1::BLOCKED);
      CHECK(r.spawn().intent() == "deferred");
      CHECK(r.spawn().session_id().empty());
      CHECK(w.events("spawn.requested") == 0);
      const auto again = w.op(c).dispatch();
      CHECK(again.status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
      CHECK(again.spawn().id() == r.spawn().id());
      CHECK(w.node(starting(r.spawn().id())).refusal().code() == v1::Refusal::STALE);
      w.as(a, claim(root.id()));
      w.as(a, update(root.id(), end));
      if (end == v1::DONE) {
        CHECK(w.events("spawn.requested") == 1);
        CHECK_FALSE(w.spawn(r.spawn().id()).session_id().empty());
        CHECK(w.spawn(r.spawn().id()).intent() == r.task().title());
        CHECK(w.task(r.task().id()).status() == v1::OPEN);
        CHECK_FALSE(w.node(starting(r.spawn().id())).has_refusal());
      } else {
        CHECK(w.events("spawn.requested") == 0);
        CHECK(w.spawn(r.spawn().id()).status() == v1::Spawn::FAILED);
        CHECK(w.spawn(r.spawn().id()).reason() == "task is cancelled");
      }
    }
}

TEST_CASE("whatever runs for a task that needs approval is spawned on approval") {
  task_world w;
  for (auto c : {run_command("deploy"), work("think", "claude")}) {
    c.mutable_dispatch()->set_approval_required(true);
    const auto r = w.op(c).dispatch();
    CHECK(r.task().status() == v1::APPROVAL_REQUIRED);
    CHECK(r.spawn().session_id().empty());
    w.op(approve(r.task().id()));
    CHECK(w.events("spawn.requested") == 1);
  }
}

TEST_CASE("an agent whose task has opened gets it, with what it is about") {
  task_world w;
  const auto a = w.join("provider:exec");
  const auto root = made(w.as(a, create(spec("root"))));
  auto c = work("T", "claude");
  c.mutable_dispatch()->set_message("do this");
  c.mutable_dispatch()->add_depends_on(root.id());
  const auto r = w.op(c).dispatch();
  w.as(a, claim(root.id()));
  w.as(a, update(root.id(), v1::DONE));
  w.node(starting(r.spawn().id()));
  v1::Command running;
  running.mutable_spawn_running()->set_spawn_id(r.spawn().id());
  running.mutable_spawn_running()->set_attempt(1);
  REQUIRE_FALSE(w.node(running).has_refusal());
  const auto worker = w.spawn(r.spawn().id()).session_id();
  CHECK(w.task(r.task().id()).status() == v1::CLAIMED);
  CHECK(w.task(r.task().id()).assignee() == worker);
  REQUIRE(w.mail(worker).size() == 1);
  CHECK(w.mail(worker)[0].find("[task:" + r.task().id() + "] Task " + r.task().id() + " is ready: T\n\ndo this\n\n") == 0);
}

// -- without a harness -----------------------------------------------------------------------------------------------

namespace {

/// Work that waits and is to be given to the session that is there when it opens.
v1::Command later(const std::string& title, const std::string& after, const std::string& role = {}) {
  auto c = work(title);
  c.mutable_dispatch()->set_role(role);
  c.mutable_dispatch()->set_force_spawn(true); // also when somebody is there already
  if (after.empty())
    c.mutable_dispatch()->set_approval_required(true);
  else
    c.mutable_dispatch()->add_depends_on(after);
  return c;
}

struct waiting_world : task_world {
  std::string gateway = join("identity:x mode:gateway");
  std::string first = made(as(gateway, create(spec("first")))).id();

  void end_first(v1::TaskStatus status = v1::DONE) {
    REQUIRE_FALSE(as(gateway, claim(first, true)).has_refusal());
    REQUIRE_FALSE(as(gateway, update(first, status)).has_refusal());
  }
  v1::Task dispatched(const v1::Command& c) {
    const auto r = as(gateway, c);
    REQUIRE_MESSAGE(r.dispatch().status() == v1::DispatchReply::NO_WORKER, text(r));
    CHECK_FALSE(r.dispatch().has_spawn());
    return r.dispatch().task();
  }
};

} // namespace

TEST_CASE("work that waits and may start nobody is given to a live worker when it opens, no matter who came and went meanwhile") {
  waiting_world w;
  const auto gone = w.join("identity:x role:reviewer");
  const auto task = w.dispatched(later("T", w.first, "reviewer"));
  CHECK(w.dispatched(later("T", w.first, "reviewer")).id() == task.id()); // asked twice, told once
  w.as(gone, deregister());
  w.join("identity:y role:reviewer");
  w.join("identity:x role:reviewer provider:exec");
  w.join("identity:x role:reviewer", false);
  const auto general = w.join("identity:x");
  const auto reviewer = w.join("identity:x role:reviewer");
  const auto second = w.join("identity:x role:reviewer");
  w.end_first();
  REQUIRE(w.mail(reviewer).size() == 1);
  CHECK(w.mail(reviewer)[0].find("[task:" + task.id() + "] Task " + task.id() + " is ready: T\n\nT\n\n") == 0);
  CHECK(w.rows.all<v1::Message>().size() == 1);
  CHECK(w.rows.all<v1::Message>().begin()->second.sender() == w.gateway);
  CHECK(w.rows.all<v1::Spawn>().empty());
  CHECK(w.task(task.id()).status() == v1::OPEN);
  CHECK_FALSE(w.as(general, claim(task.id())).has_refusal()); // told is not taken
}

TEST_CASE("a generalist gets what nobody of its role is there for, the requester never, and nobody is told of it when there is nobody") {
  for (const bool somebody : {true, false}) {
    waiting_world w;
    const auto task = w.dispatched(later("T", w.first, "reviewer"));
    const auto other = w.join("identity:x role:implementer");
    const auto general = somebody ? w.join("identity:x role:generalist") : std::string();
    w.end_first();
    CHECK(w.rows.all<v1::Message>().size() == (somebody ? 1 : 0));
    CHECK(w.mail(general).size() == (somebody ? 1 : 0));
    CHECK(w.task(task.id()).status() == v1::OPEN);
    CHECK(w.rows.all<v1::Spawn>().empty());
    CHECK(w.as(other, claim_next(true)).task().task().id() == task.id());
  }
}

TEST_CASE("work without a harness is given out on approval, too, and with both when both are there") {
  waiting_world w;
  const auto worker = w.join("identity:x role:implementer");
  const auto approved = w.dispatched(later("T", ""));
  w.op(approve(approved.id()));
  CHECK(w.mail(worker).size() == 1);
  auto c = later("U", w.first);
  c.mutable_dispatch()->set_approval_required(true);
  const auto both = w.dispatched(c);
  CHECK(w.op(approve(both.id())).task().task().status() == v1::BLOCKED);
  CHECK(w.mail(worker).size() == 1);
  w.end_first();
  REQUIRE(w.mail(worker).size() == 2);
  CHECK(w.mail(worker)[1].find("is ready: U") != std::string::npos);
}

TEST_CASE("work without a harness that never opens leaves nothing, and says nothing of workers") {
  for (const bool cascade : {true, false}) {
    waiting_world w;
    const auto worker = w.join("identity:x role:implementer");
    const auto task = w.dispatched(later("T", w.first));
    CHECK(w.rows.all<v1::Spawn>().size() == 1);
    if (cascade)
      w.end_first(v1::FAILED);
    else
      w.op(update(task.id(), v1::CANCELLED));
    CHECK(w.task(task.id()).status() == v1::CANCELLED);
    CHECK(w.events("spawn.failed") == 0);
    CHECK(w.rows.all<v1::Spawn>().empty());
    CHECK(w.mail(worker).empty());
  }
}

TEST_CASE("a harness that is named later takes the place of a live worker, and not the other way round") {
  waiting_world w;
  const auto worker = w.join("identity:x role:implementer");
  const auto task = w.dispatched(later("T", w.first));
  auto c = later("T", w.first);
  c.mutable_dispatch()->set_harness("claude");
  const auto r = w.as(w.gateway, c).dispatch();
  CHECK(r.status() == v1::DispatchReply::SPAWNING);
  CHECK(r.task().id() == task.id());
  w.dispatched(later("T", w.first));
  CHECK(w.rows.all<v1::Spawn>().size() == 1);
  w.end_first();
  CHECK(w.mail(worker).empty());
  CHECK(w.events("spawn.requested") == 1);
  CHECK_FALSE(w.spawn(r.spawn().id()).session_id().empty());
}

TEST_CASE("a large text is left out of what a worker is told on approval when the command has no room for it") {
  for (const std::size_t more : {std::size_t{0}, 64 * limits::kib}) {
    waiting_world w;
    const auto worker = w.join("identity:x role:implementer");
    auto c = later("T", "");
    c.mutable_dispatch()->set_description(std::string(limits::description_bytes_max(), 'd'));
    for (std::size_t bytes = 0; bytes < more; bytes += 4 * limits::kib)
      c.mutable_dispatch()->add_files("/" + std::string(4 * limits::kib - 1, 'f'));
    const auto task = w.dispatched(c);
    const auto r = w.op(approve(task.id()));
    CHECK_MESSAGE(r.task().task().status() == v1::OPEN, text(r));
    REQUIRE(w.mail(worker).size() == 1);
    CHECK((w.mail(worker)[0].size() > limits::description_bytes_max()) == (more == 0));
  }
}

TEST_CASE("what is given out by a cascade too large for one command is told once each, with its text") {
  waiting_world w;
  const auto worker = w.join("identity:x role:implementer");
  constexpr std::size_t n = 7;
  for (std::size_t i = 0; i < n; ++i) {
    auto c = later("T" + std::to_string(i), w.first);
    c.mutable_dispatch()->set_description(std::string(limits::description_bytes_max(), 'd'));
    w.dispatched(c);
  }
  w.end_first();
  CHECK(w.mail(worker).size() < n);
  v1::Command sweep;
  sweep.mutable_sweep()->set_mode("periodic");
  for (std::size_t i = 0; i <= n && w.node(sweep).sweep().more(); ++i)
    CHECK(w.last.ByteSizeLong() <= limits::batch_encoded_bytes_max);
  std::set<std::string> told;
  for (const auto& m : w.mail(worker)) {
    CHECK(m.size() > limits::description_bytes_max());
    told.insert(m.substr(0, m.find(']')));
  }
  CHECK(told.size() == n);
  CHECK(w.mail(worker).size() == n);
  CHECK(w.rows.all<v1::Spawn>().empty());
}

TEST_CASE("what starts nobody uses up no quota of workers") {
  waiting_world w;
  v1::Spawn s;
  s.set_scope(scope);
  s.set_status(v1::Spawn::REQUESTED);
  s.set_requested_at_ms(w.in.now_ms);
  s.mutable_requested_by()->set_kind(v1::Principal::OPERATOR);
  for (std::size_t i = 0; i < limits::principal_spawns_per_minute_max(); ++i) {
    s.set_id(std::to_string(i));
    w.rows.put(s);
  }
  CHECK_FALSE(w.op(run_command("x")).has_refusal());
}

TEST_CASE("cancelling a command that has not started drops its spawn and its session") {
  task_world w;
  const auto r = w.op(run_command("x")).dispatch();
  w.op(update(r.task().id(), v1::CANCELLED));
  CHECK(w.spawn(r.spawn().id()).status() == v1::Spawn::FAILED);
  CHECK_FALSE(w.rows.row<v1::Session>(r.spawn().session_id()));
  CHECK(w.op(run_command("x")).dispatch().status() == v1::DispatchReply::ALREADY_TERMINAL);
}

TEST_CASE("workers asked for within a minute are limited") {
  task_world w;
  for (std::size_t i = 0; i < limits::principal_spawns_per_minute_max(); ++i) {
    v1::Spawn s;
    s.set_id(std::to_string(i));
    s.set_scope(scope);
    s.set_harness("exec");
    s.set_requested_at_ms(w.in.now_ms);
    s.mutable_requested_by()->set_kind(v1::Principal::OPERATOR);
    w.rows.put(s);
  }
  CHECK(w.op(run_command("x")).refusal().code() == v1::Refusal::LIMIT);
  w.in.now_ms += 61'000;
  CHECK_FALSE(w.op(run_command("x")).has_refusal());
}

TEST_CASE("one caller has a bounded number of workers that have not ended") {
  task_world w;
  auto live = [&](v1::Principal::Kind kind, std::size_t n, const std::string& prefix) {
    for (std::size_t i = 0; i < n; ++i) {
      v1::Spawn s;
      s.set_id(prefix + std::to_string(i));
      s.set_scope(scope);
      s.set_harness("exec");
      s.set_status(v1::Spawn::RUNNING);
      s.set_requested_at_ms(1);
      s.mutable_requested_by()->set_kind(kind);
      w.rows.put(s);
    }
  };
  live(v1::Principal::GATEWAY, limits::principal_spawns_live_max(), "others-");
  CHECK_FALSE(w.op(run_command("x")).has_refusal());
  live(v1::Principal::OPERATOR, limits::principal_spawns_live_max() - 2, "mine-");
  CHECK_FALSE(w.op(run_command("the last one")).has_refusal());
  CHECK(w.op(run_command("one more")).refusal().code() == v1::Refusal::LIMIT);
  auto ended = w.spawn("mine-0");
  ended.set_status(v1::Spawn::ENDED);
  w.rows.put(ended);
  CHECK_FALSE(w.op(run_command("one more")).has_refusal());
}

TEST_CASE("a worker's session has the rights that were asked for with it, also when its row had to be made again") {
  task_world w;
  auto c = run_command("x");
  c.mutable_dispatch()->add_grants("pty");
  const auto plain = w.join("mode:gateway");
  CHECK(w.as(plain, c).refusal().code() == v1::Refusal::FORBIDDEN);
  const auto spawn = w.op(c).dispatch().spawn();
  auto session = w.rows.row<v1::Session>(domain::key(spawn.session_id())).value();
  REQUIRE(session.grants_size() == 1);
  CHECK(session.grants(0) == "pty");
  w.rows.erase(session);
  REQUIRE_FALSE(w.node(starting(spawn.id())).has_refusal());
  CHECK(w.rows.row<v1::Session>(domain::key(spawn.session_id()))->grants_size() == 1);
}

TEST_CASE("a worker's rights end when they were given to end, in each attempt, and are not given anew by a retry") {
  task_world w;
  auto c = run_command("x");
  c.mutable_dispatch()->add_grants("pty");
  c.mutable_dispatch()->add_grants("spawn");
  auto& time = *c.mutable_dispatch()->add_grant_times();
  time.set_grant("pty");
  time.set_for_ms(60'000);
  const auto until = w.in.now_ms + 60'000;
  const auto spawn = w.op(c).dispatch().spawn();
  w.in.now_ms += 10'000;
  w.rows.erase(w.rows.row<v1::Session>(domain::key(spawn.session_id())).value());
  REQUIRE_FALSE(w.node(starting(spawn.id())).has_refusal());
  const auto session = w.rows.row<v1::Session>(domain::key(spawn.session_id())).value();
  REQUIRE(session.grant_ends_size() == 1);
  CHECK(session.grant_ends(0).until_ms() == until);
  const auto again = domain::dispatch_like(spawn, w.in.now_ms);
  CHECK(again.grants_size() == 2);
  REQUIRE(again.grant_times_size() == 1);
  CHECK(again.grant_times(0).for_ms() == 50'000);
  const auto late = domain::dispatch_like(spawn, until);
  CHECK(late.grant_times().empty());
  REQUIRE(late.grants_size() == 1);
  CHECK(late.grants(0) == "spawn");
}

// -- promotion into the work tracker (as in swarm-mcp) ------------------------------------------------------------------

namespace {

struct tracked_world : task_world {
  std::string gateway = join("identity:x mode:gateway");

  void set(const std::string& name, const std::string& value) {
    v1::KvEntry entry;
    entry.set_scope(scope);
    entry.set_key(name);
    entry.set_value(value);
    rows.put(entry);
  }
  std::string value_of(const std::string& name) const {
    const auto entry = rows.row<v1::KvEntry>(domain::key(scope, name));
    return entry ? entry->value() : std::string();
  }
  v1::DispatchReply dispatch(v1::Command c) {
    auto r = as(gateway, c);
    REQUIRE_MESSAGE(r.has_dispatch(), text(r));
    return r.dispatch();
  }
  v1::Promotion promotion(v1::Command c) { return dispatch(std::move(c)).promotion(); }
};

} // namespace

TEST_CASE("only a new task is promoted, only for an identity with a name, and only where its tracker is configured") {
  tracked_world w;
  const auto first = w.dispatch(work("T"));
  CHECK(first.promotion().reason() == "no_tracker_configured");
  CHECK(first.promotion().identity() == "x");
  CHECK(first.promotion().provider().empty());
  CHECK_FALSE(w.dispatch(work("T")).has_promotion());
  w.set("config/work_tracker/x", R"({"provider":"jira","identity":"y"})");
  CHECK(w.promotion(work("U")).reason() == "identity_mismatch");
  CHECK(w.op(work("V")).dispatch().promotion().reason() == "missing_identity_label");
  w.caller.set_identity("x");
  CHECK(w.op(work("W")).dispatch().promotion().reason() == "identity_mismatch");
}

TEST_CASE("a ticket named in key, title or description is linked at once, and the task demands its tracker field") {
  tracked_world w;
  w.set("config/work_tracker/x", R"({"provider":"jira"})");
  auto c = work("do VUH-36 now");
  c.mutable_dispatch()->set_type("test");
  const auto r = w.dispatch(c);
  const auto& p = r.promotion();
  CHECK(p.promote());
  CHECK(p.mode() == "link");
  CHECK(p.reason() == "explicit_identifier");
  CHECK(p.precedence() == "per_dispatch");
  CHECK(p.identifier() == "VUH-36");
  CHECK(p.linked_at_ms() == w.in.now_ms);
  CHECK(r.task().tracker_required());
  CHECK(r.task().tracker_provider() == "jira");
  CHECK(w.value_of("tracker/jira/x/" + r.task().id()) == R"({"identifier":"VUH-36","linked_at":1700000000000})");
  CHECK(w.events("kv.set") == 1);

  auto keyed = work("see ABC-2");
  keyed.mutable_dispatch()->set_idempotency_key("linear:ABC-1");
  CHECK(w.promotion(keyed).identifier() == "ABC-1");
  auto described = work("plain");
  described.mutable_dispatch()->set_description("about XY-77.");
  CHECK(w.promotion(described).identifier() == "XY-77");
  for (const char* title : {"A-1", "abc-1", "ABCDEFGHIJK-1", "AB-", "AB-1x", "A_B-1", "1AB-2"})
    CHECK_MESSAGE(w.promotion(work(title)).identifier().empty(), title);
}

TEST_CASE("a link that cannot be written is told, and the task is there all the same") {
  tracked_world w;
  w.set("config/work_tracker/default", "{}");
  v1::ScopeState full;
  full.set_scope(scope);
  full.set_epoch(1);
  full.set_counted(true);
  full.set_kv_entries(limits::scope_kv_keys_max());
  w.rows.put(full);
  const auto r = w.dispatch(work("VUH-36"));
  CHECK(r.promotion().promote());
  CHECK(r.promotion().linked_at_ms() == 0);
  CHECK(r.promotion().link_error() ==
        "The scope holds " + std::to_string(limits::scope_kv_keys_max()) + " keys. Delete some or give them a time to live.");
  CHECK(w.task(r.task().id()).tracker_required());
}

TEST_CASE("a part of a task is tied to the ticket of the whole, or to none") {
  tracked_world w;
  w.set("config/work_tracker/x", "{}");
  const auto whole = w.dispatch(work("VUH-36"));
  auto part = work("the first half of ABC-1");
  part.mutable_dispatch()->set_parent_task_id(whole.task().id());
  w.set("tracker/linear/x/" + whole.task().id(), R"({"identifier":"VUH-36","url":"https://t/VUH-36","linked_at":1})");
  const auto r = w.dispatch(part);
  CHECK(r.promotion().reason() == "parent_binding_inherited");
  CHECK(r.promotion().precedence() == "routine");
  CHECK(r.promotion().identifier() == "VUH-36");
  CHECK(w.value_of("tracker/linear/x/" + r.task().id()) == R"({"identifier":"VUH-36","url":"https://t/VUH-36","linked_at":1700000000000})");
  const auto other = w.dispatch(work("small"));
  auto unbound = work("a part of it");
  unbound.mutable_dispatch()->set_parent_task_id(other.task().id());
  CHECK(w.promotion(unbound).reason() == "parent_routine_skipped");
}

TEST_CASE("what the caller says of promotion takes precedence over type, setting and size, but not against key and parent") {
  tracked_world w;
  w.set("config/work_tracker/x", R"({"default_promotion":"explicit-only"})");
  const auto told = [&](const char* title, std::optional<bool> promote, const std::string& identifier = {}) {
    auto c = work(title);
    auto& d = *c.mutable_dispatch();
    d.set_fresh(true);
    d.set_type("test");
    if (promote)
      d.set_promote(*promote);
    d.set_promote_identifier(identifier);
    return c;
  };
  const auto suppressed = w.dispatch(told("see VUH-36", false, "VUH-1"));
  CHECK_FALSE(suppressed.promotion().promote());
  CHECK(suppressed.promotion().reason() == "operator_suppressed");
  CHECK(suppressed.promotion().provider() == "linear");
  const auto linked = w.dispatch(told("see VUH-36", std::nullopt, " eng/7 "));
  CHECK(linked.promotion().reason() == "explicit_identifier");
  CHECK(linked.promotion().identifier() == "eng/7");
  CHECK(w.value_of("tracker/linear/x/" + linked.task().id()).find(R"("identifier":"eng/7")") != std::string::npos);
  CHECK(w.promotion(told("see VUH-36", std::nullopt, " ")).identifier() == "VUH-36");
  const auto requested = w.dispatch(told("small", true));
  CHECK(requested.promotion().promote());
  CHECK(requested.promotion().mode() == "create");
  CHECK(requested.promotion().reason() == "operator_requested");
  CHECK(requested.promotion().precedence() == "per_dispatch");
  CHECK(requested.task().tracker_required());
  CHECK(w.promotion(told("see VUH-36", true)).reason() == "explicit_identifier");

  auto synthetic = told("small", true, "VUH-1");
  synthetic.mutable_dispatch()->set_idempotency_key("__swarm/x");
  CHECK(w.promotion(synthetic).reason() == "synthetic_resource");
  auto part = told("a part", true, "VUH-1");
  part.mutable_dispatch()->set_parent_task_id(suppressed.task().id());
  CHECK(w.promotion(part).reason() == "parent_routine_skipped");
}

TEST_CASE("without a ticket the type, the tracker's setting and the size decide") {
  tracked_world w;
  const std::string long_title(61, 't'), title(60, 't'), description(80, 'd');
  const auto of = [&](const char* settings, v1::Command c) {
    w.set("config/work_tracker/x", settings);
    c.mutable_dispatch()->set_fresh(true);
    return w.promotion(std::move(c));
  };
  CHECK(of("{}", work(title)).reason() == "trivial_inline_edit");
  const auto large = of("{}", work(long_title));
  CHECK(large.promote());
  CHECK(large.mode() == "create");
  CHECK(large.reason() == "medium_or_larger");
  CHECK(large.precedence() == "default");
  CHECK(large.linked_at_ms() == 0);
  CHECK(of(R"({"default_promotion":"medium_or_larger"})", work(long_title)).precedence() == "identity");
  auto described = work("T");
  described.mutable_dispatch()->set_description(description);
  CHECK_FALSE(of("{}", described).promote());
  described.mutable_dispatch()->set_description(description + "d");
  CHECK(of("{}", described).promote());
  auto files = work("T");
  files.mutable_dispatch()->add_files("/repo/a");
  CHECK_FALSE(of("{}", files).promote());
  files.mutable_dispatch()->add_files("/repo/b");
  CHECK(of("{}", files).promote());
  files.mutable_dispatch()->set_type("test");
  CHECK(of("{}", files).reason() == "type_not_promotable");
  CHECK(of(R"({"default_promotion":"explicit_only"})", work(long_title)).reason() == "repo_explicit_only");
  const auto always = of(R"({"default_promotion":"Always"})", work("T"));
  CHECK(always.reason() == "repo_default_always");
  CHECK(always.precedence() == "repo");
  auto synthetic = work(long_title);
  synthetic.mutable_dispatch()->set_idempotency_key("__swarm/spawn");
  CHECK(of("{}", synthetic).reason() == "synthetic_resource");
}
