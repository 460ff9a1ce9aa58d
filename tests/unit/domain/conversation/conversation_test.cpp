// What people ask of conversations.
#include <doctest/doctest.h>

#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/conversation_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;

TEST_CASE("a conversation with a prompt asks for its driver at once") {
  conversation_world w;
  auto batch = w.run(w.starting("\n  fix the test\nand more", "mend it"));
  const auto& c = batch.reply().conversation().conversation();
  CHECK(c.state() == conversation::STARTING);
  CHECK(c.generation() == 1);
  CHECK(c.title() == "mend it");
  CHECK(c.queued() == 1);
  CHECK(c.node_id() == "node-1");
  CHECK(has_event(batch, "conversation.started"));
  CHECK(has_event(batch, "spawn.requested"));
  const auto spawn = w.driver(c.id());
  CHECK(spawn.conversation_id() == c.id());
  CHECK(spawn.harness() == "claude");
  CHECK(spawn.pipes());
  CHECK(spawn.session_id() == c.session_id());
  CHECK(spawn.label().find("provider:claude") != std::string::npos);
  CHECK(spawn.label().find("mend_it") == std::string::npos); // every session reads labels
  CHECK(w.prompts(c.id()).front().state() == prompt_row::QUEUED);
}

TEST_CASE("a conversation is called by the first line of its first prompt until somebody renames it") {
  conversation_world w;
  auto id = w.start({});
  CHECK(w.row(id).title().empty());
  w.say(id, "\n\n fix the test\nand more");
  CHECK(w.row(id).title() == "fix the test");
  auto cmd = w.command();
  cmd.mutable_rename_conversation()->set_conversation_id(id);
  cmd.mutable_rename_conversation()->set_title("mine");
  CHECK(has_event(w.run(cmd), "conversation.renamed"));
  w.say(id, "another");
  CHECK(w.row(id).title() == "mine");
}

TEST_CASE("a conversation without a prompt has no process before the first one") {
  conversation_world w;
  auto id = w.start({});
  CHECK(w.state(id) == conversation::SUSPENDED);
  CHECK(w.row(id).generation() == 0);
  CHECK_FALSE(domain::is_live(w.driver(id)));
  w.say(id);
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.driver(id).status() == v1::Spawn::REQUESTED);
  CHECK(w.driver(id).attempt() == 1);
  CHECK(w.row(id).session_id() == w.driver(id).session_id());
}

TEST_CASE("only agents converse, and only who may start workers starts one") {
  conversation_world w;
  auto of_exec = w.starting("x");
  of_exec.mutable_start_conversation()->set_harness("exec");
  CHECK(w.reply(of_exec).refusal().code() == refusal::INVALID);
  auto without_driver = w.starting("x");
  without_driver.mutable_start_conversation()->set_harness("codex");
  CHECK(w.reply(without_driver).refusal().text().find("no driver") != std::string::npos);
  auto plain = w.session("identity:a");
  auto by_session = w.by_grant(plain, "");
  *by_session.mutable_start_conversation() = w.starting("x").start_conversation();
  CHECK(w.reply(by_session).refusal().code() == refusal::FORBIDDEN);
}

TEST_CASE("prompts wait in their order and no more than 32 of them") {
  conversation_world w;
  auto id = w.start();
  for (std::size_t n = 1; n < limits::prompts_open_max; ++n)
    w.say(id);
  CHECK(w.row(id).queued() == limits::prompts_open_max);
  CHECK(w.reply(w.prompting(id)).refusal().code() == refusal::LIMIT);
  std::uint64_t number = 0;
  for (const auto& p : w.prompts(id))
    CHECK(p.number() == ++number);
}

TEST_CASE("a session prompts with the grant chat and never the conversation that it is itself") {
  conversation_world w;
  auto id = w.idle();
  auto other = w.session("identity:a");
  CHECK(w.reply(w.prompting(id, "x", w.by_grant(other, ""))).refusal().code() == refusal::FORBIDDEN);
  CHECK_FALSE(w.reply(w.prompting(id, "x", w.by_grant(other, "chat"))).has_refusal());
  const auto itself = w.row(id).session_id();
  CHECK(w.reply(w.prompting(id, "x", w.by_grant(itself, "chat"))).refusal().code() == refusal::FORBIDDEN);
  CHECK(w.reply(w.prompting(id, "x", w.command(itself))).refusal().code() == refusal::FORBIDDEN);
}

