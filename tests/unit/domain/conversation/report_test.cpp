// What drivers tell of conversations, and what becomes of these when a driver ends.
#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "actors/base/limits.hpp"
#include "actors/domain/oldest_prompt.hpp"
#include "tests/unit/domain/conversation/conversation_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;

TEST_CASE("a conversation goes from starting over idle and running to idle") {
  conversation_world w;
  auto id = w.start();
  w.driver_runs(id);
  CHECK(w.state(id) == conversation::STARTING);
  w.agent(id);
  CHECK(w.state(id) == conversation::IDLE);
  CHECK(w.row(id).native_session() == "native-1");
  auto p = w.prompts(id).front().id();
  CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::SENDING);
  CHECK(w.prompt(p).generation() == 1);
  w.outcome(id, p, prompt_row::SUBMITTED);
  CHECK(w.row(id).queued() == 0);
  w.outcome(id, p, prompt_row::CONSUMED, "1");
  CHECK(w.prompt(p).text().empty());
  CHECK(w.prompt(p).turn() == "1");
  w.turn(id, "1");
  CHECK(w.state(id) == conversation::RUNNING);
  auto batch = w.run(w.turn_end(id, "1"));
  CHECK(w.state(id) == conversation::IDLE);
  CHECK(has_event(batch, "conversation.turn_ended"));
}

TEST_CASE("a driver of another generation is told that it is over") {
  conversation_world w;
  auto id = w.running();
  for (std::uint32_t wrong : {0u, 2u}) {
    auto cmd = w.turn_end(id, "1");
    cmd.mutable_report_conversation()->set_generation(wrong);
    CHECK(w.reply(cmd).refusal().code() == refusal::STALE);
    auto asked = w.asking(id);
    asked.mutable_request_approval()->mutable_conversation()->set_generation(wrong);
    CHECK(w.reply(asked).refusal().code() == refusal::STALE);
  }
  CHECK(w.state(id) == conversation::RUNNING);
  auto elsewhere = w.turn_end(id, "1");
  elsewhere.mutable_principal()->set_node("node-2");
  CHECK(w.reply(elsewhere).refusal().code() == refusal::FORBIDDEN);
}

TEST_CASE("one prompt is on its way at a time, the oldest first, and never in a turn") {
  conversation_world w;
  auto id = w.idle();
  auto first = w.prompts(id).front().id();
  auto second = w.say(id), third = w.say(id);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  w.send(id, first);
  CHECK(w.send(id, first).conversation().prompt().state() == prompt_row::SENDING);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  w.outcome(id, first, prompt_row::SUBMITTED);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  w.outcome(id, first, prompt_row::CONSUMED, "1");
  w.turn(id, "1");
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  w.reply(w.turn_end(id, "1"));
  CHECK(w.send(id, third).conversation().prompt().state() == prompt_row::QUEUED);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::SENDING);
  CHECK_FALSE(w.send(id, "none").conversation().has_prompt());
}

TEST_CASE("a driver that is free takes the oldest prompt, whichever that is") {
  conversation_world w;
  auto id = w.idle();
  auto first = w.prompts(id).front().id();
  auto second = w.say(id);
  CHECK(w.send(id, domain::oldest_prompt).conversation().prompt().id() == first);
  CHECK(w.prompt(first).state() == prompt_row::SENDING);
  CHECK(w.send(id, domain::oldest_prompt).conversation().prompt().state() == prompt_row::QUEUED);
  w.outcome(id, first, prompt_row::CONSUMED, "1");
  w.turn(id, "1");
  w.reply(w.turn_end(id, "1"));
  CHECK(w.send(id, domain::oldest_prompt).conversation().prompt().id() == second);
  w.outcome(id, second, prompt_row::UNDELIVERABLE);
  const auto nothing = w.send(id, domain::oldest_prompt);
  CHECK_FALSE(nothing.has_refusal());
  CHECK_FALSE(nothing.conversation().has_prompt());
}

