#include "actors/fabric/conversations/conversation.hpp"

#include "tests/support/talk_world.hpp"

using namespace swarm;
using test::talk_world;

namespace {

const std::vector<std::string> one_turn{"1 hello ", "9 1 started", "2 a1 ", "7 r1 asked", "7 r1 allow", "2 b1 ", "9 1 ended"};

} // namespace

TEST_CASE("a conversation starts its driver on pipes that no list of terminals shows") {
  talk_world w;
  const auto id = w.start("hello");
  const auto* child = w.f.keeper.find(w.spawn);
  REQUIRE(child);
  CHECK(child->request.pipes());
  CHECK(child->request.argv(0) == "/opt/swarm/bin/swarm-driver");
  CHECK(child->request.argv(1) == "claude");
  auto all = w.f.request<std::vector<pty_info_ptr>>(w.f.board->get().processes, list_atom_v, std::string{});
  auto one = w.f.request<pty_actor>(w.f.board->get().processes, pty_atom_v, w.spawn);
  w.f.w.settle();
  CHECK(all.get().empty());
  CHECK(one.error() == errc::not_found);
  CHECK(w.f.awake("scopes/s/conversation/" + id));
}

TEST_CASE("a prompt is a turn, its permission an approval, and the decision goes on with it") {
  talk_world w;
  const auto id = w.start("hello");
  CHECK(w.row(id).state() == v1::Conversation::BLOCKED);
  REQUIRE(w.approvals().size() == 1);
  CHECK(w.approvals()[0].conversation_id() == id);
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
  CHECK(w.row(id).usage().output_tokens() == 7);
  CHECK(w.items(id) == one_turn);
  CHECK(w.approvals()[0].delivery() == v1::Approval::DELIVERED);
  CHECK(w.driver().answers.at("r1") == 1);
}

TEST_CASE("a node that is killed while a permission is open goes on with the turn when it is decided") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.restart();
  w.f.w.settle();
  CHECK(w.row(id).state() == v1::Conversation::BLOCKED);
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
  CHECK(w.items(id) == one_turn);
  CHECK(w.driver().prompts.size() == 1);
  CHECK(w.driver().answers.at("r1") == 1);
}

TEST_CASE("a permission that was decided after a restart of the node has one end in the log") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.restart();
  w.wait();
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  auto c = w.f.command();
  c.mutable_stop_conversation()->set_conversation_id(id);
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::ENDED);
  CHECK(w.items(id) == one_turn);
}

TEST_CASE("a driver that dies in a turn ends the turn, and the next prompt starts another one") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.keeper.exit(w.spawn, 3);
  w.f.w.settle();
  CHECK(w.row(id).state() == v1::Conversation::SUSPENDED);
  CHECK(w.items(id) == std::vector<std::string>{"1 hello ", "9 1 started", "2 a1 ", "7 r1 asked", "7 r1 withdrawn", "9 1 failed"});
  auto c = w.f.command();
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("again");
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  CHECK(w.row(id).generation() == 2);
  CHECK(w.driver(2).prompts.size() == 1);
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
}

TEST_CASE("a prompt to an idle agent is stored in one commit with the intent to give it") {
  talk_world w;
  const auto id = w.start("hello");
  w.decide("allow");
  REQUIRE(w.row(id).state() == v1::Conversation::IDLE);
  const auto commits = [&] {
    auto status = w.f.request<store_status_ptr>(w.f.board->get().writer, status_atom_v);
    w.f.w.settle();
    return status.get()->commits;
  };
  const auto before = commits();
  // What the driver does with it would be further commits.
  w.cut = true;
  auto c = w.f.command();
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("and now");
  const auto r = w.f.run(c);
  REQUIRE_FALSE(r.has_refusal());
  CHECK(commits() == before + 1);
  auto q = w.f.query();
  q.mutable_list_prompts()->set_conversation_id(id);
  const auto all = w.f.ask(q).prompts();
  REQUIRE(all.prompts_size() == 2);
  const auto& said = all.prompts(0).number() == 2 ? all.prompts(0) : all.prompts(1);
  CHECK(said.state() == v1::Prompt::SENDING);
}

