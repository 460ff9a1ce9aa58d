// Tasks that conversations do: from the dispatch to the end of the task.
#include <doctest/doctest.h>

#include <limits>

#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/work_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;

TEST_CASE("a structured dispatch makes a conversation whose first prompt is the task") {
  work_world w;
  const auto r = w.reply(w.dispatching()).dispatch();
  CHECK(r.status() == v1::DispatchReply::SPAWNING);
  const auto id = r.spawn().conversation_id();
  CHECK(w.row(id).task_id() == r.task().id());
  CHECK(w.row(id).title() == "mend it");
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.driver(id).pipes());
  CHECK(w.driver(id).role() == "implementer");
  CHECK(w.driver(id).task_id() == r.task().id());
  const auto p = w.prompts(id).front();
  CHECK(p.text().find(r.task().id()) != std::string::npos);
  CHECK(p.text().find("the test is red") != std::string::npos);
  CHECK(r.task().status() == v1::OPEN);
}

TEST_CASE("the same dispatch is the same task and never a second conversation") {
  work_world w;
  const auto id = w.dispatch();
  const auto again = w.reply(w.dispatching()).dispatch();
  CHECK(again.status() == v1::DispatchReply::SPAWN_IN_FLIGHT);
  CHECK(again.task().id() == w.task_id);
  CHECK(again.spawn().conversation_id() == id);
  w.begin(id, "1");
  w.reply(w.dispatching());
  CHECK(w.rows.total<conversation>({}) == 1);
  w.reply(w.ending(id, "1"));
  CHECK(w.reply(w.dispatching()).dispatch().status() == v1::DispatchReply::ALREADY_TERMINAL);
  CHECK(w.rows.total<conversation>({}) == 1);
}

TEST_CASE("a structured worker is an agent on pipes alone, on its own node, with permissions that its caller may give") {
  work_world w;
  const auto refused = [&](auto change) {
    auto cmd = w.dispatching();
    change(*cmd.mutable_dispatch());
    return w.reply(cmd).refusal().code();
  };
  CHECK(refused([](auto& d) { d.set_harness("shell"); }) == refusal::INVALID);
  CHECK(refused([](auto& d) { d.clear_harness(); }) == refusal::INVALID);
  CHECK(refused([](auto& d) { d.set_harness("codex"); }) == refusal::INVALID);
  CHECK(refused([](auto& d) { d.set_worktree(true); }) == refusal::INVALID);
  CHECK(refused([](auto& d) {
          d.set_structured(false);
          d.set_permissions(conversation::PLAN); // nobody would keep to them
        }) == refusal::INVALID);
  CHECK(refused([](auto& d) { d.set_pipes(true); }) == refusal::INVALID);
  CHECK(refused([](auto& d) {
          d.set_on("b");
          d.set_node_id("node-2");
        }) == refusal::INVALID);
  CHECK(refused([](auto& d) { d.set_permissions(static_cast<conversation::Permissions>(9)); }) == refusal::INVALID);
  auto elsewhere = w.dispatching("x");
  elsewhere.mutable_principal()->set_node("node-2");
  CHECK(w.reply(elsewhere).refusal().code() == refusal::FORBIDDEN);
  auto coordinator = w.session("mode:gateway");
  auto loose = w.dispatching("x", w.by(v1::Principal::SESSION, coordinator));
  loose.mutable_dispatch()->set_permissions(conversation::AUTO);
  CHECK(w.reply(loose).refusal().code() == refusal::FORBIDDEN);
  auto mine = w.dispatching("y");
  mine.mutable_dispatch()->set_permissions(conversation::AUTO);
  const auto id = w.reply(mine).dispatch().spawn().conversation_id();
  CHECK(w.row(id).permissions() == conversation::AUTO);
  CHECK(w.row(id).permissions_end_ms() > w.in.now_ms);
}

TEST_CASE("its driver's session takes the task, and the task is under way once the agent has the prompt") {
  work_world w;
  const auto id = w.dispatch();
  w.driver_runs(id);
  CHECK(w.task().status() == v1::CLAIMED);
  CHECK(w.task().assignee() == w.row(id).session_id());
  CHECK(w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).empty());
  w.agent(id);
  w.take(id, "1");
  CHECK(w.task().status() == v1::IN_PROGRESS);
}

