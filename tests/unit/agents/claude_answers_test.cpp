#include <algorithm>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/agents/claude_stream.hpp"
#include "actors/base/text.hpp"
#include "tests/support/claude_recording.hpp"

using namespace swarm;
using namespace swarm::agents;
using json = nlohmann::json;
using lines = std::vector<std::string>;

namespace {

/// A stream in whose first turn things are written as the program writes them.
class world {
public:
  explicit world(std::size_t line_max = claude_stream::line_bytes_max) : stream(0, line_max) {
    read({{"type", "system"}, {"subtype", "init"}, {"session_id", "s"}, {"model", "m"}, {"cwd", "/repo"}});
    said.clear();
  }
  claude_output write(const std::string& bytes) {
    auto o = stream.read(bytes);
    said.insert(said.end(), o.said.begin(), o.said.end());
    return o;
  }
  claude_output read(const json& frame) { return write(frame.dump() + "\n"); }
  claude_output ask(const std::string& id, const json& input, const std::string& tool = "Write", const json& further = json::object()) {
    json request{{"subtype", "can_use_tool"}, {"tool_name", tool}, {"input", input}, {"tool_use_id", "call of " + id}};
    request.update(further);
    return read({{"type", "control_request"}, {"request_id", id}, {"request", request}});
  }
  claude_output block(const std::string& message, const json& content, const std::string& parent = {}) {
    json frame{{"type", "assistant"}, {"message", {{"id", message}, {"content", json::array({content})}}}};
    if (!parent.empty())
      frame["parent_tool_use_id"] = parent;
    return read(frame);
  }
  claude_output result(const std::string& call, const json& content) {
    json block{{"type", "tool_result"}, {"tool_use_id", call}, {"content", content}};
    return read({{"type", "user"}, {"message", {{"content", json::array({block})}}}});
  }
  claude_output ends(double cost) { return read({{"type", "result"}, {"is_error", false}, {"total_cost_usd", cost}}); }
  claude_line answer(const std::string& id, const std::string& option, const std::string& edited = {}) {
    internal::Answer a;
    a.set_request_id(id);
    a.set_option(option);
    a.set_edited_input(edited);
    return stream.answer(a);
  }
  lines story() const { return test::story_of(said); }

  claude_stream stream;
  std::vector<internal::FromDriver> said;
};

json text(const std::string& words) { return {{"type", "text"}, {"text", words}}; }
json call(const std::string& id, const std::string& tool) { return {{"type", "tool_use"}, {"id", id}, {"name", tool}, {"input", json::object()}}; }
const json rules =
  json::parse(R"([{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"x"}],"behavior":"allow","destination":"localSettings"},
                                   {"type":"setMode","mode":"acceptEdits","destination":"session"}])");

/// What an answer gives the program.
json given(const claude_line& line) {
  REQUIRE(line);
  return json::parse(*line)["response"]["response"];
}

std::string body_of(const std::vector<internal::FromDriver>& said) {
  std::string out;
  for (const auto& f : said)
    out += f.has_item() ? f.item().body() : f.request().body();
  return out;
}

} // namespace

// ---- requests and their answers ----

TEST_CASE("a request is answered once") {
  world w;
  w.ask("r", {{"file_path", "a"}});
  CHECK(given(w.answer("r", "allow"))["behavior"] == "allow");
  CHECK_FALSE(w.answer("r", "allow"));
  CHECK_FALSE(w.answer("r", "deny"));
  CHECK_FALSE(w.answer("other", "allow"));
  CHECK(w.stream.open_requests().empty());
}

TEST_CASE("the agent gets exactly the bytes that a person has decided on") {
  world w;
  const std::string input = R"({ "b":1.50, "a" : "\u00e4\/", "b":2 })";
  auto said =
    w.write(R"({"request":{"input":)" + input + R"(,"tool_name":"X","subtype":"can_use_tool"},"request_id":"r","type":"control_request"})" + "\n")
      .said;
  REQUIRE(said.size() == 1);
  CHECK(said[0].request().body() == input);
  CHECK((*w.answer("r", "allow")).find(R"("updatedInput":)" + input + "}") != std::string::npos);
}

