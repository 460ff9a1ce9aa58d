#include "actors/agents/claude_stream.hpp"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"
#include "tests/support/claude_recording.hpp"

using namespace swarm;
using namespace swarm::agents;
using json = nlohmann::json;
using lines = std::vector<std::string>;

namespace {

const char* const scenarios[] = {"always", "api-error",      "background", "busy",         "deny",    "eof",        "hook-denies",
                                 "image",  "interrupt",      "killed",     "large-result", "options", "overloaded", "question",
                                 "resume", "resume-unknown", "steer",      "subagent",     "text",    "tools"};

test::claude_replay replayed(const std::string& scenario) { return test::replay_claude(test::claude_recording(scenario)); }

/// A line each, so that a test that fails shows both.
std::string told(const lines& all) {
  std::string out;
  for (const auto& l : all)
    out += l + "\n";
  return out;
}
std::string story(const std::vector<internal::FromDriver>& said) { return told(test::story_of(said)); }
std::string story(const std::string& scenario) { return story(replayed(scenario).said); }

template <class Has>
std::vector<internal::FromDriver> those(const std::vector<internal::FromDriver>& said, Has has) {
  std::vector<internal::FromDriver> out;
  std::copy_if(said.begin(), said.end(), std::back_inserter(out), has);
  return out;
}
auto requests_in(const std::vector<internal::FromDriver>& said) {
  return those(said, [](const auto& f) { return f.has_request(); });
}
auto ends_in(const std::vector<internal::FromDriver>& said) {
  return those(said, [](const auto& f) { return f.has_turn_ended(); });
}

std::string dump(const test::claude_replay& r) {
  std::string out = r.to_agent;
  for (const auto& f : r.said)
    out += f.ShortDebugString() + "\n";
  for (const auto& l : r.lines)
    out += l;
  for (const auto& l : r.refusals)
    out += l + "\n";
  return out;
}

} // namespace

TEST_CASE("recorded: a stream of Claude Code says the same wherever it is cut") {
  for (const std::string name : scenarios) {
    CAPTURE(name);
    const auto recording = test::claude_recording(name);
    const auto expected = dump(test::replay_claude(recording));
    CHECK(dump(test::replay_claude(recording, test::byte_by_byte)) == expected);
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      CHECK(dump(test::replay_claude(recording, test::random_slices(seed, seed == 1 ? 7 : 4000))) == expected);
  }
}

TEST_CASE("recorded: the lines for Claude Code are those that it understood") {
  for (const std::string name : scenarios) {
    CAPTURE(name);
    const auto r = replayed(name);
    for (const auto& line : r.differing)
      CHECK_MESSAGE(false, line.dump());
    // an answer that came too late, and a prompt for an agent that has not introduced itself
    CHECK(r.refusals.size() == (name == "interrupt" || name == "resume-unknown" ? 1 : 0));
    for (const auto& line : r.lines)
      CHECK(line.find('\n') == line.size() - 1);
  }
}

TEST_CASE("recorded: every turn that begins ends once") {
  for (const std::string name : scenarios) {
    CAPTURE(name);
    std::string open;
    for (const auto& f : replayed(name).said) {
      if (f.has_turn_started()) {
        CHECK(open.empty());
        open = f.turn_started().id();
      } else if (f.has_turn_ended()) {
        CHECK(f.turn_ended().id() == open);
        open.clear();
      }
    }
    CHECK(open.empty());
  }
}

TEST_CASE("recorded: deltas of a text are its beginning and the text comes again as one item") {
  const auto said = replayed("text").said;
  std::string streamed, item_id;
  std::size_t deltas = 0;
  for (const auto& f : said)
    if (f.has_delta()) {
      ++deltas;
      CHECK(f.delta().offset() == (f.delta().item_id() == item_id ? streamed.size() : 0));
      if (f.delta().item_id() != std::exchange(item_id, f.delta().item_id()))
        streamed.clear();
      streamed += f.delta().text();
    } else if (f.has_item()) {
      CHECK(f.item().body() == streamed);
      CHECK(f.item().id() == item_id);
    }
  CHECK(deltas >= 12);
  CHECK(story(said) == told({"turn 1 begins", "prompt CONSUMED 1", "says: Grüße — these words come slowly, ...", "turn 1 FINISHED", "turn 2 begins",
                             "prompt CONSUMED 2", "says: And a second turn.", "turn 2 FINISHED"}));
}