TEST_CASE("the turn that leaves nothing to do ends the task with the agent's last words") {
  work_world w;
  const auto id = w.working();
  auto waiting = w.say(id, "and the other");
  w.reply(w.ending(id, "1", "one is green"));
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.send(id, waiting);
  w.outcome(id, waiting, prompt_row::CONSUMED, "2");
  w.turn(id, "2");
  const auto batch = w.run(w.ending(id, "2"));
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result() == "all green");
  CHECK(has_event(batch, "task.updated"));
  CHECK(w.state(id) == conversation::IDLE);
}

TEST_CASE("a task waits for what its agent runs beside its turn, and ends with the turn that follows") {
  work_world w;
  const auto id = w.waiting();
  CHECK(w.row(id).background() == 2);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.beside(id, 0);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.turn(id, "2");
  w.in.now_ms += limits::conversation_background().count();
  w.sweep(); // its turn is open
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.reply(w.ending(id, "2", "it is green"));
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result() == "it is green");
}

TEST_CASE("a task whose agent says nothing more once nothing runs beside its turn is done with what it has said") {
  work_world w;
  const auto id = w.waiting();
  w.beside(id, 0);
  const auto due = w.sweep().next_deadline_ms();
  CHECK(due > w.in.now_ms);
  CHECK(due <= w.in.now_ms + 10'000);
  w.in.now_ms = due;
  w.sweep();
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result() == "it runs");
  CHECK(w.sweep().next_deadline_ms() != due);
}

TEST_CASE("a task does not wait for ever for what its agent runs beside its turn, and says that it still runs") {
  work_world w;
  const auto id = w.waiting();
  w.in.now_ms += limits::conversation_background().count() - 1;
  w.sweep();
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.in.now_ms += 1;
  w.sweep();
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result().find("it runs") == 0);
  CHECK(w.task().result().find("2 of its tasks still run") != std::string::npos);
  CHECK(w.row(id).background() == 2);
}

TEST_CASE("an agent that ends while its task waits for what runs beside its turn fails the task, and the next one has none") {
  for (const bool takes_driver : {false, true}) {
    work_world w;
    const auto id = w.waiting();
    if (takes_driver) {
      w.ended(id, "killed");
    } else {
      auto cmd = w.about(id);
      cmd.mutable_report_conversation()->set_agent_exited(true);
      cmd.mutable_report_conversation()->set_reason("exit 1");
      w.reply(cmd);
    }
    CHECK(w.task().status() == v1::FAILED);
    CHECK(w.task().result().find("beside its turns") != std::string::npos);
    CHECK(w.row(id).background() == 0);
    CHECK(w.row(id).background_until_ms() == 0);
  }
}

TEST_CASE("what is said to an agent whose task waits is a turn like others, and an interrupt leaves the task in progress") {
  work_world w;
  const auto id = w.waiting();
  const auto said = w.say(id, "and the other");
  w.in.now_ms += limits::conversation_background().count();
  w.sweep();
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.send(id, said);
  w.outcome(id, said, prompt_row::CONSUMED, "2");
  w.turn(id, "2");
  auto cmd = w.turn_end(id, "2");
  cmd.mutable_report_conversation()->mutable_turn_ended()->set_finished(false);
  cmd.mutable_report_conversation()->mutable_turn_ended()->set_interrupted(true);
  w.reply(cmd);
  w.beside(id, 0);
  w.in.now_ms += limits::conversation_background().count();
  w.sweep();
  CHECK(w.task().status() == v1::IN_PROGRESS);
}

TEST_CASE("an agent that completes its task itself has said how it ends") {
  work_world w;
  const auto id = w.working();
  auto cmd = w.command(w.row(id).session_id());
  cmd.mutable_complete_task()->set_task_id(w.task_id);
  cmd.mutable_complete_task()->set_summary("by itself");
  REQUIRE_FALSE(w.reply(cmd).has_refusal());
  w.reply(w.ending(id, "1"));
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result().find("by itself") != std::string::npos);
}