TEST_CASE("a prompt only goes forwards, and an outcome that is told again changes nothing") {
  conversation_world w;
  auto id = w.idle();
  auto p = w.prompts(id).front().id();
  w.outcome(id, p, prompt_row::CONSUMED, "9"); // it was not given
  CHECK(w.prompt(p).state() == prompt_row::QUEUED);
  w.send(id, p);
  w.outcome(id, p, prompt_row::CONSUMED, "1");
  w.outcome(id, p, prompt_row::SUBMITTED);
  w.outcome(id, p, prompt_row::UNDELIVERABLE);
  w.outcome(id, p, prompt_row::UNKNOWN);
  CHECK(w.prompt(p).state() == prompt_row::CONSUMED);
  CHECK(w.prompt(p).turn() == "1");
  CHECK(w.outcome(id, p, prompt_row::QUEUED).refusal().code() == refusal::INVALID);
  CHECK_FALSE(w.outcome(id, "none", prompt_row::CONSUMED).has_refusal());
}

TEST_CASE("tokens are added and the cost of a session is set") {
  conversation_world w;
  auto id = w.running();
  w.reply(w.turn_end(id, "1", 0.50, 10));
  w.turn(id, "2");
  w.reply(w.turn_end(id, "2", 0.75, 5));
  CHECK(w.row(id).usage().cost_usd() == doctest::Approx(0.75));
  CHECK(w.row(id).usage().input_tokens() == 15);
  CHECK(w.row(id).usage().turns() == 2);
  w.turn(id, "3");
  w.reply(w.turn_end(id, "3", 0.25)); // less than before: of the same session it says nothing
  CHECK(w.row(id).usage().cost_usd() == doctest::Approx(0.75));
  w.agent(id, "native-2");
  w.turn(id, "4");
  w.reply(w.turn_end(id, "4", 0.25));
  CHECK(w.row(id).usage().cost_usd() == doctest::Approx(1.0));
  const auto days = w.rows.rows<v1::UsageDay>({});
  REQUIRE(days.size() == 1);
  CHECK(days[0].usage().cost_usd() == doctest::Approx(1.0));
  CHECK(days[0].day() == w.in.now_ms / 86'400'000);
  for (double wrong : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), -0.5}) {
    auto cmd = w.turn_end(id, "4", 1);
    cmd.mutable_report_conversation()->mutable_turn_ended()->set_session_cost_usd(wrong);
    CHECK(w.reply(cmd).refusal().code() == refusal::INVALID);
  }
}

TEST_CASE("a session goes on from the cost that its agent had saved before it was killed") {
  conversation_world w;
  auto id = w.running();
  const auto exit = [&](bool killed) {
    auto cmd = w.about(id);
    cmd.mutable_report_conversation()->set_agent_exited(true);
    cmd.mutable_report_conversation()->set_agent_killed(killed);
    w.reply(cmd);
    w.agent(id, "native-1");
  };
  w.agent(id, "native-1");
  w.reply(w.turn_end(id, "1", 0.5));
  exit(false); // it saves 0.5
  w.turn(id, "2");
  w.reply(w.turn_end(id, "2", 0.75));
  exit(true);
  w.turn(id, "3");
  w.reply(w.turn_end(id, "3", 0.625));
  CHECK(w.row(id).usage().cost_usd() == doctest::Approx(0.875)); // 0.5, 0.25 and 0.125
}

TEST_CASE("the cost of an agent that does not say it is not known") {
  conversation_world w;
  auto id = w.running();
  w.reply(w.turn_end(id, "1", -1, 3));
  CHECK_FALSE(w.row(id).usage().cost_known());
  CHECK(w.row(id).usage().input_tokens() == 3);
}

TEST_CASE("what a driver has told is not counted twice") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.turn_end(id, "1", 0.5, 10);
  cmd.mutable_report_conversation()->set_driver_seq(7);
  w.reply(cmd);
  w.reply(cmd);
  CHECK(w.row(id).usage().input_tokens() == 10);
  auto old = w.about(id);
  old.mutable_report_conversation()->set_turn_started("1");
  old.mutable_report_conversation()->set_driver_seq(5);
  w.reply(old);
  CHECK(w.state(id) == conversation::IDLE);
  w.reply(w.turn_end(id, "1", 0.5, 10)); // it is not open
  CHECK(w.row(id).usage().input_tokens() == 10);
}