TEST_CASE("a follower hears what is new and waits when nothing is") {
  talk_world w;
  const auto id = w.start("hello");
  auto poll = std::make_shared<conversation_poll>();
  poll->scope = "s";
  poll->id = id;
  auto first = w.f.request<conversation_news_ptr>(w.f.board->get().front, conversation_poll_ptr{poll});
  w.f.w.settle();
  CHECK(first.get()->log_grew);
  auto r = std::make_shared<log_reading>();
  r->log = {id, 0};
  auto pages = w.f.request<log_pages_ptr>(w.f.board->get().conversation_logs, log_reading_ptr{r});
  w.f.w.settle();
  poll = std::make_shared<conversation_poll>(*poll);
  poll->at = pages.get()->next;
  auto state = w.f.request<conversation_news_ptr>(w.f.board->get().front, conversation_poll_ptr{poll});
  w.f.w.settle();
  REQUIRE(state.get()->state);
  CHECK(state.get()->state->state() == v1::Conversation::BLOCKED);
  poll = std::make_shared<conversation_poll>(*poll);
  poll->state_seen = state.get()->state_number;
  auto waits = w.f.request<conversation_news_ptr>(w.f.board->get().front, conversation_poll_ptr{poll});
  w.f.w.settle();
  CHECK_FALSE(waits.answered());
  w.decide("allow");
  CHECK(waits.answered());
}

TEST_CASE("a conversation that is stopped ends its driver") {
  talk_world w;
  const auto id = w.start("hello");
  w.decide("allow");
  auto c = w.f.command();
  c.mutable_stop_conversation()->set_conversation_id(id);
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  CHECK(w.driver().stopped);
  CHECK(w.row(id).state() == v1::Conversation::ENDED);
  CHECK_FALSE(w.f.keeper.runs(w.spawn));
}

TEST_CASE("what a driver has told before it died while no node was there stands in the log") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.stop();
  w.f.keeper.listener = nullptr;
  w.driver().say_text("late");
  w.f.keeper.print(w.spawn, std::exchange(w.driver().out, {}));
  w.f.keeper.exit(w.spawn, 3);
  w.f.start();
  w.wait();
  CHECK(w.row(id).state() == v1::Conversation::SUSPENDED);
  CHECK(w.items(id) == std::vector<std::string>{"1 hello ", "9 1 started", "2 a1 ", "7 r1 asked", "2 late ", "7 r1 withdrawn", "9 1 failed"});
}

TEST_CASE("what a driver tells after its conversation was stopped is heard before its end counts") {
  talk_world w;
  const auto id = w.start("hello");
  w.driver().last_word = "last";
  auto c = w.f.command();
  c.mutable_stop_conversation()->set_conversation_id(id);
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::ENDED);
  const auto items = w.items(id);
  CHECK(std::count(items.begin(), items.end(), "2 last ") == 1);
  REQUIRE_FALSE(items.empty());
  CHECK(items.back() == "9 1 failed");
}

TEST_CASE("a prompt that the agent has and does not begin keeps the next one waiting also after a restart of the node") {
  talk_world w;
  w.stalls = true;
  const auto id = w.start("hello");
  auto c = w.f.command();
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("next");
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  w.f.restart();
  w.wait();
  CHECK(w.driver().prompts.size() == 1);
  CHECK(w.items(id) == std::vector<std::string>{"1 hello "});
}

TEST_CASE("a decision that was stored before the node died reaches its agent however many approvals came after it") {
  talk_world w;
  const auto id = w.start("hello");
  w.cut = true;
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  for (int i = 0; i < 1'100; ++i) {
    auto c = w.f.command();
    c.mutable_request_approval()->set_subject("deploy " + std::to_string(i));
    const auto r = w.f.run(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    auto gone = w.f.command();
    gone.mutable_withdraw_approval()->set_approval_id(r.approval().id());
    REQUIRE_FALSE(w.f.run(gone).has_refusal());
  }
  w.cut = false;
  w.f.restart();
  w.wait();
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
  CHECK(w.driver().answers.at("r1") == 1);
}

TEST_CASE("the environment of a prompt is its agent's only when the operator says it") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.keeper.exit(w.spawn, 3);
  w.f.w.settle();
  auto c = w.f.command();
  *c.mutable_principal() = test::session_named(w.f.session(), {"chat"});
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("again");
  REQUIRE_FALSE(w.f.run(c, {"LD_PRELOAD=/tmp/x.so"}).has_refusal());
  const auto* child = w.f.keeper.find(w.spawn);
  REQUIRE(child);
  REQUIRE(child->info.attempt == 2);
  const auto& environment = child->request.environment();
  CHECK(std::find(environment.begin(), environment.end(), "LD_PRELOAD=/tmp/x.so") == environment.end());
}