TEST_CASE("a turn that fails, an agent that ends and a driver that ends in its turn fail the task") {
  const auto failed = [](auto end) {
    work_world w;
    const auto id = w.working();
    end(w, id);
    CHECK(w.task().status() == v1::FAILED);
    return w.task().result();
  };
  CHECK(failed([](auto& w, auto& id) { w.reply(w.failing(id, "1")); }) == "no credit");
  CHECK(failed([](auto& w, auto& id) {
          auto cmd = w.about(id);
          cmd.mutable_report_conversation()->set_agent_exited(true);
          cmd.mutable_report_conversation()->set_reason("exit 1");
          w.reply(cmd);
        }).find("exit 1") != std::string::npos);
  failed([](auto& w, auto& id) { w.driver_gone(id); });
  failed([](auto& w, auto& id) { w.ended(id, "killed"); });
  failed([](auto& w, auto& id) { w.stop(id); });
}

TEST_CASE("a conversation that is stopped fails its task at once and does not have it done once more") {
  const auto stopped = [](auto until) {
    work_world w;
    auto cmd = w.dispatching();
    cmd.mutable_dispatch()->set_retries(1);
    const auto r = w.reply(cmd).dispatch();
    w.task_id = r.task().id();
    const auto id = r.spawn().conversation_id();
    until(w, id);
    CHECK_FALSE(domain::is_terminal(w.task().status()));
    w.stop(id);
    CHECK(w.state(id) == conversation::ENDED);
    if (w.driver(id).status() == v1::Spawn::STARTING)
      w.ended(id, "killed");
    CHECK(w.task().status() == v1::FAILED);
    CHECK(w.task().result() == "its conversation was stopped");
    CHECK(w.row(id).queued() == 0);
  };
  SUBCASE("in a turn") {
    stopped([](auto& w, auto& id) { w.begin(id, "1"); });
  }
  SUBCASE("while it waits for what runs beside its turns") {
    stopped([](auto& w, auto& id) {
      w.begin(id, "1");
      w.beside(id, 1);
      w.reply(w.ending(id, "1"));
    });
  }
  SUBCASE("before its driver is started") {
    stopped([](auto&, auto&) {});
  }
  SUBCASE("while its driver is being started") {
    stopped([](auto& w, auto& id) {
      auto starting = w.by_node();
      starting.mutable_spawn_starting()->set_spawn_id(w.row(id).spawn_id());
      starting.mutable_spawn_starting()->set_attempt(1);
      starting.mutable_spawn_starting()->set_pid(7);
      w.reply(starting);
    });
  }
}

TEST_CASE("in a store that was copied to another node the task of a conversation fails and is not done once more") {
  work_world w;
  auto cmd = w.dispatching();
  cmd.mutable_dispatch()->set_retries(1);
  const auto r = w.reply(cmd).dispatch();
  w.task_id = r.task().id();
  const auto id = r.spawn().conversation_id();
  w.begin(id, "1");
  w.in.node_id = "node-2";
  w.sweep();
  CHECK(w.state(id) == conversation::LOST);
  CHECK(w.task().status() == v1::FAILED);
  CHECK(w.row(id).queued() == 0);
}

TEST_CASE("an agent that cannot be started or takes no prompt fails the task, and the instruction is taken back") {
  work_world w;
  auto id = w.dispatch();
  w.ended(id, "spawn_failed: no such program", true);
  CHECK(w.task().status() == v1::FAILED);
  CHECK(w.prompts(id).front().state() == prompt_row::UNDELIVERABLE);
  id = w.dispatch("another");
  for (std::uint32_t n = 0; n < limits::conversation_starts_max; ++n) {
    CHECK_FALSE(domain::is_terminal(w.task().status()));
    w.driver_runs(id);
    w.ended(id, "killed");
  }
  CHECK(w.task().status() == v1::FAILED);
}

TEST_CASE("a prompt that is lost on its way with the task fails it, as the agent may have acted on it") {
  work_world w;
  const auto id = w.dispatch();
  w.driver_runs(id);
  w.agent(id);
  w.send(id, w.prompts(id).front().id());
  w.ended(id, "killed");
  CHECK(w.prompts(id).front().state() == prompt_row::UNKNOWN);
  CHECK(w.task().status() == v1::FAILED);
}