TEST_CASE("the end of a log only grows within an epoch") {
  conversation_world w;
  auto id = w.idle();
  const auto log = [&](std::uint64_t epoch, std::uint64_t end) {
    auto cmd = w.about(id);
    cmd.mutable_report_conversation()->set_log_epoch(epoch);
    cmd.mutable_report_conversation()->set_log_end(end);
    w.reply(cmd);
    return w.row(id).log_end();
  };
  CHECK(log(5, 100) == 100);
  CHECK(log(5, 50) == 100);
  CHECK(log(6, 50) == 50);
  CHECK(log(0, 0) == 50);
}

TEST_CASE("what was given to a driver that has ended is unknown, its turn failed and its permissions are withdrawn") {
  conversation_world w;
  auto id = w.running();
  auto open = w.ask(id, "a"), decided = w.ask(id, "b");
  w.reply(w.deciding(decided));
  w.driver_gone(id);
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).open_turn().empty());
  CHECK_FALSE(w.approval(open.id()).withdrawn().empty());
  CHECK(w.approval(decided.id()).delivery() == v1::Approval::OUTCOME_UNKNOWN);
  CHECK_FALSE(w.driver_gone(id).has_refusal());
  w.ended(id);
  CHECK(w.row(id).generation() == 1);
}

TEST_CASE("a prompt on its way when the driver ends is unknown and keeps its text") {
  conversation_world w;
  auto id = w.idle();
  auto p = w.prompts(id).front().id();
  w.send(id, p);
  w.ended(id);
  CHECK(w.prompt(p).state() == prompt_row::UNKNOWN);
  CHECK(w.prompt(p).text() == "fix it");
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).queued() == 0);
}

TEST_CASE("the next attempt of the same spawn takes the prompts that wait") {
  conversation_world w;
  auto id = w.running();
  auto waiting = w.say(id);
  const auto spawn = w.row(id).spawn_id();
  w.driver_gone(id);
  CHECK(w.row(id).generation() == 1); // not before nothing is left of the first
  w.ended(id);
  CHECK(w.row(id).spawn_id() == spawn);
  CHECK(w.row(id).generation() == 2);
  CHECK(w.driver(id).attempt() == 2);
  CHECK(w.driver(id).status() == v1::Spawn::REQUESTED);
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.row(id).session_id() == w.driver(id).session_id());
  w.driver_runs(id);
  w.agent(id);
  CHECK(w.send(id, waiting).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("an agent that takes no prompt is started three times, then a person starts it") {
  conversation_world w;
  auto id = w.start();
  for (std::uint32_t generation = 1; generation <= limits::conversation_starts_max; ++generation) {
    CHECK(w.row(id).generation() == generation);
    w.driver_runs(id);
    w.ended(id, "killed");
  }
  CHECK(w.row(id).generation() == limits::conversation_starts_max);
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).reason().find("3 times") != std::string::npos);
  CHECK(w.row(id).queued() == 1);
  CHECK(w.row(id).held()); // it does not go on by itself
  w.resume(id);
  CHECK_FALSE(w.row(id).held());
  CHECK(w.row(id).generation() == limits::conversation_starts_max + 1);
}

TEST_CASE("a program that cannot be started is not started again by itself") {
  conversation_world w;
  auto id = w.start();
  w.ended(id, "spawn_failed: no such program", true);
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).reason() == "spawn_failed: no such program");
  CHECK(w.row(id).queued() == 1);
  CHECK(w.row(id).held());
  w.say(id);
  CHECK(w.row(id).generation() == 2);
}

TEST_CASE("why a log cannot be used stands in the row until it can") {
  conversation_world w;
  const auto id = w.idle();
  auto cmd = w.about(id);
  cmd.mutable_report_conversation()->set_reason(std::string{domain::log_trouble} + "Not a directory");
  w.reply(cmd);
  CHECK(w.state(id) == conversation::IDLE);
  CHECK(w.row(id).reason() == "its log cannot be used: Not a directory");
  CHECK(w.reply(w.prompting(id)).conversation().conversation().reason().find("Not a directory") != std::string::npos);
  cmd = w.about(id);
  cmd.mutable_report_conversation()->set_log_epoch(1);
  cmd.mutable_report_conversation()->set_log_end(100);
  w.reply(cmd);
  CHECK(w.row(id).reason().empty());
}