TEST_CASE("recorded: thoughts and calls and results come in the order in which they happened") {
  CHECK(story("tools") == told({"turn 1 begins", "prompt CONSUMED 1", "thinks: Thinking about it.", "calls Write",
                                "asks (FILE) Write: /tmp/agent/repo/a.txt", "result of toolu_fake1: File created successfully at: /tmp/ag...",
                                "thinks: Thinking about it.", "calls Bash", "result of toolu_fake3: hello", "thinks: Thinking about it.",
                                "calls Read", "result of toolu_fake5 failed: File does not exist. Note: your curre...", "thinks: Thinking about it.",
                                "says: Done after 3 calls.", "turn 1 FINISHED"}));
}

TEST_CASE("recorded: a request shows what is decided on and whose call it is") {
  const auto asked = requests_in(replayed("tools").said);
  REQUIRE(asked.size() == 1);
  const auto& r = asked.front().request();
  CHECK(json::parse(r.body()) == json{{"file_path", "/tmp/agent/repo/a.txt"}, {"content", "hello\n"}});
  CHECK(r.call() == "toolu_fake1");
  CHECK(r.tool() == "Write");
  CHECK(r.last());
  REQUIRE(r.writes_size() == 1);
  CHECK(r.writes(0).name() == "/tmp/agent/repo/a.txt");
}

TEST_CASE("recorded: after a denial the agent goes on or its turn ends when that was asked for") {
  CHECK(story("deny") == told({"turn 1 begins", "prompt CONSUMED 1", "calls Write", "asks (FILE) Write: /tmp/agent/repo/denied.txt",
                               "result of toolu_fake1 failed: not this file", "says: Done after 1 calls.", "turn 1 FINISHED", "turn 2 begins",
                               "prompt CONSUMED 2", "calls Write", "asks (FILE) Write: /tmp/agent/repo/stopped.txt",
                               "result of toolu_fake4 failed: The user doesn't want to proceed with...", "turn 2 INTERRUPTED"}));
}

TEST_CASE("recorded: with always the same command is not asked about again and a file is") {
  CHECK(story("always") == told({"turn 1 begins", "prompt CONSUMED 1", "calls Bash", "asks (COMMAND) Bash: node -e 1 [always]",
                                 "result of toolu_fake1: (Bash completed with no output)", "calls Bash",
                                 "result of toolu_fake3: (Bash completed with no output)", "calls Write", "asks (FILE) Write: /tmp/agent/repo/b.txt",
                                 "result of toolu_fake5: File created successfully at: /tmp/ag...", "says: Done after 3 calls.", "turn 1 FINISHED"}));
}

TEST_CASE("recorded: a question has its parts with their options") {
  const auto said = replayed("question").said;
  const auto asked = requests_in(said);
  REQUIRE(asked.size() == 1);
  const auto& r = asked.front().request();
  CHECK(r.kind() == internal::Request::QUESTION);
  REQUIRE(r.choices_size() == 2);
  CHECK(lines{r.choices(0).options().begin(), r.choices(0).options().end()} == lines{"Red", "Blue"});
  CHECK_FALSE(r.choices(0).many());
  CHECK(r.choices(1).question() == "Which sizes?");
  CHECK(r.choices(1).many());
  CHECK(test::story_of(said)[4] == "result of toolu_fake1: Your questions have been answered: \"W...");
}

TEST_CASE("recorded: an interrupt ends the turn and withdraws what was asked and the next prompt goes on") {
  CHECK(story("interrupt") == told({"turn 1 begins", "prompt CONSUMED 1", "says cut off: These words are cut ", "turn 1 INTERRUPTED", "turn 2 begins",
                                    "prompt CONSUMED 2", "calls Write", "asks (FILE) Write: /tmp/agent/repo/open.txt", "asks no more: interrupted",
                                    "result of toolu_fake2 failed: The user doesn't want to proceed with...", "turn 2 INTERRUPTED", "turn 3 begins",
                                    "prompt CONSUMED 3", "says: It goes on.", "turn 3 FINISHED"}));
}

