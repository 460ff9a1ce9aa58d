// What is left in the log of a conversation when its node and its driver die together, and what becomes of its actor.
#include "actors/fabric/conversations/conversation.hpp"
#include "actors/fabric/conversations/lock_judge.hpp"
#include "actors/fabric/conversations/resting_drivers.hpp"
#include "tests/support/talk_world.hpp"

using namespace swarm;
using test::talk_world;

namespace {

void lose_keeper(talk_world& w) {
  w.f.stop();
  w.f.keeper.listener = nullptr;
  w.f.keeper.die();
}

std::size_t count(const std::vector<std::string>& items, const std::string& item) {
  return static_cast<std::size_t>(std::count(items.begin(), items.end(), item));
}

/// Rows as somebody says them, for one actor.
reader_actor::behavior_type told_rows(reader_actor::pointer, std::function<v1::Answer(const v1::Query&)> answer) {
  return {
    [answer](const query_ptr& q) { return std::make_shared<const v1::Answer>(answer(*q)); },
    [](backup_atom, const std::string&) { return std::uint64_t{0}; },
    [](check_atom, bool) { return std::string{"ok"}; },
    [](places_atom, const std::string&) -> caf::result<lock_places_ptr> { return fail(errc::unavailable); },
    [](const kept_question_ptr&) -> caf::result<kept_conversations_ptr> { return fail(errc::unavailable); },
    [](tree_atom) { return std::vector<runtime::tree_entry>{}; },
  };
}

/// An actor of this conversation beside the node's own, with rows as somebody says them.
struct other_actor {
  talk_world& w;
  entity_place place;
  conversation_actor actor;

  other_actor(talk_world& world, const std::string& id, std::function<v1::Answer(const v1::Query&)> rows) : w(world) {
    auto environment = std::make_shared<node_environment>();
    environment->facts.node_id = "node-1";
    environment->facts.dir = w.f.state.dir;
    environment->clock = &w.f.w.clock;
    const auto now = w.f.board->get();
    place.scope = "s";
    place.id = id;
    place.links.node = environment;
    place.links.writer = now.writer;
    place.links.conversation_logs = now.conversation_logs;
    place.links.conversation_blobs = now.conversation_blobs;
    place.links.processes = now.processes;
    place.links.lock_judge = w.f.w.sys.spawn(lock_judge, [&sys = w.f.w.sys] { return lock_looker_actor{sys.spawn(lock_looker)}; });
    place.links.resting_drivers = w.f.w.sys.spawn(resting_drivers);
    place.links.readers.push_back(w.f.w.sys.spawn(told_rows, std::move(rows)));
  }
  void begin() { actor = w.f.w.sys.spawn(conversation, place); }
  ~other_actor() {
    for (const auto& a : {caf::actor_cast<caf::actor>(place.links.lock_judge), caf::actor_cast<caf::actor>(place.links.resting_drivers),
                          caf::actor_cast<caf::actor>(place.links.readers.front()), caf::actor_cast<caf::actor>(actor)})
      caf::anon_send_exit(a, caf::exit_reason::kill);
    w.f.w.settle();
  }
  other_actor(const other_actor&) = delete;
  other_actor& operator=(const other_actor&) = delete;
};

/// Blobs of which the first reads fail.
conversation_blobs_actor::behavior_type failing_blobs(conversation_blobs_actor::pointer, std::string content, errc why, int times) {
  auto left = std::make_shared<int>(times);
  return {
    [](const blob_keeping_ptr&) -> caf::result<blob_kept_ptr> { return fail(errc::unavailable); },
    [](const blob_upload_ptr&) -> caf::result<blob_kept_ptr> { return fail(errc::unavailable); },
    [](abort_atom, const std::string&) {},
    [=](const blob_reading_ptr& r) -> caf::result<blob_page_ptr> {
      if ((*left)-- > 0)
        return fail(why);
      return std::make_shared<const blob_page>(blob_page{content.substr(r->offset), content.size()});
    },
    [](forget_atom, const std::string&) {},
    [](tick_atom) {},
    [](tree_atom) { return std::vector<runtime::tree_entry>{}; },
  };
}

bool is_hello(const std::string& frame) {
  agents::driver_frame_reader r;
  r.push(frame);
  std::string message;
  internal::ToDriver m;
  return r.next(message) == agents::driver_frame_reader::status::frame && m.ParseFromString(message) && m.has_hello();
}

} // namespace