TEST_CASE("a turn whose driver dies together with the node has an end in the log though the next driver is started at once") {
  talk_world w;
  const auto id = w.start("hello");
  auto c = w.f.command();
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("next");
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  w.f.stop();
  w.f.keeper.listener = nullptr;
  w.f.keeper.die();
  w.f.start();
  w.wait();
  const auto items = w.items(id);
  CHECK(w.row(id).generation() == 2);
  CHECK(std::count(items.begin(), items.end(), "9 1 started") == 2);
  CHECK(std::count(items.begin(), items.end(), "9 1 failed") == 1);
  CHECK(std::count(items.begin(), items.end(), "7 r1 withdrawn") == 1);
  // The actor that has written these ends may be another one than the one that goes on.
  CHECK_FALSE(w.decide("allow").has_refusal());
  w.wait();
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
}

TEST_CASE("what is said after a log was damaged is read behind the gap") {
  talk_world w;
  const auto id = w.start("hello");
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  const auto directory = w.f.state.dir.root / "conversations" / id;
  for (const auto& e : std::filesystem::directory_iterator(directory))
    if (e.path().extension() == ".log") {
      std::fstream file{e.path(), std::ios::in | std::ios::out | std::ios::binary};
      file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(e.path()) / 2));
      file.put('\xff');
      file.put('\x00');
    }
  const auto before = w.items(id);
  CHECK(before.size() < one_turn.size());
  auto c = w.f.command();
  c.mutable_send_prompt()->set_conversation_id(id);
  c.mutable_send_prompt()->set_prompt("after it");
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  auto items = w.items(id);
  CHECK(std::count(items.begin(), items.end(), "1 after it ") == 1);
  w.f.restart();
  w.wait();
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  CHECK(w.row(id).state() == v1::Conversation::IDLE);
}

TEST_CASE("so many drivers rest without an agent and the one that rests longest ends first") {
  auto& bound = limits::resting_drivers_max;
  const auto before = bound();
  REQUIRE(bound.set(bound.lowest()));
  {
    talk_world w;
    std::vector<std::string> spawns;
    for (std::size_t i = 0; i < bound() + 1; ++i) {
      w.start("hello");
      spawns.push_back(w.spawn);
      REQUIRE_FALSE(w.decide("allow").has_refusal());
      w.f.w.advance(std::chrono::seconds{1});
      w.f.w.settle();
    }
    CHECK(w.f.keeper.running() == bound() + 1);
    w.f.w.advance_by(limits::conversation_idle(), std::chrono::seconds{10});
    w.f.w.settle();
    CHECK(w.f.keeper.running() == bound());
    CHECK_FALSE(w.f.keeper.runs(spawns.front()));
    w.f.w.advance_by(limits::resting_driver_max(), std::chrono::minutes{10});
    w.f.w.settle();
    CHECK(w.f.keeper.running() == 0);
  }
  REQUIRE(bound.set(before));
}

TEST_CASE("a driver that does not end when it is told to is killed") {
  talk_world w;
  w.deaf = true;
  const auto id = w.start("hello");
  auto c = w.f.command();
  c.mutable_stop_conversation()->set_conversation_id(id);
  REQUIRE_FALSE(w.f.run(c).has_refusal());
  CHECK(w.f.keeper.runs(w.spawn));
  w.f.w.advance_by(std::chrono::minutes{1}, std::chrono::seconds{1});
  w.f.w.settle();
  CHECK_FALSE(w.f.keeper.runs(w.spawn));
}
