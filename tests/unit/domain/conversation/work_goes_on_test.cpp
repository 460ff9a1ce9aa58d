// Tasks whose agent was told more than the task, and tasks that are made once more.
#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/work_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

struct told_more_world : work_world {
  /// Its first turn has ended, and this prompt was said meanwhile.
  std::string conversation_id = working();
  std::string said = say(conversation_id, "and the other");
  told_more_world() { reply(ending(conversation_id, "1", "one is green")); }

  void lose(prompt_row::State how) {
    send(conversation_id, said);
    outcome(conversation_id, said, how);
  }
  void pass_hour() {
    in.now_ms += limits::conversation_background().count();
    sweep();
  }
};

} // namespace

TEST_CASE("a task whose turn has ended is done when what was said meanwhile never reaches its agent") {
  told_more_world w;
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.lose(prompt_row::UNDELIVERABLE);
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result() == "one is green");
  CHECK(w.row(w.conversation_id).background_until_ms() == 0);
}

TEST_CASE("a task goes on with the next prompt when the one before never reaches its agent") {
  told_more_world w;
  const auto next = w.say(w.conversation_id, "or that");
  w.lose(prompt_row::UNDELIVERABLE);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.take(w.conversation_id, "2");
  CHECK(w.prompt(next).state() == prompt_row::CONSUMED);
  w.reply(w.ending(w.conversation_id, "2", "both are green"));
  CHECK(w.task().result() == "both are green");
}

TEST_CASE("a task fails when nobody knows whether its agent has what was said to it last") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    told_more_world w;
    if (how == 0)
      w.lose(prompt_row::UNKNOWN);
    else
      w.send(w.conversation_id, w.said);
    if (how == 1)
      w.driver_gone(w.conversation_id);
    if (how == 2)
      w.ended(w.conversation_id, "killed");
    CHECK(w.prompt(w.said).state() == prompt_row::UNKNOWN);
    CHECK(w.task().status() == v1::FAILED);
    CHECK_FALSE(w.task().result().empty());
  }
}

TEST_CASE("a task waits as long as a prompt does, and its agent may be another one by then") {
  told_more_world w;
  w.pass_hour();
  w.pass_hour();
  CHECK(w.task().status() == v1::IN_PROGRESS);
  CHECK(w.sweep().next_deadline_ms() > w.in.now_ms);
  w.ended(w.conversation_id, "killed");
  CHECK(w.row(w.conversation_id).generation() == 2);
  w.driver_runs(w.conversation_id);
  w.agent(w.conversation_id);
  w.pass_hour();
  w.lose(prompt_row::UNDELIVERABLE);
  CHECK(w.task().status() == v1::DONE);
  CHECK(w.task().result() == "one is green");
}

TEST_CASE("an agent that ends while things run beside its turns goes on with its task when a prompt waits") {
  work_world w;
  const auto id = w.waiting();
  w.say(id, "and the other");
  auto cmd = w.about(id);
  cmd.mutable_report_conversation()->set_agent_exited(true);
  w.reply(cmd);
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.agent(id);
  w.take(id, "2");
  w.reply(w.ending(id, "2", "both are green"));
  CHECK(w.task().result() == "both are green");
}

TEST_CASE("a task that a person has interrupted is left to that person though a prompt is lost") {
  told_more_world w;
  SUBCASE("in its turn") {
    w.take(w.conversation_id, "2");
    w.interrupt(w.conversation_id);
    auto cmd = w.turn_end(w.conversation_id, "2");
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_finished(false);
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_interrupted(true);
    w.reply(cmd);
    w.said = w.say(w.conversation_id, "go on");
    w.lose(prompt_row::UNDELIVERABLE);
  }
  SUBCASE("before the prompt had a turn") {
    w.send(w.conversation_id, w.said);
    w.interrupt(w.conversation_id);
    w.outcome(w.conversation_id, w.said, prompt_row::UNDELIVERABLE);
  }
  CHECK(w.task().status() == v1::IN_PROGRESS);
  w.pass_hour();
  CHECK(w.task().status() == v1::IN_PROGRESS);
}

namespace {

struct again_world : work_world {
  /// Has done its task, which was given out with these permissions.
  std::string done_with(conversation::Permissions permissions) {
    auto cmd = dispatching();
    cmd.mutable_dispatch()->set_permissions(permissions);
    const auto r = reply(cmd).dispatch();
    task_id = r.task().id();
    const auto id = r.spawn().conversation_id();
    begin(id, "1");
    reply(ending(id, "1"));
    REQUIRE(task().status() == v1::DONE);
    return id;
  }
  /// As `swarmctl retry` asks for it. The conversation that has the task then.
  std::string once_more(const std::string& id, v1::Command cmd = command()) {
    auto& d = *cmd.mutable_dispatch();
    d = domain::dispatch_like(driver(id), in.now_ms);
    d.set_title(task().title());
    d.set_description(task().description());
    d.set_retry_of(task_id);
    const auto r = reply(cmd).dispatch();
    task_id = r.task().id();
    return r.has_spawn() ? r.spawn().conversation_id() : r.prompt().handle();
  }
};

} // namespace

TEST_CASE("a structured task that is made once more has the permissions that it was given out with") {
  for (const auto permissions : {conversation::ASK, conversation::AUTO_EDIT, conversation::AUTO, conversation::PLAN, conversation::DENY}) {
    CAPTURE(permissions);
    for (const bool is_taken_over : {true, false}) {
      CAPTURE(is_taken_over);
      again_world w;
      auto id = w.done_with(permissions);
      if (!is_taken_over)
        w.stop(id);
      id = w.once_more(id);
      CHECK(w.row(id).permissions() == permissions);
      CHECK(w.task().permissions() == permissions);
      if (!is_taken_over) {
        w.stop(id);
        CHECK(w.row(w.once_more(id)).permissions() == permissions);
      }
    }
  }
}

TEST_CASE("whoever may not let an agent do something unasked makes a task once more without that") {
  const auto by_coordinator = [](conversation::Permissions permissions) {
    again_world w;
    const auto id = w.done_with(permissions);
    return w.row(w.once_more(id, w.by(v1::Principal::SESSION, w.session("mode:gateway")))).permissions();
  };
  CHECK(by_coordinator(conversation::AUTO) == conversation::ASK);
  CHECK(by_coordinator(conversation::AUTO_EDIT) == conversation::ASK);
  CHECK(by_coordinator(conversation::PLAN) == conversation::PLAN);
  CHECK(by_coordinator(conversation::DENY) == conversation::DENY);
}

TEST_CASE("a structured task that is tried again by itself keeps its permissions") {
  work_world w;
  auto cmd = w.dispatching();
  cmd.mutable_dispatch()->set_retries(1);
  cmd.mutable_dispatch()->set_permissions(conversation::AUTO_EDIT);
  const auto r = w.reply(cmd).dispatch();
  w.task_id = r.task().id();
  const auto id = r.spawn().conversation_id();
  w.begin(id, "1");
  w.ended(id, "killed");
  REQUIRE(w.row(id).generation() == 2);
  CHECK(w.row(id).permissions() == conversation::AUTO_EDIT);
  w.begin(id, "2");
  CHECK(w.row(id).permissions() == conversation::AUTO_EDIT);
}