TEST_CASE("a text of which the log has a part when node and keeper die is marked as cut off there") {
  talk_world w;
  const auto id = w.start("hello");
  w.say([](auto& d) { d.say_part("half"); });
  SUBCASE("and nothing waits") {}
  SUBCASE("and a prompt waits") { w.send(id, "next"); }
  lose_keeper(w);
  w.f.start();
  w.wait();
  std::vector<v1::ConversationItem> parts;
  for (const auto& p : w.parts(id))
    if (p.id() == "half")
      parts.push_back(p);
  REQUIRE(parts.size() == 2);
  CHECK_FALSE(parts.front().last());
  CHECK(parts.back().last());
  CHECK(parts.back().aborted());
}

TEST_CASE("the log says how a turn has ended before its row does") {
  // The node dies once more, at any step of its start.
  std::size_t steps = 0;
  bool is_over = false;
  for (; !is_over; ++steps) {
    CAPTURE(steps);
    talk_world w;
    const auto id = w.start("hello");
    lose_keeper(w);
    w.f.start();
    for (std::size_t i = 0; i < steps && !is_over; ++i)
      is_over = !w.f.w.step();
    w.f.restart();
    w.wait();
    const auto items = w.items(id);
    CHECK(count(items, "7 r1 withdrawn") == 1);
    CHECK(count(items, "9 1 failed") == 1);
  }
  CHECK(steps > 10);
}

TEST_CASE("what a generation has begun that is over is ended in the log when somebody looks at the conversation") {
  talk_world w;
  const auto id = w.start("hello");
  w.f.keeper.exit(w.spawn, 3);
  w.f.w.settle();
  REQUIRE(w.row(id).state() == v1::Conversation::SUSPENDED);
  // As a node leaves it that could not write its log in time.
  w.f.stop();
  w.f.start();
  w.f.w.settle();
  v1::ConversationItem begun;
  begun.set_kind(v1::CONVERSATION_TURN);
  begun.set_id("2");
  begun.set_state("started");
  begun.set_last(true);
  w.append(id, 1, 100, begun);
  auto poll = std::make_shared<conversation_poll>();
  poll->scope = "s";
  poll->id = id;
  auto news = w.f.request<conversation_news_ptr>(w.f.board->get().front, conversation_poll_ptr{poll});
  w.f.w.settle();
  CHECK(count(w.items(id), "9 2 failed") == 1);
  REQUIRE_FALSE(w.send(id, "again").has_refusal());
  w.wait();
  CHECK(count(w.items(id), "9 2 failed") == 1);
}

TEST_CASE("a prompt of which nobody knows whether the agent has it stands in the log when its driver died together with the node") {
  talk_world w;
  const auto id = w.start("hello");
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  w.cut = true;
  REQUIRE_FALSE(w.send(id, "lost").has_refusal());
  w.cut = false;
  lose_keeper(w);
  w.f.start();
  w.wait();
  const auto prompts = w.prompts(id);
  REQUIRE(prompts.back().state() == v1::Prompt::UNKNOWN);
  for (bool again : {false, true}) {
    CAPTURE(again);
    if (again)
      w.f.restart();
    w.wait();
    std::size_t notices = 0;
    for (const auto& i : w.parts(id))
      if (i.title() == "outcome-unknown" && i.prompts(0) == prompts.back().id()) {
        ++notices;
        CHECK(i.body().find("lost") != i.body().npos);
      }
    CHECK(notices == 1);
  }
}

