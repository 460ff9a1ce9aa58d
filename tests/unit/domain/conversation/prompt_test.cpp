// What is said to the agents of conversations: attachments, words into an open turn, and mail.
#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "tests/unit/domain/conversation/conversation_world.hpp"

using namespace swarm;
using namespace swarm::test;
using refusal = v1::Refusal;

namespace {

v1::Attachment image() {
  v1::Attachment a;
  a.set_digest(sha256("image"));
  a.set_media_type("image/png");
  a.set_name("screen.png");
  a.set_bytes(5);
  return a;
}

v1::Reply say_with(conversation_world& w, const std::string& id, const v1::Attachment& a, std::size_t times = 1) {
  auto cmd = w.prompting(id, "look");
  for (std::size_t n = 0; n < times; ++n)
    *cmd.mutable_send_prompt()->add_attachments() = a;
  return w.reply(cmd);
}

std::string steer(conversation_world& w, const std::string& id, const std::string& text = "rather this",
                  const v1::Command& by = domain_world::command()) {
  auto cmd = w.prompting(id, text, by);
  cmd.mutable_send_prompt()->set_steer(true);
  return w.reply(cmd).conversation().prompt().id();
}

v1::Reply mail(conversation_world& w, const std::string& from, const std::string& to, const std::string& text = "hello", bool no_wake = false) {
  auto cmd = w.command(from);
  auto& m = *cmd.mutable_send_message();
  m.set_recipient(to);
  m.set_content(text);
  m.set_prompt(true);
  m.set_no_wake(no_wake);
  return w.reply(cmd);
}

/// The agent takes the oldest prompt and has done with it.
void work_through(conversation_world& w, const std::string& id, int& turn) {
  for (const auto& p : w.prompts(id))
    if (p.state() == prompt_row::QUEUED) {
      if (w.send(id, p.id()).conversation().prompt().state() != prompt_row::SENDING)
        return;
      const auto name = std::to_string(++turn);
      w.outcome(id, p.id(), prompt_row::CONSUMED, name);
      w.turn(id, name);
      w.reply(w.turn_end(id, name));
      return;
    }
}

} // namespace

TEST_CASE("a prompt names its images and files, also after the agent has taken it") {
  conversation_world w;
  auto id = w.idle();
  auto p = say_with(w, id, image(), limits::prompt_attachments_max).conversation().prompt();
  CHECK(p.attachments_size() == 16);
  auto first = w.prompts(id).front().id();
  w.send(id, first);
  w.outcome(id, first, prompt_row::CONSUMED, "1");
  w.send(id, p.id());
  w.outcome(id, p.id(), prompt_row::CONSUMED, "2");
  CHECK(w.prompt(p.id()).text().empty());
  CHECK(w.prompt(p.id()).attachments(0).name() == "screen.png");
}

TEST_CASE("a full queue that stands still says what makes it go on") {
  conversation_world w;
  auto id = w.running();
  for (std::size_t n = 0; n < limits::prompts_open_max; ++n)
    w.say(id);
  const auto running = w.reply(w.prompting(id)).refusal();
  CHECK(running.code() == refusal::LIMIT);
  CHECK(running.text().find("resume") == std::string::npos);
  w.interrupt(id);
  const auto held = w.reply(w.prompting(id)).refusal();
  CHECK(held.code() == refusal::LIMIT);
  CHECK(held.text().find("chat resume " + id) != std::string::npos);
}

TEST_CASE("a blank prompt is refused, also the first one") {
  conversation_world w;
  CHECK(w.reply(w.starting(" \n\t ")).refusal().code() == refusal::INVALID);
  auto id = w.idle();
  CHECK(w.reply(w.prompting(id, "  ")).refusal().code() == refusal::INVALID);
  CHECK(w.prompts(id).size() == 1);
}

TEST_CASE("files that are together more than a driver takes are refused before they wait for their turn") {
  conversation_world w;
  auto id = w.idle();
  auto half = image();
  half.set_bytes(limits::driver_prompt_bytes_max / 2);
  const auto much = say_with(w, id, half, 2); // and four letters
  CHECK(much.refusal().code() == refusal::INVALID);
  CHECK(much.refusal().text().find("20 MiB") != std::string::npos);
  CHECK(w.prompts(id).size() == 1); // the one before
  half.set_bytes(limits::driver_prompt_bytes_max / 2 - 2);
  CHECK_FALSE(say_with(w, id, half, 2).has_refusal());
}