TEST_CASE("an interrupted queue waits also when the driver ends") {
  conversation_world w;
  auto id = w.running();
  w.say(id);
  w.interrupt(id);
  w.ended(id);
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).generation() == 1);
  w.resume(id);
  CHECK(w.row(id).generation() == 2);
}

TEST_CASE("a prompt between the end of a driver and that of its process waits for the next attempt") {
  conversation_world w;
  auto id = w.running();
  w.driver_gone(id);
  auto p = w.say(id);
  CHECK(w.row(id).generation() == 1);
  CHECK(w.prompt(p).state() == prompt_row::QUEUED);
  w.ended(id);
  CHECK(w.row(id).generation() == 2);
}

TEST_CASE("an agent that ends below its driver starts again with the next prompt, in the same generation") {
  conversation_world w;
  auto id = w.running();
  auto cmd = w.about(id);
  cmd.mutable_report_conversation()->set_agent_exited(true);
  cmd.mutable_report_conversation()->set_reason("exit 1");
  w.reply(cmd);
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).reason() == "exit 1");
  auto p = w.say(id);
  CHECK(w.row(id).generation() == 1);
  CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::SENDING);
  w.agent(id);
  CHECK(w.state(id) == conversation::IDLE);
}

TEST_CASE("a host that is lost makes its conversation lost") {
  conversation_world w;
  auto id = w.running();
  w.say(id);
  w.ended(id, "host_lost");
  CHECK(w.state(id) == conversation::LOST);
  CHECK(w.row(id).generation() == 1);
}

TEST_CASE("a lost conversation is found when its node reports, and goes on with what waits") {
  conversation_world w;
  auto id = w.running();
  w.say(id);
  w.ended(id, "host_lost");
  auto batch = w.run(w.about(id));
  CHECK(has_event(batch, "conversation.found"));
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.row(id).generation() == 2);
  CHECK(w.row(id).reason().empty());
  auto other = w.running();
  w.ended(other, "host_lost");
  w.run(w.about(other));
  CHECK(w.state(other) == conversation::SUSPENDED);
}

namespace {

/// Whoever has the task is there, and nobody is told to do one that is over.
void check_task(conversation_world& w, const conversation& c) {
  const auto task = w.rows.row<v1::Task>(domain::key(c.task_id()));
  if (!task)
    return;
  const bool is_over = domain::is_terminal(task->status());
  if (!is_over && !task->assignee().empty()) {
    CHECK(task->assignee() == c.session_id());
    CHECK(domain::is_live(w.driver(c.id())));
  }
  if (task->status() == v1::IN_PROGRESS)
    CHECK(c.state() != conversation::LOST);
  for (const auto& p : w.prompts(c.id()))
    if (is_over && p.state() == prompt_row::QUEUED)
      CHECK(p.text().find("Task " + c.task_id()) != 0);
}

v1::Command structured(std::uint32_t retries) {
  auto cmd = conversation_world::command();
  auto& d = *cmd.mutable_dispatch();
  d.set_title("mend it");
  d.set_harness("claude");
  d.set_directory("/repo");
  d.set_structured(true);
  d.set_retries(retries);
  return cmd;
}

v1::Command some_setting(const std::string& id, std::mt19937::result_type dice) {
  auto cmd = conversation_world::command();
  auto& s = *cmd.mutable_set_conversation();
  s.set_conversation_id(id);
  s.set_permissions(static_cast<conversation::Permissions>(dice % 6));
  if (s.permissions() == conversation::AUTO)
    s.set_permissions_ms(dice % 30);
  if (dice % 5 == 0)
    s.set_model("m" + std::to_string(dice));
  return cmd;
}

/// What must hold of a conversation after whatever was asked and told.
void check_invariants(conversation_world& w, const std::string& id) {
  const auto c = w.row(id);
  std::uint64_t open = 0, given = 0, lowest_queued = 0;
  for (const auto& p : w.prompts(id)) {
    open += domain::is_open(p);
    given += domain::is_given(p) && !p.steer();
    if (p.state() == prompt_row::QUEUED && lowest_queued == 0)
      lowest_queued = p.number();
    if (domain::is_given(p)) {
      CHECK(p.generation() == c.generation());
      CHECK((p.steer() || lowest_queued == 0 || p.number() < lowest_queued));
    }
    if (p.state() == prompt_row::CONSUMED)
      CHECK(p.text().empty());
  }
  CHECK(c.queued() == open);
  CHECK(given <= 1);
  const bool in_turn = c.state() == conversation::RUNNING || c.state() == conversation::BLOCKED;
  if (c.state() != conversation::ENDED)
    CHECK(in_turn == !c.open_turn().empty());
  CHECK(c.usage().cost_usd() >= c.session_cost_usd() - 1e-9);
  CHECK(w.driver(id).attempt() == c.generation());
  if (in_turn || c.state() == conversation::IDLE)
    CHECK(domain::is_live(w.driver(id)));
  CHECK(c.restarts() < limits::conversation_starts_max);
  CHECK(c.permissions() != conversation::PERMISSIONS_UNSPECIFIED);
  CHECK((c.permissions() == conversation::AUTO) == (c.permissions_end_ms() != 0));
  CHECK(c.wishes_told() <= c.wishes());
  check_task(w, c);
}

} // namespace