TEST_CASE("words that look like a task's instruction are none, whoever says them") {
  work_world w;
  const auto id = w.working();
  CHECK(w.prompts(id).front().task_id() == w.task_id);
  auto peer = w.session();
  const auto say_so = [&] {
    return w.reply(w.prompting(id, "Task " + w.task_id + " is yours: again", w.by_grant(peer, "chat"))).conversation().prompt().id();
  };
  const auto refused = say_so(), taken = say_so();
  CHECK(w.prompt(refused).task_id().empty());
  w.reply(w.ending(id, "1"));
  w.send(id, refused);
  w.outcome(id, refused, prompt_row::UNDELIVERABLE);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.send(id, taken);
  w.outcome(id, taken, prompt_row::CONSUMED, "2");
  CHECK(w.row(id).own_turns() == 1);
}

TEST_CASE("an interrupted turn leaves the task in progress, for a person who goes on with it") {
  work_world w;
  const auto id = w.working();
  w.interrupt(id);
  auto cmd = w.turn_end(id, "1");
  cmd.mutable_report_conversation()->mutable_turn_ended()->set_finished(false);
  cmd.mutable_report_conversation()->mutable_turn_ended()->set_interrupted(true);
  w.reply(cmd);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  auto p = w.say(id, "go on");
  w.send(id, p);
  w.outcome(id, p, prompt_row::CONSUMED, "2");
  w.turn(id, "2");
  w.reply(w.ending(id, "2"));
  CHECK(w.task().status() == v1::DONE);
}

TEST_CASE("a task is not done twice unless that was asked for") {
  work_world w;
  auto cmd = w.dispatching();
  cmd.mutable_dispatch()->set_retries(1);
  const auto r = w.reply(cmd).dispatch();
  w.task_id = r.task().id();
  const auto id = r.spawn().conversation_id();
  w.begin(id, "1");
  w.ended(id, "killed");
  CHECK_FALSE(domain::is_terminal(w.task().status()));
  CHECK(w.row(id).generation() == 2);
  w.begin(id, "2");
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.reply(w.failing(id, "2"));
  CHECK(w.task().status() == v1::FAILED);
}

TEST_CASE("a host that is lost does not start a second attempt beside its conversation") {
  work_world w;
  auto cmd = w.dispatching();
  cmd.mutable_dispatch()->set_retries(1);
  const auto id = w.reply(cmd).dispatch().spawn().conversation_id();
  w.begin(id, "1");
  w.ended(id, "host_lost");
  CHECK(w.state(id) == conversation::LOST);
  CHECK(w.driver(id).attempt() == 1);
}

TEST_CASE("a task that waits has its conversation wait, and opens it") {
  work_world w;
  auto cmd = w.dispatching();
  cmd.mutable_dispatch()->set_approval_required(true);
  const auto r = w.reply(cmd).dispatch();
  w.task_id = r.task().id();
  const auto id = r.spawn().conversation_id();
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).generation() == 0);
  auto approving = w.command();
  approving.mutable_approve_task()->set_task_id(w.task_id);
  w.reply(approving);
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.row(id).generation() == 1);
  w.begin(id, "1");
  CHECK(w.task().status() == v1::IN_PROGRESS);
}

TEST_CASE("a task that is cancelled before its agent begins ends the conversation, and later interrupts it") {
  work_world w;
  auto id = w.dispatch();
  w.cancel();
  CHECK(w.state(id) == conversation::ENDED);
  CHECK(w.prompts(id).front().state() == prompt_row::UNDELIVERABLE);
  id = w.dispatch("another");
  w.begin(id, "1");
  CHECK(has_event(w.cancel(), "conversation.interrupted"));
  CHECK(w.row(id).interrupts() == 1);
  CHECK_FALSE(w.row(id).held());
}