TEST_CASE("an edited input takes the place of what was asked and has to be an object") {
  world w;
  w.ask("r", {{"command", "rm x"}}, "Bash");
  CHECK_FALSE(w.answer("r", "allow", "[1]"));
  CHECK_FALSE(w.answer("r", "allow", "{"));
  auto line = w.answer("r", "allow", "{\n \"command\": \"ls\"\r\n}");
  CHECK(given(line)["updatedInput"] == json{{"command", "ls"}});
  CHECK(std::count(line->begin(), line->end(), '\n') == 1);
}

TEST_CASE("an answer that is none of the options leaves the request open") {
  world w;
  w.ask("r", json::object());
  CHECK_FALSE(w.answer("r", "yes"));
  CHECK_FALSE(w.answer("r", "always"));
  CHECK(given(w.answer("r", "deny"))["message"] == "The user said no");
}

TEST_CASE("always keeps the rule for the session and widens nothing else") {
  world w;
  w.ask("r", {{"command", "x"}}, "Bash", {{"permission_suggestions", rules}});
  CHECK(w.said.back().request().can_be_always());
  auto kept = given(w.answer("r", "always"))["updatedPermissions"];
  REQUIRE(kept.size() == 1);
  CHECK(kept[0] == json{{"type", "addRules"}, {"rules", rules[0]["rules"]}, {"behavior", "allow"}, {"destination", "session"}});
}

TEST_CASE("always is not offered where the agent would ask again or has no rule") {
  world w;
  w.ask("blocked", {{"command", "x"}}, "Bash", {{"permission_suggestions", rules}, {"blocked_path", "/x"}});
  CHECK_FALSE(w.said.back().request().can_be_always());
  w.ask("mode", {{"file_path", "x"}}, "Write", {{"permission_suggestions", json::array({rules[1]})}});
  CHECK_FALSE(w.said.back().request().can_be_always());
  CHECK_FALSE(w.answer("mode", "always"));
}

TEST_CASE("a question takes answers to its own parts only") {
  world w;
  const json input{{"questions", {{{"question", "Which?"}, {"options", {{{"label", "A"}}}}}, {{"question", "How?"}, {"options", json::array()}}}}};
  w.ask("q", input, "AskUserQuestion");
  internal::Answer a;
  a.set_request_id("q");
  a.set_option("allow");
  CHECK_FALSE(w.stream.answer(a));
  (*a.mutable_answers())["Other?"] = "B";
  CHECK_FALSE(w.stream.answer(a));
  a.clear_answers();
  (*a.mutable_answers())["Which?"] = "A \"quoted\"";
  auto expected = input;
  expected["answers"] = {{"Which?", "A \"quoted\""}};
  CHECK(given(w.stream.answer(a))["updatedInput"] == expected);
}

TEST_CASE("the option answers a question that has one part") {
  world w;
  w.ask("q", {{"questions", {{{"question", "Which?"}}}}}, "AskUserQuestion");
  CHECK(given(w.answer("q", "A"))["updatedInput"]["answers"] == json{{"Which?", "A"}});
}

TEST_CASE("a request that the agent withdraws or whose tool has a result takes no answer any more") {
  world w;
  w.ask("cancelled", json::object());
  w.ask("over", json::object());
  w.read({{"type", "control_cancel_request"}, {"request_id", "cancelled"}});
  w.read({{"type", "control_cancel_request"}, {"request_id", "cancelled"}});
  w.result("call of over", "done");
  CHECK_FALSE(w.answer("cancelled", "allow"));
  CHECK_FALSE(w.answer("over", "allow"));
  auto story = w.story();
  CHECK(std::count(story.begin(), story.end(), "asks no more: the agent stopped waiting") == 2);
}

