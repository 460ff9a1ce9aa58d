// What Claude Code asks, and the answers.
#include <algorithm>

#include <doctest/doctest.h>

#include "actors/base/text.hpp"
#include "tests/support/claude_world.hpp"

using namespace swarm;
using namespace swarm::agents;
using world = test::claude_world;
using json = nlohmann::json;
using lines = std::vector<std::string>;
using test::body_of, test::call_block;

namespace {

const json rules =
  json::parse(R"([{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"x"}],"behavior":"allow","destination":"localSettings"},
                                   {"type":"setMode","mode":"acceptEdits","destination":"session"}])");

internal::SetOption option(const std::string& id, const std::string& model, const std::string& mode) {
  internal::SetOption out;
  out.set_id(id);
  out.set_model(model);
  out.set_mode(mode);
  return out;
}

/// What an answer gives the program.
json given(const claude_line& line) {
  REQUIRE(line);
  return json::parse(*line)["response"]["response"];
}

} // namespace

TEST_CASE("a request is answered once") {
  world w;
  w.ask("r", {{"file_path", "a"}});
  CHECK(given(w.answer("r", "allow"))["behavior"] == "allow");
  CHECK_FALSE(w.answer("r", "allow"));
  CHECK_FALSE(w.answer("r", "deny"));
  CHECK_FALSE(w.answer("other", "allow"));
  CHECK(w.stream.open_requests().empty());
}

TEST_CASE("an answer to other bytes than those that the agent asks for now leaves the request open") {
  world w;
  w.ask("r", {{"command", "ls"}}, "Bash");
  const auto to_first = w.to("r", "allow");
  w.ask("r", {{"command", "rm -rf ."}}, "Bash");
  CHECK_FALSE(w.stream.answer(to_first));
  auto to_second = w.to("r/2", "deny");
  to_second.clear_digest();
  CHECK_FALSE(w.stream.answer(to_second));
  CHECK(w.stream.open_requests() == lines{"r/2"});
  CHECK(given(w.answer("r/2", "allow"))["updatedInput"]["command"] == "rm -rf .");
}

TEST_CASE("an id that the agent uses again is another request with a name of its own, also in its next life") {
  world w;
  w.ask("r", {{"command", "ls"}}, "Bash");
  CHECK(w.answer("r", "deny"));
  auto again = w.ask("r", {{"command", "ls"}}, "Bash").said;
  REQUIRE(again.size() == 1);
  CHECK(again[0].request().id() == "r/2");
  CHECK(w.ask("r/2", {{"command", "ls"}}, "Bash").said[0].request().id() == "r/2/2");
  const auto line = w.answer("r/2", "allow");
  REQUIRE(line);
  CHECK(json::parse(*line)["response"]["request_id"] == "r");
  w.ask("r", {{"command", "ls"}}, "Bash");
  auto stopped = w.read({{"type", "control_cancel_request"}, {"request_id", "r"}}).said;
  REQUIRE(stopped.size() == 1);
  CHECK(stopped[0].withdrawn().request_id() == "r/3");
  w.stream.end();
  claude_stream next{w.stream.turns(), limits::agent_line_bytes_max, w.stream.take_names()};
  test::introduce(next);
  auto said =
    next.read(json{{"type", "control_request"}, {"request_id", "r"}, {"request", {{"subtype", "can_use_tool"}, {"tool_name", "X"}}}}.dump() + "\n")
      .said;
  REQUIRE(said.size() == 1);
  CHECK(said[0].request().id() == "r/4");
}

TEST_CASE("a choice that is the word deny is that choice, unless a reason says that nobody answers") {
  world w;
  const json questions{
    {"questions", json::array({{{"question", "Policy?"}, {"options", json::array({{{"label", "allow"}}, {{"label", "deny"}}})}}})}};
  w.ask("a", questions, "AskUserQuestion");
  CHECK(given(w.answer("a", "deny"))["updatedInput"]["answers"] == json{{"Policy?", "deny"}});
  w.ask("b", questions, "AskUserQuestion");
  auto no = w.to("b", "deny");
  no.set_text("Nobody has answered");
  CHECK(given(w.stream.answer(no))["behavior"] == "deny");
}