TEST_CASE("recorded: prompts that waited for the same turn are both part of it") {
  const auto said = replayed("busy").said;
  CHECK(story(said) == told({"turn 1 begins", "prompt CONSUMED 1", "says: The first prompt takes a while...", "turn 1 FINISHED", "turn 2 begins",
                             "prompt CONSUMED 2", "prompt CONSUMED 2", "says: second", "turn 2 FINISHED"}));
  CHECK(story("steer") == told({"turn 1 begins", "prompt CONSUMED 1", "calls Write", "asks (FILE) Write: /tmp/agent/repo/steer.txt",
                                "result of toolu_fake1: File created successfully at: /tmp/ag...", "prompt CONSUMED 1", "calls Bash",
                                "result of toolu_fake3: hello", "says: steered", "turn 1 FINISHED"}));
}

TEST_CASE("recorded: a resumed session keeps its id and its cost is the sum that the program says") {
  const auto said = replayed("resume").said;
  const auto ends = ends_in(said);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].turn_ended().usage().session_cost_usd() == doctest::Approx(0.0008));
  CHECK(ends[1].turn_ended().usage().session_cost_usd() == doctest::Approx(0.0016));
  CHECK(ends[1].turn_ended().usage().input_tokens() == 100);
  CHECK(ends[1].turn_ended().usage().context_tokens() == 120);
  CHECK(ends[1].turn_ended().usage().context_window() == 1'000'000);
  CHECK(ends[1].turn_ended().last_text() == "second life");
  std::set<std::string> sessions;
  for (const auto& f : said)
    if (f.has_agent_started())
      sessions.insert(f.agent_started().native_session());
  sessions.erase("");
  CHECK(sessions.size() == 1);
}

TEST_CASE("recorded: a failure ends the turn with what the program says about it and no cost is made up") {
  CHECK(story("resume-unknown").empty()); // it has begun nothing
  CHECK(story("api-error") ==
        told({"turn 1 begins", "prompt CONSUMED 1", "says: API Error: 400 fake error 400", "turn 1 FAILED: API Error: 400 fake error 400"}));
  CHECK(story("overloaded") == told({"turn 1 begins", "prompt CONSUMED 1", "notice retry", "says: API Error: 529 fake error 529. This i...",
                                     "turn 1 FAILED: API Error: 529 fake error 529. This i..."}));
}

TEST_CASE("recorded: the agent gives up what it asked when its input ends and everything ends when it is killed") {
  CHECK(story("eof") == told({"turn 1 begins", "prompt CONSUMED 1", "calls Write", "asks (FILE) Write: /tmp/agent/repo/eof.txt",
                              "asks no more: the agent stopped waiting", "result of toolu_fake1 failed: Tool permission request failed: Abort...",
                              "says: Done after 1 calls.", "turn 1 FINISHED"}));
  CHECK(story("killed") == told({"turn 1 begins", "prompt CONSUMED 1", "calls Write", "asks (FILE) Write: /tmp/agent/repo/killed.txt",
                                 "asks no more: the agent has exited", "turn 1 EXITED: The agent's process ended in the midd..."}));
}

TEST_CASE("recorded: an image that a tool has read is an item of its own") {
  const auto images = those(replayed("image").said, [](const auto& f) { return f.has_item() && f.item().media_type() == "image/png"; });
  REQUIRE(images.size() == 1);
  CHECK(images.front().item().body().starts_with("\x89PNG"));
  CHECK(images.front().item().of() == "toolu_fake4");
}

TEST_CASE("recorded: the agent cuts a result of 5 MB itself") {
  const auto results =
    those(replayed("large-result").said, [](const auto& f) { return f.has_item() && f.item().kind() == internal::ITEM_TOOL_RESULT; });
  REQUIRE(results.size() == 1);
  CHECK(results.front().item().body().starts_with("<persisted-output>\nOutput too large (5MB)."));
}