TEST_CASE("whatever is asked and told in whatever order leaves a conversation in order") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 dice{seed};
    conversation_world w;
    w.in.new_uuid = seeded_uuids(seed);
    auto id = seed % 3 == 0 ? w.reply(structured(seed % 2)).dispatch().spawn().conversation_id() : w.start(seed % 2 == 0 ? "go" : "");
    auto peer = w.session();
    int turns = 0;
    double cost = 0;
    for (int step = 0; step < 120; ++step) {
      CAPTURE(step);
      const auto all = w.prompts(id);
      const auto some = all.empty() ? std::string{"none"} : all[dice() % all.size()].id();
      switch (dice() % 21) {
        case 16: w.reply(some_setting(id, dice())); break;
        case 17: {
          auto cmd = w.prompting(id, "rather this");
          cmd.mutable_send_prompt()->set_steer(true);
          w.reply(cmd);
          break;
        }
        case 18: {
          auto cmd = w.command(peer);
          cmd.mutable_send_message()->set_recipient(w.row(id).session_id());
          cmd.mutable_send_message()->set_content("hello");
          w.reply(cmd);
          break;
        }
        case 19: {
          auto cmd = w.about(id);
          cmd.mutable_report_conversation()->set_wishes_told(dice() % 4);
          cmd.mutable_report_conversation()->set_agent_exited(dice() % 3 == 0);
          w.reply(cmd);
          break;
        }
        case 0: w.say(id); break;
        case 1: w.interrupt(id); break;
        case 2: w.resume(id); break;
        case 3: dice() % 4 == 0 ? (void)w.stop(id) : (void)w.sweep(); break;
        case 4:
        case 5: w.driver_runs(id); break;
        case 6: w.agent(id, "native-" + std::to_string(dice() % 3)); break;
        case 7:
        case 8: w.send(id, some); break;
        case 9: w.outcome(id, some, static_cast<prompt_row::State>(1 + dice() % 6), std::to_string(turns)); break;
        case 10: w.turn(id, std::to_string(++turns)); break;
        case 11: w.reply(w.turn_end(id, std::to_string(turns), cost += static_cast<double>(dice() % 3) / 8)); break;
        case 12: w.ask(id, std::to_string(dice() % 4)); break;
        case 13:
          for (const auto& a : w.rows.rows<v1::Approval>({.open = true}))
            w.reply(w.deciding(a, dice() % 2 == 0 ? "allow" : "deny"));
          break;
        case 14: w.driver_gone(id); break;
        default: w.ended(id, dice() % 6 == 0 ? "host_lost" : "", dice() % 4 == 0); break;
      }
      w.pass(1);
      check_invariants(w, id);
    }
  }
}
