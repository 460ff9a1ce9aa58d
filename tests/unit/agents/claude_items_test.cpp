// What Claude Code says, its turns, and what is no frame.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/text.hpp"
#include "tests/support/claude_world.hpp"

using namespace swarm;
using namespace swarm::agents;
using world = test::claude_world;
using json = nlohmann::json;
using lines = std::vector<std::string>;
using test::body_of, test::text_block;

namespace {

void event(world& w, const json& e) { w.read({{"type", "stream_event"}, {"event", e}}); }
void begin_text(world& w, const std::string& message) {
  event(w, {{"type", "message_start"}, {"message", {{"id", message}}}});
  event(w, {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}}}});
}
void piece_of_text(world& w, const std::string& text) {
  event(w, {{"type", "content_block_delta"}, {"delta", {{"type", "text_delta"}, {"text", text}}}});
}

} // namespace

// ---- items ----

TEST_CASE("blocks of a message have ids of their own that stay and those of others do not disturb them") {
  world w;
  w.block("m", text_block("one"));
  w.block("other", text_block("nested"), "call");
  w.block("m", text_block("two"));
  w.block("", text_block("three"));
  w.block("", text_block("four"));
  lines ids;
  for (const auto& f : w.said)
    ids.push_back(f.item().id());
  CHECK(ids == lines{"m:0", "other:0", "m:1", "item-1-1", "item-1-2"});
  CHECK(w.said[1].item().nested());
  CHECK(w.said[1].item().of() == "call");
}

TEST_CASE("a result of 5 MB comes in parts that fit a frame and are cut between characters") {
  world w;
  std::string output;
  while (output.size() < 5'000'000)
    output += "\u2014 a line of the output\n";
  auto said = w.result("c", output).said;
  for (const auto& f : said) {
    CHECK(f.item().of() == "c");
    if (f.ByteSizeLong() >= 60 * limits::kib || !is_utf8(f.item().body()) || f.item().last() != (&f == &said.back()))
      CHECK(false);
  }
  CHECK(body_of(said) == output);
}

TEST_CASE("half characters of a text that somebody has cut do not lose the frame") {
  world w;
  w.write(R"({"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"cut \ud83d"}]}})"
          "\n");
  w.write("{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"cut \xf0\x9f\"}]}}\n");
  REQUIRE(w.said.size() == 2);
  CHECK(w.said[0].item().body() == "cut \ufffd");
  CHECK(w.said[1].item().body().starts_with("cut \ufffd"));
}

TEST_CASE("ids of ours are not repeated in a later life of the program") {
  const std::string alone = R"({"type":"user","message":{"content":"x"}})"
                            "\n";
  const std::string turn = R"({"type":"system","subtype":"init"})"
                           "\n" +
                           alone + R"({"type":"result"})" + "\n";
  std::set<std::string> ids;
  std::size_t items = 0;
  std::uint64_t turns = 0;
  for (const auto& life : {alone, turn, turn + alone, alone + turn, alone}) {
    claude_stream stream{turns};
    auto said = stream.read(life).said;
    stream.end();
    for (const auto& f : said)
      if (f.has_item()) {
        ++items;
        ids.insert(f.item().id());
      }
    turns = stream.turns();
  }
  CHECK(items == 7);
  CHECK(ids.size() == items);
}

TEST_CASE("a message with an id of any length has items with ids of a bounded one") {
  world w;
  const std::string id(5000, 'm');
  begin_text(w, id);
  piece_of_text(w, "x");
  w.block(id, text_block("x"));
  CHECK(w.said.size() == 2);
  CHECK(w.said[0].delta().item_id() == w.said[1].item().id());
  CHECK(w.said[1].item().id().size() < 100);
}