TEST_CASE("the end of a turn withdraws what the turn asked but not what a task beside it asks") {
  world w;
  w.block("m", call("call of mine", "Write"));
  w.ask("mine", json::object());
  w.ask("beside", json::object());
  w.ends(1);
  CHECK(w.stream.open_requests() == lines{"beside"});
}

TEST_CASE("an id that comes again while it is open stands for the newer request") {
  world w;
  for (const std::string id : {"", "r"}) {
    w.said.clear();
    w.ask(id, {{"file_path", "/first"}});
    w.ask(id, {{"file_path", "/second"}});
    CHECK(w.story() == lines{"asks (FILE) Write: /first", "asks no more: the agent asks something else under t...", "asks (FILE) Write: /second"});
    CHECK(given(w.answer(id, "allow"))["updatedInput"]["file_path"] == "/second");
  }
}

TEST_CASE("an id of any length or content comes back to the agent as it was") {
  world w;
  for (const std::string& id : {std::string(5000, 'x'), std::string{"\n\"\\\x01"}, std::string{"swarm-1"}}) {
    w.ask(id, json::object());
    auto ours = w.stream.open_requests();
    REQUIRE(ours.size() == 1);
    CHECK(ours[0].size() <= 128);
    auto line = w.answer(ours[0], "allow");
    REQUIRE(line);
    CHECK(json::parse(*line)["response"]["request_id"] == id);
  }
}

TEST_CASE("what a person would have to read is bounded in number and the agent is told") {
  world w;
  for (std::size_t i = 0; i < claude_stream::open_max; ++i)
    CHECK(w.ask(std::to_string(i), json::object()).to_agent.empty());
  auto one_more = w.ask("more", json::object());
  CHECK(one_more.said.empty());
  CHECK(json::parse(one_more.to_agent)["response"]["response"]["behavior"] == "deny");
}

TEST_CASE("a long input comes in parts and is whole only with the last") {
  world w;
  std::string content;
  for (int i = 0; i < 50'000; ++i)
    content += "\u00e4";
  const json input{{"file_path", "rel.txt"}, {"content", content}};
  auto said = w.ask("r", input).said;
  REQUIRE(said.size() > 3);
  for (const auto& f : said) {
    CHECK(f.ByteSizeLong() < 60 * limits::kib);
    CHECK(is_utf8(f.request().body()));
    CHECK(f.request().last() == (&f == &said.back()));
  }
  CHECK(json::parse(body_of(said)) == input);
  CHECK(said.back().request().paths(0) == "/repo/rel.txt");
}

TEST_CASE("an interrupt withdraws first and its lines free whoever waits") {
  world w;
  w.ask("r", json::object());
  auto o = w.stream.interrupt();
  CHECK(test::story_of(o.said) == lines{"asks no more: interrupted"});
  CHECK(o.to_agent.find("\"interrupt\"") < o.to_agent.find("\"deny\""));
  CHECK_FALSE(w.answer("r", "allow"));
}

TEST_CASE("a request that a driver does not know is refused at once") {
  world w;
  auto o = w.read({{"type", "control_request"}, {"request_id", "e"}, {"request", {{"subtype", "elicitation"}}}});
  CHECK(json::parse(o.to_agent)["response"]["subtype"] == "error");
  CHECK(json::parse(o.to_agent)["response"]["request_id"] == "e");
}

TEST_CASE("a hook is answered once and one with a long input is not shown") {
  world w;
  auto hook = [&](const std::string& id, const std::string& content) {
    json input{{"hook_event_name", "PreToolUse"}, {"tool_name", "Write"}, {"tool_input", {{"content", content}}}};
    return w.read({{"type", "control_request"}, {"request_id", id}, {"request", {{"subtype", "hook_callback"}, {"input", input}}}}).said;
  };
  CHECK_FALSE(hook("h", "x")[0].hook_question().too_long());
  auto long_one = hook("l", std::string(claude_stream::part_bytes_max, 'x'));
  CHECK(long_one[0].hook_question().too_long());
  CHECK(long_one[0].hook_question().input().empty());
  internal::HookAnswer a;
  a.set_question_id("h");
  CHECK(given(w.stream.answer_hook(a)) == json::object());
  CHECK_FALSE(w.stream.answer_hook(a));
}

TEST_CASE("a request without an input and lines with a NUL make no broken line") {
  world w;
  w.write(R"({"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"X"}})"
          "\n");
  CHECK(given(w.answer("r", "allow"))["updatedInput"] == json::object());
  w.ask("s", json::object());
  CHECK_FALSE(w.answer("s", "allow", std::string{"{}\0x", 4}));
}