TEST_CASE("a task that is cancelled while its instruction is on its way to the agent interrupts it") {
  for (auto how_far : {prompt_row::SENDING, prompt_row::SUBMITTED}) {
    work_world w;
    const auto id = w.dispatch();
    w.driver_runs(id);
    w.agent(id);
    const auto p = w.prompts(id).front().id();
    w.send(id, p);
    if (how_far == prompt_row::SUBMITTED)
      w.outcome(id, p, prompt_row::SUBMITTED);
    CHECK(has_event(w.cancel(), "conversation.interrupted"));
    CHECK(w.row(id).interrupts() == 1);
    w.outcome(id, p, prompt_row::UNDELIVERABLE); // the driver refuses what no turn has
    CHECK(w.task().status() == v1::CANCELLED);
    CHECK_FALSE(w.row(id).held());
  }
}

TEST_CASE("a task that is cancelled while its agent's driver is being started is not told to it") {
  work_world w;
  const auto id = w.dispatch();
  auto starting = w.by_node();
  starting.mutable_spawn_starting()->set_spawn_id(w.row(id).spawn_id());
  starting.mutable_spawn_starting()->set_attempt(1);
  starting.mutable_spawn_starting()->set_pid(7);
  w.reply(starting);
  w.cancel();
  CHECK(w.prompts(id).front().state() == prompt_row::UNDELIVERABLE);
}

TEST_CASE("a structured worker that has done its task takes the next of its role as a prompt") {
  work_world w;
  const auto id = w.working();
  CHECK(w.reply(w.dispatching("while it works")).dispatch().status() == v1::DispatchReply::SPAWNING);
  w.reply(w.ending(id, "1"));
  const auto r = w.reply(w.dispatching("next")).dispatch();
  CHECK(r.status() == v1::DispatchReply::DISPATCHED);
  CHECK(r.recipient() == w.row(id).session_id());
  CHECK(r.prompt().handle() == id);
  w.task_id = r.task().id();
  CHECK(w.row(id).task_id() == w.task_id);
  CHECK(w.task().status() == v1::CLAIMED);
  CHECK(w.reply(w.dispatching("next")).dispatch().status() == v1::DispatchReply::DISPATCHED);
  CHECK(w.prompts(id).size() == 2);
  w.take(id, "2");
  w.reply(w.ending(id, "2", "too"));
  CHECK(w.task().result() == "too");
  auto other_role = w.dispatching("of another role");
  other_role.mutable_dispatch()->set_role("reviewer");
  CHECK(w.reply(other_role).dispatch().status() == v1::DispatchReply::SPAWNING);
}

TEST_CASE("a task goes to no conversation whose agent may do something else than the task was given out with") {
  const auto next_is_own = [](auto change, auto ask, bool by_coordinator = false) {
    work_world w;
    const auto id = w.working();
    w.reply(w.ending(id, "1"));
    auto row = w.row(id);
    change(row);
    w.rows.put(row);
    auto cmd = by_coordinator ? w.dispatching("next", w.by(v1::Principal::SESSION, w.session("mode:gateway"))) : w.dispatching("next");
    ask(*cmd.mutable_dispatch());
    const auto r = w.reply(cmd).dispatch();
    return r.status() == v1::DispatchReply::SPAWNING && r.spawn().conversation_id() != id;
  };
  const auto plain = [](auto&) {};
  const auto on_auto = [](conversation& c) {
    c.set_permissions(conversation::AUTO);
    c.set_permissions_end_ms(std::numeric_limits<std::int64_t>::max());
  };
  CHECK_FALSE(next_is_own(plain, plain));
  CHECK(next_is_own(on_auto, plain));
  CHECK(next_is_own(on_auto, plain, true));
  CHECK(next_is_own(on_auto, [](auto& d) { d.set_permissions(conversation::PLAN); }));
  CHECK_FALSE(next_is_own(on_auto, [](auto& d) { d.set_permissions(conversation::AUTO); }));
  CHECK(next_is_own(on_auto, [](auto& d) { d.set_structured(false); }));
  CHECK(next_is_own([](auto& c) { c.set_permissions(conversation::DENY); }, plain));
  CHECK(next_is_own(plain, [](auto& d) { d.set_directory("/repo/other"); }));
  CHECK(next_is_own(plain, [](auto& d) { d.add_grants("chat"); }));
  CHECK(next_is_own(plain, [](auto& d) { d.add_argv("other-claude"); }));
  CHECK(next_is_own([](auto& c) { c.add_allowed("Bash"); }, plain));
  CHECK(next_is_own([](auto& c) { c.set_wished_mode("acceptEdits"); }, plain));
  CHECK(next_is_own(plain, [](auto& d) {
    d.set_structured(false);
    d.set_on_terminal(true);
  }));
  const auto ended_auto = [](conversation& c) {
    c.set_permissions(conversation::AUTO);
    c.set_permissions_end_ms(1);
  };
  CHECK_FALSE(next_is_own(ended_auto, plain));
}