TEST_CASE("a long choice that came as its begin reaches the agent whole") {
  world w;
  const std::string common(64, 'x'), first = common + " first", second = std::string(70, 'y') + " second";
  const json questions{{"questions", json::array({{{"question", "Which?"}, {"options", json::array({{{"label", first}}, {{"label", second}}})}}})}};
  w.ask("a", questions, "AskUserQuestion");
  CHECK(given(w.answer("a", common))["updatedInput"]["answers"] == json{{"Which?", first}});
  w.ask("b", questions, "AskUserQuestion");
  CHECK(given(w.answer("b", second))["updatedInput"]["answers"] == json{{"Which?", second}});
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

TEST_CASE("always does not keep a rule for an input that the person has changed") {
  world w;
  w.ask("r", {{"command", "x"}}, "Bash", {{"permission_suggestions", rules}});
  CHECK_FALSE(w.answer("r", "always", R"({"command":"y"})"));
  auto once = given(w.answer("r", "allow", R"({"command":"y"})"));
  CHECK(once["updatedInput"]["command"] == "y");
  CHECK_FALSE(once.contains("updatedPermissions"));
}

TEST_CASE("always is offered for rules only that allow the command that is shown and nothing else") {
  using rules_of = std::vector<json>;
  auto offered = [](const std::string& tool, const std::string& command, const rules_of& suggested) {
    world w;
    const json suggestion{{"type", "addRules"}, {"rules", suggested}, {"behavior", "allow"}, {"destination", "localSettings"}};
    w.ask("r", {{"command", command}}, tool, {{"permission_suggestions", json::array({suggestion})}});
    const bool is_offered = w.said.back().request().can_be_always();
    CHECK(is_offered == static_cast<bool>(w.answer("r", "always")));
    return is_offered;
  };
  const auto rule = [](const std::string& tool, const std::string& content) { return json{{"toolName", tool}, {"ruleContent", content}}; };
  CHECK(offered("Bash", "npm test", rules_of{rule("Bash", "npm test")}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{rule("Bash", "npm:*")}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{rule("Bash", "npm test:*")}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{json{{"toolName", "Bash"}}}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{rule("Write", "npm test")}));
  CHECK_FALSE(offered("Write", "npm test", rules_of{rule("Write", "npm test")}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{rule("Bash", "npm test"), rule("Bash", "npm:*")}));
  CHECK_FALSE(offered("Bash", "npm test", rules_of{}));
  for (const std::string compound : {"ls *", "npm:*", "a; b", "a && b", "a | b", "a & b", "a > b", "a $(b)", "a `b`", "a $B", "a\nb", "(a)"})
    CHECK_FALSE(offered("Bash", compound, rules_of{rule("Bash", compound)}));
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
  auto a = w.to("q", "allow");
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

TEST_CASE("allow is no choice of a question that has no such choice") {
  world w;
  w.ask("q", {{"questions", {{{"question", "Which?"}, {"options", {{{"label", "A"}}}}}}}}, "AskUserQuestion");
  CHECK_FALSE(w.answer("q", "allow"));
  CHECK_FALSE(w.answer("q", "always"));
  CHECK(given(w.answer("q", "A"))["updatedInput"]["answers"] == json{{"Which?", "A"}});
  w.ask("p", {{"questions", {{{"question", "May it?"}, {"options", {{{"label", "allow"}}}}}}}}, "AskUserQuestion");
  CHECK(given(w.answer("p", "allow"))["updatedInput"]["answers"] == json{{"May it?", "allow"}});
}

TEST_CASE("a question is answered by the texts that it shows however long or alike its parts are") {
  world w;
  const std::string begin(2000, 'w');
  json parts = json::array();
  for (const auto& text : {begin + " first", begin + " second", std::string{"Same?"}, std::string{"Same?"}})
    parts.push_back({{"question", text}, {"options", json::array()}});
  auto said = w.ask("q", {{"questions", parts}}, "AskUserQuestion").said;
  REQUIRE(said.size() == 1);
  const auto& shown = said[0].request().choices();
  REQUIRE(shown.size() == 4);
  auto a = w.to("q", "allow");
  for (int i = 0; i < 3; ++i) {
    CHECK(shown[i].question().size() <= 1024);
    (*a.mutable_answers())[shown[i].question()] = std::to_string(i);
  }
  CHECK(given(w.stream.answer(a))["updatedInput"]["answers"] == json{{begin + " first", "0"}, {begin + " second", "1"}, {"Same?", "2"}});
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
  w.block("m", call_block("call of mine", "Write"));
  w.ask("mine", json::object());
  w.ask("beside", json::object());
  w.read({{"type", "system"}, {"subtype", "background_tasks_changed"}, {"tasks", json::array({json::object()})}});
  w.ends(1);
  CHECK(w.stream.open_requests() == lines{"beside"});
}

TEST_CASE("the end of a turn denies what is asked when no task goes on beside it") {
  world w;
  w.ask("of no call", json::object());
  const auto over = w.ends(1);
  CHECK(w.stream.open_requests().empty());
  CHECK(given(claude_line{over.to_agent})["behavior"] == "deny");
  CHECK_FALSE(w.answer("of no call", "allow"));
}

TEST_CASE("an id that comes again while it is open withdraws the request before it, also an empty one") {
  world w;
  for (const std::string id : {"", "r"}) {
    w.said.clear();
    w.ask(id, {{"file_path", "/first"}});
    w.ask(id, {{"file_path", "/second"}});
    CHECK(w.story() == lines{"asks (FILE) Write: /first", "asks no more: the agent asks something else under t...", "asks (FILE) Write: /second"});
    CHECK(given(w.answer(id.empty() ? "request/2" : "r/2", "allow"))["updatedInput"]["file_path"] == "/second");
  }
}

TEST_CASE("an id that is longer than any of the agent's own is refused and not kept") {
  world w;
  const std::string id(limits::agent_request_id_bytes_max + 1, 'x');
  auto o = w.ask(id, json::object());
  CHECK(o.said.empty());
  CHECK(json::parse(o.to_agent)["response"]["subtype"] == "error");
  CHECK(json::parse(o.to_agent)["response"]["request_id"] == id);
  CHECK(w.stream.open_requests().empty());
}

TEST_CASE("an id of any content comes back to the agent as it was") {
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
  for (std::size_t i = 0; i < limits::agent_requests_open_max; ++i)
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
  CHECK(said.back().request().writes(0).name() == "/repo/rel.txt");
}

TEST_CASE("an interrupt withdraws first and its lines free whoever waits") {
  world w;
  w.ask("r", json::object());
  auto o = w.stream.interrupt();
  CHECK(test::story_of(o.said) == lines{"asks no more: interrupted"});
  CHECK(o.to_agent.find("\"interrupt\"") < o.to_agent.find("\"deny\""));
  CHECK_FALSE(w.answer("r", "allow"));
}

TEST_CASE("an interrupt reaches the agent however much it has not answered") {
  world w;
  for (std::size_t i = 0; i < limits::agent_wishes_waiting_max; ++i)
    CHECK_FALSE(w.stream.set(option(std::to_string(i), "m", "plan")).to_agent.empty());
  CHECK(test::story_of(w.stream.set(option("more", "m", "")).said) == lines{"option more: Too many options wait for the agent"});
  for (int i = 0; i < 1000; ++i)
    CHECK(json::parse(w.stream.interrupt().to_agent)["request"] == json{{"subtype", "interrupt"}});
}

TEST_CASE("an interrupt drops the prompts that the agent has not begun and each of them is refused once") {
  world w;
  CHECK(w.stream.prompt("first", {}));
  CHECK(w.stream.prompt("second", {}));
  const auto asked = json::parse(w.stream.interrupt().to_agent);
  CHECK(asked["request"]["cancel_queued"] == true);
  const json answer{{"subtype", "success"}, {"request_id", asked["request_id"]}, {"response", {{"cancelled", {"other", "first"}}}}};
  CHECK(test::story_of(w.read({{"type", "control_response"}, {"response", answer}}).said) == lines{"prompt REFUSED "});
  CHECK(w.read({{"type", "control_response"}, {"response", answer}}).said.empty());
  CHECK(w.read({{"type", "command_lifecycle"}, {"command_uuid", "first"}, {"state", "cancelled"}}).said.empty());
  CHECK(w.stream.waiting_prompts() == lines{"second"});
}

TEST_CASE("an option that is asked for again before its answer changes nothing") {
  world w;
  auto id_of = [](const claude_output& o) { return json::parse(o.to_agent)["request_id"]; };
  const auto asked = id_of(w.stream.set(option("o", "m2", "")));
  auto again = w.stream.set(option("o", "m2", ""));
  CHECK(again.to_agent.empty());
  CHECK(again.said.empty());
  const json answer{{"subtype", "success"}, {"request_id", asked}, {"response", {{"model", "m2"}}}};
  CHECK(test::story_of(w.read({{"type", "control_response"}, {"response", answer}}).said) == lines{"option o: set"});
}

TEST_CASE("a request that a driver does not know is refused at once") {
  world w;
  auto o = w.read({{"type", "control_request"}, {"request_id", "e"}, {"request", {{"subtype", "elicitation"}}}});
  CHECK(json::parse(o.to_agent)["response"]["subtype"] == "error");
  CHECK(json::parse(o.to_agent)["response"]["request_id"] == "e");
}

TEST_CASE("the program asks before every tool whether it may run, also before one that is not known") {
  claude_stream stream;
  const auto asked = json::parse(stream.initialize())["request"]["hooks"]["PreToolUse"];
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]["matcher"] == ".*");
  CHECK(asked[0]["onFailure"] == "block");
}