TEST_CASE("a permission that was asked long before the last turns is known after a start, and has its end in the log") {
  talk_world w;
  const auto id = w.start("hello");
  // A task beside the turns goes on asking; the turn that was open ends, and others follow it.
  v1::ConversationItem turn;
  turn.set_kind(v1::CONVERSATION_TURN);
  turn.set_id("1");
  turn.set_state("ended");
  turn.set_last(true);
  w.append(id, 1, 101, turn);
  turn.set_id("2");
  for (std::uint64_t seq = 102; seq < 142; ++seq) {
    v1::ConversationItem text;
    text.set_kind(v1::CONVERSATION_TEXT);
    text.set_id("text-" + std::to_string(seq));
    text.set_body(std::string(limits::driver_part_bytes_max, 'x'));
    text.set_last(true);
    w.append(id, 1, seq, text);
  }
  turn.set_state("started");
  w.append(id, 1, 142, turn);
  w.cut = true;
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  w.f.stop();
  w.cut = false;
  w.f.start();
  w.wait();
  CHECK(w.driver().answers.at("r1") == 1);
}

TEST_CASE("a permission that was committed when node and keeper died has its begin and its end in the log") {
  talk_world w;
  w.f.keeper.on_typed = nullptr; // nobody tells the log of it
  const auto id = w.start("hello");
  auto c = w.f.command();
  *c.mutable_principal() = v1::Principal{};
  c.mutable_principal()->set_kind(v1::Principal::NODE);
  c.mutable_principal()->set_id("node-1");
  auto& ask = *c.mutable_request_approval();
  ask.set_subject("conversation/" + id);
  ask.set_kind(v1::Approval::COMMAND);
  ask.set_title("make");
  ask.set_body("{}");
  ask.set_request_key("conversation/" + id + "/1/x");
  ask.mutable_conversation()->set_conversation_id(id);
  ask.mutable_conversation()->set_generation(1);
  ask.mutable_conversation()->set_native_id("r1");
  const auto r = w.f.run(c);
  REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
  lose_keeper(w);
  w.f.start();
  w.wait();
  const auto items = w.items(id);
  CHECK(count(items, "7 r1 asked") == 1);
  CHECK(count(items, "7 r1 withdrawn") == 1);
}

TEST_CASE("a driver that does not answer the node is killed and its turn ends") {
  talk_world w;
  const auto id = w.start("hello");
  w.cut = true;
  w.f.restart();
  SUBCASE("in the middle of a turn") {}
  SUBCASE("when its conversation is stopped") {
    auto c = w.f.command();
    c.mutable_stop_conversation()->set_conversation_id(id);
    REQUIRE_FALSE(w.f.run(c).has_refusal());
  }
  CHECK(w.f.keeper.runs(w.spawn));
  w.f.w.advance_by(2 * limits::driver_hello_max, std::chrono::seconds{1});
  w.f.w.settle();
  CHECK_FALSE(w.f.keeper.runs(w.spawn));
  CHECK(count(w.items(id), "9 1 failed") == 1);
}

TEST_CASE("a conversation whose driver is replaced twice while its actor begins ends it and does not wait for anybody") {
  talk_world w;
  const auto id = w.start("hello");
  w.cut = true;
  auto row = w.row(id);
  v1::Spawn spawn;
  spawn.set_id(row.spawn_id());
  spawn.set_attempt(1);
  spawn.set_status(v1::Spawn::RUNNING);
  other_actor other{w, id, [row, spawn](const v1::Query& q) {
                      v1::Answer a;
                      if (q.has_list_conversations())
                        *a.mutable_conversations()->add_conversations() = row;
                      if (q.has_list_spawns())
                        *a.mutable_spawns()->add_spawns() = spawn;
                      return a;
                    }};
  other.begin();
  bool is_over = false;
  caf::actor_cast<caf::strong_actor_ptr>(other.actor)->get()->attach_functor([&is_over](const caf::error&) { is_over = true; });
  // The next driver was asked for, and runs, before the rows of the first have all been read.
  row.set_generation(2);
  row.set_state(v1::Conversation::STARTING);
  spawn.set_attempt(2);
  for (const auto status : {v1::Spawn::REQUESTED, v1::Spawn::RUNNING}) {
    spawn.set_status(status);
    v1::Batch b;
    *b.add_patches()->mutable_conversation() = row;
    *b.add_patches()->mutable_spawn() = spawn;
    caf::anon_send(other.actor, std::make_shared<const v1::Batch>(b));
  }
  w.f.w.settle();
  CHECK(is_over);
}