TEST_CASE("an attachment without a digest, with a path for a name, of no type or of no size is refused") {
  conversation_world w;
  auto id = w.idle();
  const auto wrong = [&](auto change) {
    auto a = image();
    change(a);
    return say_with(w, id, a).refusal().code() == refusal::INVALID;
  };
  CHECK(wrong([](auto& a) { a.set_digest("short"); }));
  for (const char* name : {"../x", "a/b", "..", ".", "a\nb"})
    CHECK(wrong([&](auto& a) { a.set_name(name); }));
  CHECK(wrong([](auto& a) { a.set_name(std::string(limits::attachment_name_bytes_max + 1, 'x')); }));
  for (const char* type : {"", "png", "image/", "/png", "image/p ng", "image/png/x"})
    CHECK(wrong([&](auto& a) { a.set_media_type(type); }));
  CHECK(wrong([](auto& a) { a.set_media_type("image/" + std::string(limits::attachment_type_bytes_max, 'x')); }));
  CHECK(wrong([](auto& a) { a.set_bytes(0); }));
  CHECK(wrong([](auto& a) { a.set_bytes(limits::conversation_blob_bytes_max() + 1); }));
  CHECK(say_with(w, id, image(), limits::prompt_attachments_max + 1).refusal().code() == refusal::INVALID);
  CHECK_FALSE(wrong([](auto& a) { a.clear_name(); }));
  CHECK(w.prompts(id).size() == 2);
}

TEST_CASE("a prompt that steers goes into the open turn before what waits, in the order of those that steer") {
  conversation_world w;
  auto id = w.running();
  auto waiting = w.say(id);
  auto first = steer(w, id), second = steer(w, id);
  CHECK(w.send(id, waiting).conversation().prompt().state() == prompt_row::QUEUED);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  CHECK(w.send(id, first).conversation().prompt().state() == prompt_row::SENDING);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::QUEUED);
  w.outcome(id, first, prompt_row::SUBMITTED);
  CHECK(w.send(id, second).conversation().prompt().state() == prompt_row::SENDING);
  w.outcome(id, first, prompt_row::CONSUMED, "1");
  w.outcome(id, second, prompt_row::CONSUMED, "1");
  CHECK(w.state(id) == conversation::RUNNING);
  w.reply(w.turn_end(id, "1"));
  CHECK(w.send(id, waiting).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("a prompt that steers goes into a turn that waits for a person, and not while the queue is held") {
  conversation_world w;
  auto id = w.running();
  w.ask(id);
  auto p = steer(w, id);
  w.interrupt(id);
  CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::QUEUED);
  w.resume(id);
  CHECK(w.state(id) == conversation::BLOCKED);
  CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("without an open turn a prompt that steers waits in its place") {
  conversation_world w;
  auto id = w.idle();
  auto p = steer(w, id);
  CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::QUEUED);
  CHECK(w.send(id, w.prompts(id).front().id()).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("mail to the agent of a conversation is its next prompt and read at once") {
  conversation_world w;
  auto id = w.idle();
  auto peer = w.session("name:ann");
  const auto sent = mail(w, peer, w.row(id).session_id(), "the build is red").message_sent().prompt();
  CHECK(sent.skipped().empty());
  CHECK(sent.backend() == "conversation");
  CHECK(sent.handle() == id);
  const auto p = w.prompts(id).back();
  CHECK(p.message_id() == std::to_string(sent.message_id()));
  CHECK(p.text().find("the build is red") != std::string::npos);
  CHECK(p.text().find("name:ann") != std::string::npos);
  CHECK(p.requested_by().id() == peer);
  const auto row = w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).front();
  CHECK(row.read());
  CHECK(row.delivered_at_ms() != 0);
  w.send(id, w.prompts(id).front().id());
  w.outcome(id, w.prompts(id).front().id(), prompt_row::CONSUMED, "1");
  w.send(id, p.id());
  auto taken = w.about(id);
  auto& outcome = *taken.mutable_report_conversation()->add_prompts();
  outcome.set_prompt_id(p.id());
  outcome.set_state(prompt_row::CONSUMED);
  CHECK(has_event(w.run(taken), "message.read"));
}

TEST_CASE("an answer that the agent's own call has brought is no prompt, and one that the agent has got stays one") {
  conversation_world w;
  auto id = w.running();
  const auto agent = domain_world::by(v1::Principal::SESSION, w.row(id).session_id());
  const auto answered = [&] {
    auto cmd = agent;
    auto& r = *cmd.mutable_request_approval();
    r.set_subject("session/" + agent.principal().id());
    r.set_kind(v1::Approval::QUESTION);
    r.set_title("Deploy now?");
    r.add_options("yes");
    const auto a = w.reply(cmd).approval();
    w.reply(w.deciding(a, "yes"));
    return a;
  };
  const auto knows = [&](const v1::Approval& a) {
    auto cmd = agent;
    cmd.mutable_withdraw_approval()->set_approval_id(a.id());
    w.reply(cmd);
  };
  const auto known = answered();
  auto said = w.prompts(id).back();
  REQUIRE(said.text().find("is answered: yes") != std::string::npos);
  REQUIRE(w.row(id).queued() == 1);
  knows(known);
  CHECK(w.prompt(said.id()).state() == prompt_row::CONSUMED);
  CHECK(w.row(id).queued() == 0);
  w.reply(w.turn_end(id, "1"));
  w.pass(1);
  const auto late = answered();
  said = w.prompts(id).back();
  w.send(id, said.id());
  knows(late);
  CHECK(w.prompt(said.id()).state() == prompt_row::SENDING);
}

TEST_CASE("mail that is not to wake anybody stays mail") {
  conversation_world w;
  auto id = w.idle();
  const auto sent = mail(w, {}, w.row(id).session_id(), "later", true).message_sent().prompt();
  CHECK(sent.skipped() == "nudge=false");
  CHECK(w.prompts(id).size() == 1);
  CHECK_FALSE(w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).front().read());
}