TEST_CASE("permissions that are given for a task hold for it, and what is unasked ends with it") {
  work_world w;
  const auto id = w.working();
  w.reply(w.ending(id, "1"));
  auto next = w.dispatching("next");
  next.mutable_dispatch()->set_permissions(conversation::AUTO);
  const auto r = w.reply(next).dispatch();
  CHECK(r.prompt().handle() == id);
  CHECK(w.row(id).permissions() == conversation::AUTO);
  w.task_id = r.task().id();
  w.take(id, "2");
  CHECK(w.row(id).permissions() == conversation::AUTO);
  const auto batch = w.run(w.ending(id, "2"));
  CHECK(has_event(batch, "conversation.set"));
  CHECK(w.row(id).permissions() == conversation::ASK);
  CHECK(w.row(id).permissions_end_ms() == 0);
}

TEST_CASE("what a task lets its agent do unasked ends however the task does") {
  const auto after = [](auto end) {
    work_world w;
    auto cmd = w.dispatching();
    cmd.mutable_dispatch()->set_permissions(conversation::AUTO_EDIT);
    const auto r = w.reply(cmd).dispatch();
    w.task_id = r.task().id();
    const auto id = r.spawn().conversation_id();
    w.begin(id, "1");
    CHECK(w.row(id).permissions() == conversation::AUTO_EDIT);
    end(w, id);
    CHECK(domain::is_terminal(w.task().status()));
    return w.row(id).permissions();
  };
  CHECK(after([](auto& w, auto&) { w.cancel(); }) == conversation::ASK);
  CHECK(after([](auto& w, auto& id) { w.reply(w.failing(id, "1")); }) == conversation::ASK);
  CHECK(after([](auto& w, auto& id) { w.ended(id, "killed"); }) == conversation::ASK);
  CHECK(after([](auto& w, auto& id) { w.stop(id); }) == conversation::ASK);
  CHECK(after([](auto& w, auto& id) {
          auto cmd = w.command(w.row(id).session_id());
          cmd.mutable_complete_task()->set_task_id(w.task_id);
          cmd.mutable_complete_task()->set_summary("by itself");
          w.reply(cmd);
        }) == conversation::ASK);
}

TEST_CASE("the same dispatch with other permissions is another task") {
  work_world w;
  const auto id = w.dispatch();
  auto strict = w.dispatching();
  strict.mutable_dispatch()->set_permissions(conversation::DENY);
  const auto r = w.reply(strict).dispatch();
  CHECK(r.task().id() != w.task_id);
  CHECK(r.spawn().conversation_id() != id);
  CHECK(w.reply(w.dispatching()).dispatch().task().id() == w.task_id);
}

TEST_CASE("what an agent asks for a task waits 30 minutes, and for a person as long as it takes") {
  work_world w;
  const auto id = w.working();
  CHECK(w.ask(id).deadline_ms() == w.in.now_ms + limits::conversation_task_approval().count());
  w.reply(w.ending(id, "1"));
  CHECK(w.ask(id, "later").deadline_ms() == 0);
  CHECK(w.ask(w.running()).deadline_ms() == 0);
}

TEST_CASE("a conversation goes on after its task, in its next generation too") {
  work_world w;
  const auto id = w.working();
  w.reply(w.ending(id, "1"));
  w.ended(id);
  w.say(id, "one more thing");
  CHECK(w.row(id).generation() == 2);
  w.driver_runs(id);
  w.agent(id);
  CHECK(w.state(id) == conversation::IDLE);
  CHECK(w.task().status() == v1::DONE);
}