TEST_CASE("what streams is known whole until it is an item") {
  world w;
  begin_text(w, "m");
  const std::string piece(30'000, 'x');
  for (int i = 0; i < 3; ++i)
    piece_of_text(w, piece);
  auto open = w.stream.open_item();
  REQUIRE(open);
  CHECK(open->item_id() == "m:0");
  CHECK(open->text().size() == claude_stream::part_bytes_max);
  CHECK(open->offset() + open->text().size() == 90'000);
  event(w, {{"type", "content_block_stop"}, {"index", 0}});
  CHECK(w.stream.open_item());
  w.block("m", text_block("done"));
  CHECK_FALSE(w.stream.open_item());
  CHECK(w.said.back().item().id() == "m:0");
}

TEST_CASE("what streamed and is not finished stays as an item that is cut off wherever the agent goes on") {
  const auto goes_on = std::map<std::string, std::function<void(world&)>>{
    {"a message begins", [](world& w) { begin_text(w, "n"); }},
    {"a block begins",
     [](world& w) {
       event(w, {{"type", "content_block_start"}, {"index", 1}, {"content_block", {{"type", "tool_use"}}}});
     }},
    {"another message has a block", [](world& w) { w.block("n", text_block("API Error")); }},
    {"its message has another block", [](world& w) { w.block("m", test::call_block("c", "Write")); }},
    {"its block has no words", [](world& w) { w.block("m", text_block("")); }},
    {"the turn ends", [](world& w) { w.ends(1); }},
    {"the program ends", [](world& w) { w.take(w.stream.end()); }},
  };
  const std::string piece(30'000, 'x'); // three are more than a part of an item
  for (const auto& [how, go_on] : goes_on) {
    CAPTURE(how);
    world w;
    begin_text(w, "m");
    for (int i = 0; i < 3; ++i)
      piece_of_text(w, piece);
    event(w, {{"type", "content_block_stop"}, {"index", 0}});
    w.said.clear();
    go_on(w);
    std::string text;
    for (const auto& f : w.said)
      if (f.has_item() && f.item().id() == "m:0") {
        CHECK(f.item().aborted());
        text += f.item().body();
      }
    CHECK(text == piece + piece + piece);
    CHECK((w.said.front().has_item() && w.said.front().item().id() == "m:0"));
  }
}

TEST_CASE("of an endless text that is cut off the end is kept and the gap is said") {
  world w;
  begin_text(w, "m");
  const std::string piece(limits::mib, 'x');
  for (int i = 0; i < 6; ++i)
    piece_of_text(w, piece);
  w.said.clear();
  w.ends(1);
  REQUIRE(w.said.front().notice().kind() == "gap");
  const auto kept = body_of(w.said).size();
  CHECK(kept <= limits::agent_streamed_bytes_max);
  CHECK(w.said.front().notice().text().find(std::to_string(6 * limits::mib - kept)) != std::string::npos);
}

// ---- turns and cost ----

TEST_CASE("an agent takes prompts from its introduction to its end") {
  claude_stream stream;
  CHECK_FALSE(stream.prompt("early", {}));
  auto said = test::introduce(stream).said;
  REQUIRE(said.size() == 1);
  CHECK(said[0].has_agent_started());
  CHECK(stream.prompt("p", {}));
  stream.end();
  CHECK_FALSE(stream.prompt("late", {}));
}

TEST_CASE("an agent that would not hold back a tool is not announced and takes no prompt") {
  const json refused{{"subtype", "error"}, {"error", "no hooks here"}};
  const json without_hooks{{"response", {{"hooks_applied", false}}}};
  const json too_old{{"response", {{"hook_on_failure_supported", nullptr}}}};
  for (const auto& but : {refused, without_hooks, too_old}) {
    claude_stream stream;
    auto said = test::introduce(stream, but).said;
    REQUIRE(said.size() == 1);
    CHECK(said[0].notice().kind() == "unusable");
    auto prompt = stream.prompt("p", {});
    REQUIRE_FALSE(prompt);
    CHECK(prompt.failure().why == said[0].notice().text());
    for (const auto& f : stream
                           .read(R"({"type":"system","subtype":"init","session_id":"s"})"
                                 "\n")
                           .said)
      CHECK_FALSE(f.has_agent_started());
  }
}

TEST_CASE("the cost of a session is what the program says last and no sum of it") {
  world w;
  w.ends(0.5);
  w.read({{"type", "system"}, {"subtype", "init"}});
  w.ends(0.75);
  CHECK(w.said.back().turn_ended().usage().session_cost_usd() == doctest::Approx(0.75));
  w.read({{"type", "system"}, {"subtype", "init"}});
  w.read({{"type", "result"}, {"is_error", false}});
  CHECK(w.said.back().turn_ended().usage().session_cost_usd() == doctest::Approx(0.75));
}

TEST_CASE("an end of the output ends the turn once and leaves nothing open") {
  world w;
  w.ask("r", json::object());
  w.block("m", text_block("last words"));
  auto o = w.stream.end();
  CHECK(test::story_of(o.said) == lines{"asks no more: the agent has exited", "turn 1 EXITED: The agent's process ended in the midd..."});
  CHECK(o.said.back().turn_ended().last_text() == "last words");
  CHECK(w.stream.end().said.empty());
  CHECK(w.ends(1).said.empty());
  CHECK_FALSE(w.answer("r", "allow"));
}

TEST_CASE("an end of the output answers the options that wait and no task goes on") {
  world w;
  internal::SetOption wish;
  wish.set_id("o");
  wish.set_model("m2");
  w.stream.set(wish);
  w.read({{"type", "system"}, {"subtype", "background_tasks_changed"}, {"tasks", {1, 2}}});
  w.ends(1);
  CHECK(w.stream.background() == 2);
  CHECK(test::story_of(w.stream.end().said) == lines{"option o: The agent has exited"}); // which says that nothing goes on
  CHECK(w.stream.background() == 0);
}

TEST_CASE("what streamed when the program ended stays as an item that is cut off") {
  auto recording = test::claude_recording("text");
  auto streams = [](const json& entry) {
    return entry.contains("from") && entry["from"].contains("event") && entry["from"]["event"].contains("delta");
  };
  auto first = std::find_if(recording.begin(), recording.end(), streams);
  recording.erase(first + 3, recording.end());
  recording.push_back({{"exit", nullptr}});
  auto said = test::replay_claude(recording).said;
  CHECK(test::story_of(said).back() == "turn 1 EXITED: The agent's process ended in the midd...");
  std::string streamed;
  for (const auto& f : said)
    streamed += f.delta().text();
  CHECK_FALSE(streamed.empty());
  CHECK(body_of(said) == streamed);
  CHECK(said.back().turn_ended().last_text() == streamed);
}

TEST_CASE("a prompt that the agent drops is refused and what became of one that it has had before is not known") {
  claude_stream stream;
  test::introduce(stream);
  const std::vector<claude_lines::prompt_part> parts{{"hello"}};
  for (const char* id : {"dropped", "repeated", "waiting"})
    CHECK(stream.prompt(id, parts));
  CHECK_FALSE(stream.prompt("waiting", parts));
  std::string frames;
  for (auto [id, state] : {std::pair{"dropped", "cancelled"}, {"repeated", "completed"}, {"unknown", "completed"}})
    frames += json{{"type", "command_lifecycle"}, {"command_uuid", id}, {"state", state}}.dump() + "\n";
  CHECK(test::story_of(stream.read(frames).said) == lines{"prompt REFUSED ", "prompt UNKNOWN "});
  CHECK(stream.waiting_prompts() == lines{"waiting"});
}

// ---- what is no frame ----

TEST_CASE("an endless line is skipped to its end and said once") {
  world w{1000};
  w.write(std::string(700, 'x'));
  w.write(std::string(700, 'x'));
  w.write(std::string(5000, 'x'));
  w.write("\n");
  w.block("m", text_block("after"));
  CHECK(w.story() == lines{"notice unreadable", "says: after"});
}

TEST_CASE("lines that are no frames are said in part and not for ever") {
  world w;
  w.write("\x1b[31mhello " + std::string(10'000, 'x') + "\n\n  \r\n");
  REQUIRE(w.said.size() == 1);
  CHECK(w.said[0].notice().text().size() < 1000);
  CHECK(w.said[0].notice().text().find('\x1b') == std::string::npos);
  for (int i = 0; i < 1000; ++i)
    w.write("garbage\n");
  CHECK(w.said.size() == limits::agent_notices_max);
}

TEST_CASE("garbage between the frames of a recording changes nothing but notices") {
  const auto recording = test::claude_recording("tools");
  const auto plain = test::story_of(test::replay_claude(recording).said);
  std::mt19937_64 random{42};
  auto with_garbage = [&](const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      auto end = text.find('\n', at) + 1;
      out += text.substr(at, end - at);
      at = end;
      for (auto n = random() % 3; n > 0; --n) {
        std::string junk = random() % 2 == 0 ? "{\"type\":\"no such type\",\"x\":[1]}" : "{\"type\":";
        for (auto i = random() % 20; i > 0; --i)
          junk += static_cast<char>(random() % 2 == 0 ? random() : '"');
        std::replace(junk.begin(), junk.end(), '\n', ' ');
        out += junk + "\n";
      }
    }
    return lines{out};
  };
  auto story = test::story_of(test::replay_claude(recording, with_garbage).said);
  story.erase(std::remove(story.begin(), story.end(), "notice unreadable"), story.end());
  CHECK(story == plain);
}

TEST_CASE("wherever a recording breaks off every turn ends and nobody waits") {
  const auto recording = test::claude_recording("interrupt");
  for (std::size_t n = 0; n < recording.size(); ++n) {
    auto cut = std::vector(recording.begin(), recording.begin() + static_cast<std::ptrdiff_t>(n));
    cut.push_back({{"exit", nullptr}});
    int turns = 0, requests = 0, ended = 0, over = 0, cut_off = 0;
    const auto said = test::replay_claude(cut).said;
    for (const auto& f : said) {
      turns += f.has_turn_started();
      ended += f.has_turn_ended();
      requests += f.has_request();
      over += f.has_withdrawn();
      cut_off += f.has_turn_ended() && f.turn_ended().reason() == internal::TurnEnded::EXITED;
    }
    CHECK(turns == ended);
    CHECK(requests == over); // in this recording nothing is answered in time
    CHECK(cut_off <= 1);
  }
}