TEST_CASE("what the node tells everybody is worth no turn of a conversation") {
  conversation_world w;
  auto id = w.idle();
  auto peer = w.session("name:ann");
  auto cmd = w.command();
  cmd.mutable_create_tasks()->add_tasks()->set_type("fix");
  cmd.mutable_create_tasks()->mutable_tasks(0)->set_title("t");
  cmd.mutable_create_tasks()->mutable_tasks(0)->set_assignee(peer);
  REQUIRE_FALSE(w.reply(cmd).has_refusal());
  auto row = w.rows.row<v1::Session>(domain::key(peer)).value_or(v1::Session{});
  row.set_presence(v1::Session::LEASE); // and it is over
  row.set_lease_until_ms(1);
  w.rows.put(row);
  w.sweep();
  CHECK(w.rows.total<v1::Message>({.recipient = w.row(id).session_id()}) == 1);
  CHECK(w.prompts(id).size() == 1);
}

TEST_CASE("mail that finds the queue full becomes a prompt when there is room") {
  conversation_world w;
  auto id = w.idle();
  for (std::size_t n = 1; n < limits::prompts_open_max; ++n)
    w.say(id);
  const auto sent = mail(w, {}, w.row(id).session_id()).message_sent().prompt();
  CHECK(sent.message_id() != 0);
  CHECK_FALSE(sent.skipped().empty());
  CHECK(w.prompts(id).size() == limits::prompts_open_max);
  int turn = 0;
  work_through(w, id, turn);
  CHECK(w.prompts(id).back().message_id() == std::to_string(sent.message_id()));
}

TEST_CASE("mail that finds the queue full becomes a prompt also behind much mail that never does") {
  conversation_world w;
  auto id = w.idle();
  for (std::size_t n = 0; n < limits::prompts_open_max + 1; ++n)
    mail(w, {}, w.row(id).session_id(), "later", true);
  for (std::size_t n = 1; n < limits::prompts_open_max; ++n)
    w.say(id);
  const auto sent = mail(w, {}, w.row(id).session_id()).message_sent().prompt();
  CHECK_FALSE(sent.skipped().empty());
  int turn = 0;
  work_through(w, id, turn);
  CHECK(w.prompts(id).back().message_id() == std::to_string(sent.message_id()));
}

TEST_CASE("a prompt that the agent never got keeps its words, and mail is unread again") {
  conversation_world w;
  auto id = w.idle();
  auto first = w.prompts(id).front().id();
  w.send(id, first);
  w.outcome(id, first, prompt_row::UNDELIVERABLE);
  CHECK(w.prompt(first).text() == "fix it");
  mail(w, {}, w.row(id).session_id(), "the build is red");
  const auto letter = [&] { return w.rows.rows<v1::Message>({.recipient = w.row(id).session_id()}).front(); };
  CHECK(letter().read());
  auto second = w.prompts(id).back().id();
  w.send(id, second);
  w.outcome(id, second, prompt_row::UNDELIVERABLE);
  CHECK(w.prompt(second).text().find("the build is red") != std::string::npos);
  CHECK_FALSE(letter().read());
  CHECK(letter().delivered_at_ms() == 0);
}

