// How a driver's generation ends in the log and in the row.
#include <doctest/doctest.h>

#include "actors/domain/oldest_prompt.hpp"
#include "actors/fabric/conversations/dialogue.hpp"

using namespace swarm;

namespace {

/// A dialogue whose log writes at once, and whose store answers when it is told to.
struct ending_world {
  v1::Conversation row;
  std::unique_ptr<dialogue> talk;
  std::vector<v1::Command> commands;
  std::vector<v1::ConversationItem> items;
  std::uint64_t revision = 0;

  ending_world() {
    row.set_id("c");
    row.set_generation(1);
    row.set_state(v1::Conversation::IDLE);
  }
  void begin(log_tail tail = {}) { talk = std::make_unique<dialogue>(row, std::move(tail)); }
  /// What the driver keeps of what it has told begins with this; 0 = it keeps nothing.
  void connect(std::uint64_t first_seq = 0) {
    const std::string nonce(16, 'n');
    talk->connected(nonce);
    internal::FromDriver ready;
    ready.mutable_ready()->set_first_seq(first_seq);
    ready.mutable_ready()->set_last_seq(first_seq);
    talk->heard(nonce + agents::encode_driver_frame(ready));
    settle();
  }
  void settle() {
    for (auto effects = talk->take(); !effects.empty(); effects = talk->take())
      for (auto& e : effects)
        if (auto* c = std::get_if<dialogue::ask>(&e)) {
          commands.push_back(c->command);
        } else if (auto* k = std::get_if<dialogue::keep>(&e)) {
          for (const auto& f : k->frames)
            REQUIRE(items.emplace_back().ParseFromString(f.body));
          talk->kept({1, items.size()});
        }
  }
  /// The command that was asked last is done.
  void answer(const v1::Prompt& p = {}) {
    REQUIRE_FALSE(commands.empty());
    row.set_driver_seq(std::max(row.driver_seq(), commands.back().report_conversation().driver_seq()));
    v1::Reply r;
    *r.mutable_conversation()->mutable_conversation() = row;
    if (!p.id().empty())
      *r.mutable_conversation()->mutable_prompt() = p;
    r.set_revision(++revision);
    talk->answered(r);
    settle();
  }
  std::size_t turn_ends() const {
    return static_cast<std::size_t>(
      std::count_if(commands.begin(), commands.end(), [](const auto& c) { return c.report_conversation().has_turn_ended(); }));
  }
};

void keep(log_tail& tail, std::uint64_t seq, v1::ConversationItem item) {
  item.set_last(true);
  take_frame(tail, 1,
             {.generation = 1, .driver_seq = seq, .at_ms = 1, .kind = static_cast<std::uint32_t>(item.kind()), .body = item.SerializeAsString()});
}

v1::Prompt prompt(v1::Prompt::State state) {
  v1::Prompt p;
  p.set_id("p");
  p.set_number(1);
  p.set_text("words of p");
  p.set_state(state);
  if (state != v1::Prompt::QUEUED)
    p.set_generation(1);
  p.set_changed_at_ms(5);
  return p;
}

v1::ConversationItem turn(const std::string& state) {
  v1::ConversationItem i;
  i.set_kind(v1::CONVERSATION_TURN);
  i.set_id("1");
  i.set_state(state);
  return i;
}

/// A turn whose end was logged, and not told to the store.
log_tail ended_turn() {
  log_tail tail;
  keep(tail, 1, turn("started"));
  v1::ConversationItem text;
  text.set_kind(v1::CONVERSATION_TEXT);
  text.set_id("t");
  text.set_body("all green");
  keep(tail, 2, text);
  auto end = turn("ended");
  end.mutable_usage()->set_turns(1);
  end.mutable_usage()->set_output_tokens(7);
  end.mutable_usage()->set_cost_known(true);
  end.mutable_usage()->set_cost_usd(0.25);
  keep(tail, 3, end);
  return tail;
}

} // namespace