TEST_CASE("recorded: a task beside the turns is counted and its end begins a turn without a prompt") {
  CHECK(story("background") ==
        told({"turn 1 begins", "prompt CONSUMED 1", "calls Bash", "asks (COMMAND) Bash: sleep 3; touch late.txt", "tasks beside: 1",
              "result of toolu_fake1: Command running in background with ID...", "says: Done after 1 calls.", "turn 1 FINISHED", "tasks beside: 0",
              "turn 2 begins by itself", "says: This is the fake model.", "turn 2 FINISHED"}));
}

TEST_CASE("recorded: what a subagent hears is told as part of the call that began it") {
  const auto said = replayed("subagent").said;
  CHECK(test::story_of(said)[3] == "  subagent hears: FAKE_SAY \"the part is done\"");
  const auto nested = those(said, [](const auto& f) { return f.has_item() && f.item().nested(); });
  REQUIRE(nested.size() == 1);
  CHECK(nested.front().item().of() == "toolu_fake1");
}

TEST_CASE("recorded: what the driver names itself is not repeated in a second life of the program") {
  auto lives = test::claude_recording("subagent");
  const auto second = lives;
  lives.insert(lives.end(), second.begin(), second.end());
  const auto own = those(test::replay_claude(lives).said, [](const auto& f) { return f.has_item() && f.item().id().starts_with("item-"); });
  REQUIRE(own.size() == 2);
  CHECK(own[0].item().id() != own[1].item().id());
}

TEST_CASE("recorded: a hook that denies keeps the tool from running and after a tool nobody is waited for") {
  const auto r = replayed("hook-denies");
  CHECK(story(r.said) ==
        told({"turn 1 begins", "prompt CONSUMED 1", "calls Write", "result of toolu_fake1 failed: PreToolUse:Write hook error: locked.t...",
              "calls Write", "asks (FILE) Write: /tmp/agent/repo/free.txt", "result of toolu_fake3: File created successfully at: /tmp/ag...",
              "says: Done after 2 calls.", "turn 1 FINISHED"}));
  const auto hooks = those(r.said, [](const auto& f) { return f.has_hook_question(); });
  REQUIRE(hooks.size() == 3);
  CHECK(hooks[0].hook_question().tool() == "Write");
  CHECK(hooks[0].hook_question().directory() == "/tmp/agent/repo");
  CHECK(json::parse(hooks[0].hook_question().input())["file_path"] == "/tmp/agent/repo/locked.txt");
  CHECK_FALSE(hooks[0].hook_question().after());
  CHECK(hooks[2].hook_question().after());
  CHECK(std::count(r.to_agent.begin(), r.to_agent.end(), '\n') == 1);
}

TEST_CASE("recorded: model and mode are set or it is said why not") {
  const auto said = replayed("options").said;
  const auto all = test::story_of(said);
  REQUIRE(all.size() > 3);
  CHECK(lines{all.begin(), all.begin() + 3} ==
        lines{"option mode-1: set", "option mode-2: Cannot set permission mode to bypassP...", "option model-1: set"});
  const auto states = those(said, [](const auto& f) { return f.has_option_state(); });
  CHECK(states.back().option_state().model() == "claude-fake-2");
  CHECK(states.back().option_state().mode() == "acceptEdits");
}

TEST_CASE("recorded: the agent says what it is before its first turn and again when it knows its session") {
  const auto starts = those(replayed("text").said, [](const auto& f) { return f.has_agent_started(); });
  REQUIRE(starts.size() == 2);
  const auto& first = starts[0].agent_started();
  CHECK(first.version() == "2.1.330");
  CHECK(first.native_session().empty());
  CHECK(first.models_size() > 1);
  CHECK(first.commands_size() > 10);
  CHECK(lines{first.modes().begin(), first.modes().end()} == lines{"default", "acceptEdits", "plan"});
  CHECK(is_uuid(starts[1].agent_started().native_session()));
  CHECK(starts[1].agent_started().model() == "claude-opus-5-5");
}