TEST_CASE("of prompts that an agent never gets the newest keep their words and the oldest go altogether") {
  conversation_world w;
  const auto id = w.idle();
  for (int n = 0; n < 100; ++n) {
    const auto p = n == 0 ? w.prompts(id).front().id() : w.say(id);
    w.send(id, p);
    w.outcome(id, p, prompt_row::UNDELIVERABLE);
  }
  const auto all = w.prompts(id);
  REQUIRE(all.size() == 100);
  for (const auto& p : all)
    CHECK(p.text().empty() == (p.number() <= 36));
  auto row = w.row(id);
  row.set_prompts(2'000);
  w.rows.put(row);
  w.say(id);
  CHECK(w.prompts(id).front().number() == 3);
}

TEST_CASE("that mail was sent is said before what becomes of it") {
  conversation_world w;
  auto id = w.idle();
  auto cmd = w.command();
  auto& m = *cmd.mutable_send_message();
  m.set_recipient(w.row(id).session_id());
  m.set_content("hello");
  m.set_prompt(true);
  const auto types = event_types(w.run(cmd));
  const auto place = [&](const char* type) { return std::find(types.begin(), types.end(), type) - types.begin(); };
  CHECK(place("message.sent") < place("message.delivered"));
  CHECK(place("message.delivered") < place("conversation.prompted"));
  CHECK(place("conversation.prompted") < static_cast<std::ptrdiff_t>(types.size()));
}

TEST_CASE("mail starts an agent that has ended below its driver, and not one that was interrupted") {
  conversation_world w;
  auto id = w.running();
  auto exited = w.about(id);
  exited.mutable_report_conversation()->set_agent_exited(true);
  w.reply(exited);
  mail(w, {}, w.row(id).session_id());
  CHECK(w.state(id) == conversation::STARTING);
  auto other = w.running();
  w.interrupt(other);
  mail(w, {}, w.row(other).session_id());
  CHECK(w.row(other).held());
}

TEST_CASE("two agents do not answer each other for ever: after 8 turns the queue waits for a person") {
  conversation_world w;
  auto id = w.idle();
  auto peer = w.session();
  int turn = 0;
  work_through(w, id, turn); // of a person
  CHECK(w.row(id).own_turns() == 0);
  v1::Batch last;
  for (std::size_t n = 0; n < limits::conversation_own_turns_max; ++n) {
    CHECK_FALSE(w.row(id).held());
    mail(w, peer, w.row(id).session_id());
    work_through(w, id, turn);
  }
  CHECK(w.row(id).own_turns() == limits::conversation_own_turns_max);
  CHECK(w.row(id).held());
  CHECK(w.row(id).reason().find("resume") != std::string::npos);
  mail(w, peer, w.row(id).session_id());
  CHECK_FALSE(w.reply(w.prompting(id, "x", w.by_grant(peer, "chat"))).has_refusal());
  CHECK(w.row(id).held());
  auto resuming = w.by_grant(peer, "chat");
  resuming.mutable_resume_conversation()->set_conversation_id(id);
  CHECK(w.reply(resuming).refusal().code() == refusal::STATE);
  const auto before = turn;
  work_through(w, id, turn);
  CHECK(turn == before);
  CHECK(w.prompts(id).back().state() == prompt_row::QUEUED);
  w.resume(id);
  CHECK_FALSE(w.row(id).held());
  CHECK(w.row(id).own_turns() == 0);
  CHECK(w.row(id).reason().empty());
}

TEST_CASE("a prompt that steers counts whether it begins a turn or joins one") {
  conversation_world w;
  auto id = w.idle();
  auto peer = w.session();
  int turn = 0;
  work_through(w, id, turn);
  const auto steered = [&] { return steer(w, id, "go on", w.by_grant(peer, "chat")); };
  auto first = steered(), second = steered();
  w.send(id, first);
  w.turn(id, "2");
  w.outcome(id, first, prompt_row::CONSUMED, "2");
  CHECK(w.row(id).own_turns() == 1);
  w.send(id, second);
  w.outcome(id, second, prompt_row::CONSUMED, "2");
  w.reply(w.turn_end(id, "2"));
  CHECK(w.row(id).own_turns() == 2);
  turn = 2;
  for (std::size_t n = 2; n < limits::conversation_own_turns_max; ++n) {
    CHECK_FALSE(w.row(id).held());
    steered();
    work_through(w, id, turn);
  }
  CHECK(w.row(id).held());
  const auto before = turn;
  steered();
  work_through(w, id, turn);
  CHECK(turn == before);
}

namespace {

/// So often agents alone say something into turn 1.
void steer_into_turn(conversation_world& w, const std::string& id, const std::string& peer, std::size_t times) {
  for (std::size_t n = 0; n < times; ++n) {
    auto p = steer(w, id, "go on", w.by_grant(peer, "chat"));
    CHECK(w.send(id, p).conversation().prompt().state() == prompt_row::SENDING);
    w.outcome(id, p, prompt_row::CONSUMED, "1");
  }
}

} // namespace

TEST_CASE("agents cannot keep a turn open for ever by what they say into it") {
  conversation_world w;
  auto id = w.running();
  auto peer = w.session();
  steer_into_turn(w, id, peer, limits::conversation_own_turns_max);
  CHECK(w.row(id).held());
  auto late = steer(w, id, "go on", w.by_grant(peer, "chat"));
  CHECK(w.send(id, late).conversation().prompt().state() == prompt_row::QUEUED);
  w.reply(w.turn_end(id, "1"));
  CHECK(w.send(id, late).conversation().prompt().state() == prompt_row::QUEUED);
  w.resume(id);
  CHECK(w.send(id, late).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("a person's prompt that waits for the end of a turn is not put off by agents that speak into it") {
  conversation_world w;
  auto id = w.running();
  auto peer = w.session();
  auto wanted = w.say(id);
  steer_into_turn(w, id, peer, limits::conversation_own_turns_max);
  CHECK_FALSE(w.row(id).held());
  auto late = steer(w, id, "go on", w.by_grant(peer, "chat"));
  CHECK(w.send(id, late).conversation().prompt().state() == prompt_row::QUEUED);
  w.reply(w.turn_end(id, "1"));
  CHECK(w.send(id, late).conversation().prompt().state() == prompt_row::QUEUED);
  CHECK(w.send(id, wanted).conversation().prompt().state() == prompt_row::SENDING);
}

TEST_CASE("a person's prompt that waits behind mail is reached") {
  conversation_world w;
  auto id = w.idle();
  auto peer = w.session();
  int turn = 0;
  work_through(w, id, turn);
  for (std::size_t n = 0; n < limits::conversation_own_turns_max + 2; ++n)
    mail(w, peer, w.row(id).session_id());
  auto wanted = w.say(id);
  for (std::size_t n = 0; n < limits::conversation_own_turns_max + 3; ++n)
    work_through(w, id, turn);
  CHECK(w.prompt(wanted).state() == prompt_row::CONSUMED);
  CHECK(w.row(id).own_turns() == 0);
}

TEST_CASE("the words of a decision that an agent could not take are refused while the question is open") {
  conversation_world w;
  auto id = w.running();
  auto asking = w.asking(id, "q", v1::Approval::QUESTION);
  asking.mutable_request_approval()->set_body(R"({"questions":[{"question":"Colour?"},{"question":"Size?"}]})");
  asking.mutable_request_approval()->add_options("answer");
  const auto asked = w.reply(asking).approval();
  auto decision = w.deciding(asked, "answer");
  CHECK(w.reply(decision).refusal().code() == refusal::INVALID);
  auto& answer = *decision.mutable_decide_approval()->add_answers();
  answer.set_question("Colour");
  answer.set_choice("red");
  CHECK(w.reply(decision).refusal().code() == refusal::INVALID);
  CHECK(w.approval(asked.id()).decided_at_ms() == 0);
  answer.set_question("Colour?");
  CHECK_FALSE(w.reply(decision).has_refusal());
  auto edited = w.deciding(w.ask(id, "e"), "allow");
  for (const char* wrong : {"[]", "null", "1", "\"x\""}) {
    edited.mutable_decide_approval()->set_edited_input(wrong);
    CHECK(w.reply(edited).refusal().code() == refusal::INVALID);
  }
}

TEST_CASE("an agent that asks and takes back without end leaves a bounded number of approvals") {
  conversation_world w;
  auto id = w.running();
  const auto kept = w.ask(id, "kept");
  w.reply(w.deciding(kept)); // on its way to the agent
  for (std::size_t n = 0; n < limits::approvals_ended_per_session_max + 5; ++n) {
    auto cmd = w.by_node();
    cmd.mutable_withdraw_approval()->set_approval_id(w.ask(id, std::to_string(n)).id());
    w.reply(cmd);
  }
  CHECK(w.rows.total<v1::Approval>({.conversation_id = id}) <= limits::approvals_ended_per_session_max + 1);
  CHECK(w.approval(kept.id()).delivery() == v1::Approval::PENDING);
}