TEST_CASE("a hook is answered once and of a long input only the files that it names are shown, and nothing of a shell command") {
  world w;
  auto hook = [&](const std::string& id, const std::string& content, const std::string& tool = "Write", const std::string& file = {}) {
    json input{{"hook_event_name", "PreToolUse"}, {"tool_name", tool}, {"tool_input", {{"content", content}}}};
    if (!file.empty())
      input["tool_input"]["file_path"] = file;
    return w.read({{"type", "control_request"}, {"request_id", id}, {"request", {{"subtype", "hook_callback"}, {"input", input}}}}).said;
  };
  CHECK_FALSE(hook("h", "x")[0].hook_question().too_long());
  auto long_one = hook("l", std::string(claude_stream::hook_bytes_max, 'x'));
  CHECK(long_one[0].hook_question().too_long());
  CHECK(long_one[0].hook_question().input().empty());
  const std::string content(claude_stream::hook_bytes_max, 'x');
  auto with_file = hook("f", content, "Write", "/repo/\"x\"")[0].hook_question();
  CHECK_FALSE(with_file.too_long());
  CHECK(json::parse(with_file.input()) == json{{"file_path", "/repo/\"x\""}});
  for (const auto* tool : {"Bash", "Monitor", "mcp__x__shell"})
    CHECK(hook(tool, content, tool, "/repo/x")[0].hook_question().too_long());
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