// ---- items ----

TEST_CASE("blocks of a message have ids of their own that stay and those of others do not disturb them") {
  world w;
  w.block("m", text("one"));
  w.block("other", text("nested"), "call");
  w.block("m", text("two"));
  w.block("", text("three"));
  w.block("", text("four"));
  lines ids;
  for (const auto& f : w.said)
    ids.push_back(f.item().id());
  CHECK(ids == lines{"m:0", "other:0", "m:1", "item-1", "item-2"});
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

TEST_CASE("what streams is known whole until it is an item") {
  world w;
  auto event = [&](const json& e) { w.read({{"type", "stream_event"}, {"event", e}}); };
  event({{"type", "message_start"}, {"message", {{"id", "m"}}}});
  event({{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}}}});
  const std::string piece(30'000, 'x');
  for (int i = 0; i < 3; ++i)
    event({{"type", "content_block_delta"}, {"delta", {{"type", "text_delta"}, {"text", piece}}}});
  auto open = w.stream.open_item();
  REQUIRE(open);
  CHECK(open->item_id() == "m:0");
  CHECK(open->text().size() == claude_stream::part_bytes_max);
  CHECK(open->offset() + open->text().size() == 90'000);
  w.block("m", text("done"));
  CHECK_FALSE(w.stream.open_item());
  CHECK(w.said.back().item().id() == "m:0");
}

// ---- turns and cost ----

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
  w.block("m", text("last words"));
  auto o = w.stream.end();
  CHECK(test::story_of(o.said) == lines{"asks no more: the agent has exited", "turn 1 EXITED: The agent's process ended in the midd..."});
  CHECK(o.said.back().turn_ended().last_text() == "last words");
  CHECK(w.stream.end().said.empty());
  CHECK(w.ends(1).said.empty());
  CHECK_FALSE(w.answer("r", "allow"));
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

TEST_CASE("a prompt that the agent drops or has had before is refused and one that it never began is known") {
  claude_stream stream;
  const std::vector<claude_lines::prompt_part> parts{{"hello"}};
  for (const char* id : {"dropped", "repeated", "waiting"})
    CHECK(stream.prompt(id, parts));
  CHECK_FALSE(stream.prompt("waiting", parts));
  std::string frames;
  for (auto [id, state] : {std::pair{"dropped", "cancelled"}, {"repeated", "completed"}, {"unknown", "completed"}})
    frames += json{{"type", "command_lifecycle"}, {"command_uuid", id}, {"state", state}}.dump() + "\n";
  CHECK(test::story_of(stream.read(frames).said) == lines{"prompt REFUSED ", "prompt REFUSED "});
  CHECK(stream.waiting_prompts() == lines{"waiting"});
}

// ---- what is no frame ----

TEST_CASE("an endless line is skipped to its end and said once") {
  world w{1000};
  w.write(std::string(700, 'x'));
  w.write(std::string(700, 'x'));
  w.write(std::string(5000, 'x'));
  w.write("\n");
  w.block("m", text("after"));
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
  CHECK(w.said.size() == claude_stream::notices_max);
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