TEST_CASE("a prompt that may be given when its driver ends is noted once in the log though that was not heard of its row") {
  ending_world w;
  std::string words;
  w.begin();
  w.connect();
  w.talk->prompt_comes();
  w.settle();
  REQUIRE(w.commands.size() == 1);
  REQUIRE(w.commands[0].report_conversation().sending() == domain::oldest_prompt);
  SUBCASE("nor anything else") {
    w.answer(prompt(v1::Prompt::SENDING));
    CHECK(w.talk->is_unfinished());
    w.talk->driver_ended("it was killed", 5);
  }
  SUBCASE("but that it waits") {
    w.answer(prompt(v1::Prompt::SENDING));
    w.talk->prompt_is(prompt(v1::Prompt::QUEUED), 0);
    w.talk->driver_ended("it was killed", 5);
    words = ": words of p";
  }
  SUBCASE("and the store answers after its end") {
    w.talk->driver_ended("it was killed", 5);
    w.answer(prompt(v1::Prompt::SENDING));
  }
  w.settle();
  w.talk->prompt_is(prompt(v1::Prompt::SENDING), 7);
  w.talk->prompt_is(prompt(v1::Prompt::UNKNOWN), 8);
  w.settle();
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().driver_ended());
  w.answer();
  CHECK(w.talk->is_over());
  REQUIRE(w.items.size() == 1);
  CHECK(w.items[0].title() == "outcome-unknown");
  CHECK(w.items[0].prompts(0) == "p");
  CHECK(w.items[0].body() == "Its driver ended before it told whether the agent has it" + words);
  // Nor does the next start of the node note it again.
  log_tail tail;
  keep(tail, 0, w.items[0]);
  w.row.set_generation(2);
  CHECK(unfinished(w.row, {1, tail, 2}, {prompt(v1::Prompt::UNKNOWN)}, "both are gone", 9).empty());
}

TEST_CASE("an agent does not rest while a prompt is on its way to it") {
  ending_world w;
  w.begin();
  w.connect();
  CHECK(w.talk->is_idle());
  w.talk->prompt_comes();
  w.settle();
  CHECK_FALSE(w.talk->is_idle());
  w.answer(prompt(v1::Prompt::SENDING));
  CHECK_FALSE(w.talk->is_idle());
}

TEST_CASE("a turn whose end the log has and the row has not counts in the row once its driver is gone, with its cost and its last words") {
  ending_world w;
  w.row.set_state(v1::Conversation::RUNNING);
  w.row.set_open_turn("1");
  w.row.set_driver_seq(1);
  w.row.set_session_cost_usd(0.5);
  w.begin(ended_turn());
  w.talk->driver_ended("both died", 9);
  w.settle();
  REQUIRE(w.commands.size() == 1);
  const auto& r = w.commands[0].report_conversation();
  CHECK(r.driver_seq() == 3);
  const auto& t = r.turn_ended();
  CHECK(t.turn() == "1");
  CHECK(t.finished());
  CHECK(t.usage().output_tokens() == 7);
  CHECK(t.cost_known());
  CHECK(t.session_cost_usd() == doctest::Approx(0.75));
  CHECK(t.last_text() == "all green");
  w.answer();
  REQUIRE(w.commands.size() == 2);
  CHECK(w.commands[1].report_conversation().driver_ended());
  CHECK(w.items.empty());
}

TEST_CASE("a turn whose end the log has is not told by the node when the row knows it or its driver tells it") {
  ending_world w;
  w.row.set_driver_seq(1);
  std::size_t told = 0;
  SUBCASE("as the row knows it") {
    w.row.set_driver_seq(3);
    w.begin(ended_turn());
  }
  SUBCASE("as its driver tells it again") {
    w.begin(ended_turn());
    w.connect(3);
    internal::FromDriver f;
    f.set_seq(3);
    f.mutable_turn_ended()->set_id("1");
    w.talk->heard(agents::encode_driver_frame(f));
    w.settle();
    w.answer();
    told = 1;
  }
  SUBCASE("as another one has begun") {
    auto tail = ended_turn();
    auto next = turn("started");
    next.set_id("2");
    keep(tail, 4, next);
    w.begin(tail);
  }
  w.talk->driver_ended("both died", 9);
  w.settle();
  CHECK(w.commands.back().report_conversation().driver_ended());
  CHECK(w.turn_ends() == told);
}