TEST_CASE("a file that nobody has the time to read goes with its prompt later, and one that is gone makes it undeliverable") {
  talk_world w;
  const auto id = w.start("hello");
  REQUIRE_FALSE(w.decide("allow").has_refusal());
  v1::Prompt p;
  p.set_id("with-file");
  p.set_scope("s");
  p.set_conversation_id(id);
  p.set_number(2);
  p.set_text("look");
  p.set_generation(1);
  p.set_state(v1::Prompt::SENDING);
  p.add_attachments()->set_name("a.png");
  v1::Spawn spawn;
  spawn.set_id(w.spawn);
  spawn.set_attempt(1);
  spawn.set_status(v1::Spawn::RUNNING);
  other_actor other{w, id, [row = w.row(id), spawn, p](const v1::Query& q) {
                      v1::Answer a;
                      if (q.has_list_conversations())
                        *a.mutable_conversations()->add_conversations() = row;
                      if (q.has_list_spawns())
                        *a.mutable_spawns()->add_spawns() = spawn;
                      if (q.has_list_prompts())
                        *a.mutable_prompts()->add_prompts() = p;
                      return a;
                    }};
  auto why = errc::deadline;
  SUBCASE("in time") {}
  SUBCASE("while many ask") { why = errc::overloaded; }
  SUBCASE("for it is gone") { why = errc::not_found; }
  const bool is_gone = why == errc::not_found;
  auto blobs = w.f.w.sys.spawn(failing_blobs, std::string{"image"}, why, 2);
  other.place.links.conversation_blobs = blobs;
  // The driver hears this actor and not the node's own.
  w.f.keeper.on_typed = [hear = w.f.keeper.on_typed, hellos = 0](const std::string& child, const std::string& frame) mutable {
    if (!is_hello(frame) || ++hellos == 1)
      hear(child, frame);
  };
  other.begin();
  w.wait();
  CHECK(w.driver().prompts.count("with-file") == (is_gone ? 0 : 1));
  std::string content;
  for (const auto& m : w.driver().heard)
    if (m.prompt().id() == "with-file")
      content += m.prompt().media();
  CHECK(content == (is_gone ? "" : "image"));
  std::size_t notices = 0;
  for (const auto& i : w.parts(id))
    notices += i.title() == "undelivered";
  CHECK(notices == (is_gone ? 1 : 0));
  caf::anon_send_exit(caf::actor_cast<caf::actor>(blobs), caf::exit_reason::kill);
}

TEST_CASE("a turn whose end the log has counts in its row whenever node and keeper have died together") {
  std::size_t steps = 0, ended = 0;
  bool is_over = false;
  for (; !is_over; ++steps) {
    CAPTURE(steps);
    talk_world w;
    const auto id = w.start("hello");
    const auto asked = w.approvals().front();
    auto c = w.f.command();
    c.mutable_decide_approval()->set_approval_id(asked.id());
    c.mutable_decide_approval()->set_option("allow");
    c.mutable_decide_approval()->set_action_digest(asked.action_digest());
    const auto decided = w.f.send(c);
    for (std::size_t i = 0; i < steps && !is_over; ++i)
      is_over = !w.f.w.step();
    lose_keeper(w);
    w.f.start();
    w.wait();
    const auto in_log = count(w.items(id), "9 1 ended");
    CHECK(w.row(id).usage().turns() == in_log);
    CHECK(w.row(id).usage().output_tokens() == 7 * in_log);
    ended += in_log;
  }
  CHECK(steps > 10);
  CHECK(ended > 1);
}