TEST_CASE("an interrupt holds the queue until the next prompt, and counts only where there is something to end") {
  conversation_world w;
  auto id = w.running();
  w.say(id);
  w.interrupt(id);
  CHECK(w.row(id).interrupts() == 1);
  CHECK(w.row(id).held());
  w.reply(w.turn_end(id, "1"));
  CHECK(w.state(id) == conversation::IDLE);
  const auto waiting = w.prompts(id).back().id();
  CHECK(w.send(id, waiting).conversation().prompt().state() == prompt_row::QUEUED);
  w.interrupt(id);
  CHECK(w.row(id).interrupts() == 1);
  w.say(id);
  CHECK_FALSE(w.row(id).held());
  CHECK(w.send(id, waiting).conversation().prompt().state() == prompt_row::SENDING);
  w.interrupt(id);
  CHECK(w.row(id).interrupts() == 2);
  w.resume(id);
  CHECK_FALSE(w.row(id).held());
}

TEST_CASE("an interrupt holds what waits also before the driver is there") {
  conversation_world w;
  const auto id = w.start();
  const auto first = w.prompts(id).front().id();
  CHECK(has_event(w.run([&] {
    auto cmd = w.command();
    cmd.mutable_interrupt_conversation()->set_conversation_id(id);
    return cmd;
  }()),
                  "conversation.interrupted"));
  CHECK(w.row(id).held());
  CHECK(w.row(id).interrupts() == 0);
  CHECK(w.state(id) == conversation::SUSPENDED);
  w.driver_runs(id);
  CHECK(w.send(id, first).conversation().prompt().state() == prompt_row::QUEUED);
  w.resume(id);
  CHECK(w.state(id) == conversation::STARTING);
  CHECK(w.send(id, first).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("a stopped conversation takes no prompt until it is resumed, and gives back what waited") {
  conversation_world w;
  auto id = w.running();
  auto waiting = w.say(id);
  auto asked = w.ask(id);
  w.stop(id);
  CHECK(w.state(id) == conversation::ENDED);
  CHECK(w.prompt(waiting).state() == prompt_row::UNDELIVERABLE);
  CHECK(w.prompt(waiting).text() == "more");
  CHECK_FALSE(w.approval(asked.id()).withdrawn().empty());
  CHECK(w.reply(w.prompting(id)).refusal().code() == refusal::STATE);
  CHECK(w.remove(id).refusal().code() == refusal::STATE); // its driver has not ended
  w.ended(id, "killed");
  CHECK(w.state(id) == conversation::ENDED);
  w.resume(id);
  CHECK(w.state(id) == conversation::SUSPENDED);
  w.say(id);
  CHECK(w.row(id).generation() == 2);
}

TEST_CASE("a driver that has not begun does not begin once its conversation is stopped") {
  conversation_world w;
  auto id = w.start();
  w.stop(id);
  CHECK(w.driver(id).status() == v1::Spawn::FAILED);
  w.driver_runs(id);
  CHECK(w.driver(id).status() == v1::Spawn::FAILED);
  auto running = w.idle();
  auto spawn = w.driver(running);
  spawn.set_status(v1::Spawn::STARTING);
  w.rows.put(spawn);
  w.stop(running);
  auto runs = w.by_node();
  runs.mutable_spawn_running()->set_spawn_id(spawn.id());
  runs.mutable_spawn_running()->set_attempt(1);
  CHECK(w.reply(runs).refusal().code() == refusal::STALE);
}

TEST_CASE("a deleted conversation leaves what it has cost, and nothing that was said") {
  conversation_world w;
  auto id = w.running();
  auto asked = w.ask(id);
  w.reply(w.deciding(asked));
  auto asking = w.asking(id, "q", v1::Approval::QUESTION);
  asking.mutable_request_approval()->mutable_conversation()->set_tool("AskUserQuestion");
  for (const auto* choice : {"Anna's plan", "Bert's plan"})
    asking.mutable_request_approval()->add_options(choice);
  auto question = w.reply(asking).approval();
  w.reply(w.deciding(question, "Anna's plan"));
  w.reply(w.turn_end(id, "1", 0.5, 10));
  CHECK(w.remove(id).refusal().code() == refusal::STATE);
  w.stop(id);
  w.ended(id);
  const auto spawn = w.row(id).spawn_id();
  CHECK(w.remove(id).has_done());
  CHECK_FALSE(w.rows.row<conversation>(domain::key(id)));
  CHECK_FALSE(w.rows.row<v1::Spawn>(domain::key(spawn)));
  CHECK(w.prompts(id).empty());
  CHECK(w.approval(asked.id()).body().empty());
  CHECK(w.approval(asked.id()).decision() == "allow");
  CHECK(w.approval(question.id()).decision() == "answered");
  CHECK(w.approval(question.id()).decided_by().kind() == v1::Principal::OPERATOR);
  CHECK(w.approval(question.id()).SerializeAsString().find("'s plan") == std::string::npos);
  CHECK(w.approval(question.id()).tool().empty());
  CHECK(w.rows.rows<v1::UsageDay>({}).front().usage().cost_usd() == 0.5);
  CHECK(w.remove(id).has_done());
}

TEST_CASE("in a store that was copied to another node its conversations are lost, refuse what needs their agent and can be deleted") {
  conversation_world w;
  const auto id = w.running();
  const auto rests = w.start({});
  const auto asked = w.ask(id);
  const auto waiting = w.say(id);
  w.in.node_id = "node-2";
  w.sweep();
  for (const auto& one : {id, rests}) {
    CHECK(w.state(one) == conversation::LOST);
    CHECK(w.row(one).reason().find("node-1") != std::string::npos);
    const auto refused = w.reply(w.prompting(one)).refusal();
    CHECK(refused.code() == v1::Refusal::STATE);
    CHECK(refused.text().find("node-1") != std::string::npos);
    CHECK(w.resume(one).refusal().code() == v1::Refusal::STATE);
  }
  CHECK(w.row(id).open_turn().empty());
  CHECK(w.prompt(waiting).state() == prompt_row::UNDELIVERABLE);
  CHECK_FALSE(w.approval(asked.id()).withdrawn().empty());
  CHECK_FALSE(domain::is_live(w.driver(id)));
  w.driver_gone(id); // nobody here has found it
  CHECK(w.state(id) == conversation::LOST);
  CHECK(w.remove(id).has_done());
  CHECK(w.remove(rests).has_done());
  CHECK(w.rows.total<conversation>({}) == 0);
}

TEST_CASE("the spawn of a conversation stays as long as it does, and old prompts and costs go") {
  conversation_world w;
  auto id = w.running();
  w.reply(w.turn_end(id, "1", 0.5));
  w.ended(id);
  w.pass(limits::row_retention().count() + 1'000);
  w.sweep();
  CHECK(w.driver(id).id() == w.row(id).spawn_id());
  CHECK(w.prompts(id).empty());
  CHECK(w.rows.total<v1::UsageDay>({}) == 1);
  w.say(id);
  CHECK(w.prompts(id).front().number() == 2);
  w.pass(limits::usage_retention().count());
  w.sweep();
  CHECK(w.rows.total<v1::UsageDay>({}) == 0);
  CHECK(w.prompts(id).size() == 1); // it waits
}

TEST_CASE("a conversation is no worker that a dispatch hands its task to") {
  conversation_world w;
  auto id = w.idle();
  auto cmd = w.command();
  cmd.mutable_dispatch()->set_role("conversation");
  cmd.mutable_dispatch()->set_title("t");
  cmd.mutable_dispatch()->set_message("m");
  const auto reply = w.reply(cmd);
  CHECK(w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).empty());
}

TEST_CASE("a session sees its own conversation, and with the grant chat all") {
  conversation_world w;
  auto id = w.idle();
  w.start();
  auto other = w.session("identity:a");
  const auto seen = [&](const std::string& session, const std::string& grant) {
    v1::Query q;
    q.set_scope("s");
    *q.mutable_principal() = w.by_grant(session, grant).principal();
    q.mutable_list_conversations();
    return domain::answer(q, w.rows, w.in).conversations().conversations_size();
  };
  CHECK(seen(w.row(id).session_id(), "") == 1);
  CHECK(seen(other, "") == 0);
  CHECK(seen(other, "chat") == 2);
  v1::Query q;
  q.set_scope("s");
  q.mutable_principal()->set_kind(v1::Principal::OPERATOR);
  q.mutable_list_prompts()->set_conversation_id(id);
  CHECK(domain::answer(q, w.rows, w.in).prompts().prompts(0).text() == "fix it");
  *q.mutable_principal() = w.by_grant(other, "").principal();
  CHECK(domain::answer(q, w.rows, w.in).refusal().code() == refusal::NOT_FOUND);
  q.mutable_list_usage();
  CHECK(domain::answer(q, w.rows, w.in).refusal().code() == refusal::FORBIDDEN);
}

TEST_CASE("of the conversations that were stopped the oldest goes when there are 1024") {
  conversation_world w;
  const auto oldest = w.start();
  w.say(oldest);
  w.stop(oldest);
  for (int n = 0; n < 1'023; ++n) {
    auto c = w.row(oldest);
    c.set_id("copy-" + std::to_string(n));
    c.set_created_at_ms(w.in.now_ms + 1);
    w.rows.put(c);
  }
  const auto newest = w.start();
  auto cmd = w.command();
  cmd.mutable_stop_conversation()->set_conversation_id(newest);
  CHECK(has_event(w.run(cmd), "conversation.deleted"));
  CHECK_FALSE(w.rows.row<conversation>(domain::key(oldest)));
  CHECK(w.prompts(oldest).empty());
  CHECK(w.state(newest) == conversation::ENDED);
  CHECK(w.rows.total<conversation>({.open = false}) == 1'024);
}
