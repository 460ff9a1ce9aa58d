// Recordings of Claude Code, played to a driver: cut anywhere, and with the connection to swarmd lost at each frame.
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::json;

namespace {

const char* const scenarios[] = {"always",         "api-error", "background", "busy",         "deny",    "eof",        "hook-denies",
                                 "image",          "interrupt", "killed",     "large-result", "options", "overloaded", "question",
                                 "resume-unknown", "resume",    "steer",      "subagent",     "text",    "tools"};

/// Plays swarmd and the agent. After each loss swarmd says everything once more, for it does not know what has arrived.
class play {
public:
  explicit play(test::slicing cut, std::size_t lose_at = 0, const std::string& resume = {})
    : world({.resume = resume, .generation = 1, .version = "1", .at = {.directory = "/repo", .home = "/home/u"}}), cut_(std::move(cut)) {
    world.lose_at = lose_at;
  }

  void run(const std::vector<json>& recording) {
    world.hello();
    for (const auto& entry : recording) {
      if (entry.contains("from"))
        hear(entry["from"]);
      else if (entry.contains("to"))
        tell(entry["to"]);
      else if (entry.contains("stderr"))
        world.core.agent_complained(entry["stderr"].get<std::string>(), world.now());
      else if (entry.contains("exit"))
        end(entry);
      come_back();
    }
    deliver();
    come_back();
  }

  driver_world world;

private:
  void hear(json frame) {
    if (frame.value("type", "") == "control_response") {
      const auto ours = ours_.find(frame["response"]["request_id"]);
      frame["response"]["request_id"] = ours == ours_.end() ? "another" : ours->second;
    }
    if (frame.value("type", "") == "control_request")
      asked_[frame["request_id"]] = frame["request"];
    heard_ += frame.dump() + "\n";
  }
  void deliver() {
    if (heard_.empty() || world.did(driver::action::kind::start) == starts_)
      return;
    for (const auto& piece : cut_(std::exchange(heard_, {}))) {
      world.stored(world.last_seq);
      if (!world.core.reads_agent())
        come_back();
      world.agent_writes(piece);
    }
  }
  void tell(const json& frame) {
    deliver();
    come_back();
    internal::ToDriver f;
    if (frame["type"] == "control_request")
      return control(frame);
    if (frame["type"] == "user") {
      auto& p = *f.mutable_prompt();
      p.set_id(frame["uuid"]);
      p.set_generation(1);
      const auto& content = frame["message"]["content"];
      p.set_text(content.is_string() ? content.get<std::string>() : content[0]["text"].get<std::string>());
      p.set_last(content.is_string());
      p.set_steer(std::count_if(world.kept.begin(), world.kept.end(), [](const auto& k) { return k.has_turn_started(); }) >
                  std::count_if(world.kept.begin(), world.kept.end(), [](const auto& k) { return k.has_turn_ended(); }));
      if (!content.is_string()) {
        said_.push_back(f);
        world.tell(f);
        p.set_media("\x89PNG\r\n\x1a\n");
        p.set_media_type("image/png");
        p.set_begins(true);
        p.set_last(true);
      }
    } else if (frame["type"] == "control_response" && !answer(frame["response"], f)) {
      return;
    } else if (frame["type"] != "control_response") {
      return;
    }
    said_.push_back(f);
    world.tell(f);
    deliver();
  }
  /// What the driver asks of its agent has names of its own.
  void control(const json& frame) {
    const auto& request = frame["request"];
    const std::string what = request["subtype"], id = frame["request_id"];
    internal::ToDriver f;
    if (what == "interrupt") {
      f.mutable_interrupt()->set_id(id);
    } else if (what.starts_with("set_")) {
      f.mutable_set()->set_id(id);
      f.mutable_set()->set_model(request.value("model", ""));
      f.mutable_set()->set_mode(request.value("mode", ""));
    } else if (what != "initialize") {
      return;
    }
    ours_[id] = "swarm-" + std::to_string(++controls_);
    if (what == "initialize")
      return;
    if (f.has_interrupt()) // a wish that the agent has is no wish any more
      said_.push_back(f);
    world.tell(f);
    deliver();
  }
  bool answer(const json& response, internal::ToDriver& f) {
    const std::string id = response["request_id"];
    const auto& said = response["response"];
    if (asked_[id]["subtype"] == "hook_callback") {
      f.mutable_hook_answer()->set_question_id(id);
      f.mutable_hook_answer()->set_denied(said.contains("hookSpecificOutput"));
      return asked_[id]["input"]["hook_event_name"] == "PreToolUse";
    }
    auto& a = *f.mutable_answer();
    a.set_request_id(id);
    a.set_generation(1);
    a.set_digest(test::digest_of(world.kept, id));
    a.set_option(said["behavior"] == "deny" ? "deny" : said.contains("updatedPermissions") ? "always" : "allow");
    if (said.contains("updatedInput") && said["updatedInput"].contains("answers"))
      for (const auto& [question, choice] : said["updatedInput"]["answers"].items())
        (*a.mutable_answers())[question] = choice;
    return true;
  }
  void end(const json& entry) {
    deliver();
    world.agent_ends(entry["exit"].is_number() ? entry["exit"].get<int>() : 0, entry["exit"].is_number() ? 0 : 9);
    ++starts_;
    controls_ = 0;
  }
  void come_back() {
    if (world.connected)
      return;
    world.hello(world.last_seq);
    for (const auto& f : said_)
      world.tell(f);
  }

  test::slicing cut_;
  std::string heard_;
  std::size_t starts_ = 0; // that have ended
  std::map<std::string, json> asked_;
  std::map<std::string, std::string> ours_; // recorded id of a request of the driver's to ours
  int controls_ = 0;                        // of this life of the agent
  std::vector<internal::ToDriver> said_;
};

/// What is final, in its order.
std::vector<std::string> final_of(const driver_world& w) {
  std::vector<internal::FromDriver> out;
  for (const auto& f : w.kept)
    if (f.has_item() || f.has_request() || f.has_withdrawn() || f.has_turn_started() || f.has_turn_ended())
      out.push_back(f);
  return test::story_of(out);
}

std::vector<std::string> texts_of_input(const driver_world& w) {
  std::vector<std::string> out;
  for (std::size_t at = 0, end = 0; (end = w.input.find('\n', at)) != w.input.npos; at = end + 1)
    out.push_back(w.input.substr(at, end - at));
  return out;
}

void holds(const driver_world& w) {
  std::set<std::string> open;
  for (const auto& f : w.kept) {
    if (f.has_turn_started())
      CHECK(open.insert(f.turn_started().id()).second);
    if (f.has_turn_ended())
      CHECK(open.erase(f.turn_ended().id()) == 1);
  }
  CHECK(open.empty());
  auto lines = texts_of_input(w);
  std::erase_if(lines, [](const auto& line) { return line.find("\"initialize\"") != line.npos; }); // the first of each life of the agent
  CHECK(std::set<std::string>(lines.begin(), lines.end()).size() == lines.size());                 // nothing is delivered twice
}

} // namespace

TEST_CASE("a recorded interrupt ends the turn and refuses the answer that comes too late, and the next prompt is a turn") {
  play p{test::whole};
  p.run(test::claude_recording("interrupt"));
  const auto& w = p.world;
  std::vector<internal::TurnEnded::Reason> reasons;
  for (const auto& f : w.kept)
    if (f.has_turn_ended())
      reasons.push_back(f.turn_ended().reason());
  CHECK(reasons == std::vector{internal::TurnEnded::INTERRUPTED, internal::TurnEnded::INTERRUPTED, internal::TurnEnded::FINISHED});
  CHECK(w.answers().size() == 2); // the denial that the driver has given itself, and the late one
  for (const auto& a : w.answers())
    CHECK_FALSE(a.delivered());
  CHECK(w.lines_with("\"behavior\":\"allow\"") == 0);
}

TEST_CASE("recorded wishes for a mode and a model are answered, and the one that the agent refuses says why") {
  play p{test::byte_by_byte}; // nothing is wished before the agent has introduced itself
  p.run(test::claude_recording("options"));
  std::vector<std::string> out;
  for (const auto& f : p.world.kept)
    if (f.has_option_state())
      out.push_back(f.option_state().id() + (f.option_state().text().empty() ? " set" : " refused"));
  CAPTURE(json(out).dump());
  CHECK(out == std::vector<std::string>{"mode-1 set", "mode-2 refused", "model-1 set"});
}

TEST_CASE("an agent that has forgotten its session begins a new one with the prompt and a notice, and no turn fails") {
  play p{test::whole, 0, "00000000-0000-4000-8000-000000000000"};
  p.run(test::claude_recording("resume-unknown"));
  auto& w = p.world;
  CHECK(w.notices("forgotten").size() == 1);
  CHECK(
    std::none_of(w.kept.begin(), w.kept.end(), [](const auto& f) { return f.has_turn_started() || f.has_prompt_state() || f.has_agent_exited(); }));
  REQUIRE(w.did(driver::action::kind::start) == 2);
  const auto& words = w.actions.back().arguments;
  CHECK(std::find(words.begin(), words.end(), "--resume") == words.end());
  w.introduce();
  CHECK(w.lines_with("nobody") == 1);
}

TEST_CASE("a program that says in place of introducing itself why it cannot begin has its prompt refused with these words") {
  play p{test::whole};
  p.run(test::claude_recording("resume-unknown"));
  const auto& w = p.world;
  std::string text;
  for (const auto& f : w.kept)
    if (f.has_prompt_state())
      text = internal::PromptState::State_Name(f.prompt_state().state()) + ": " + f.prompt_state().text();
  CHECK(text == "REFUSED: The agent ended before it took a prompt: No conversation found with session ID: 00000000-0000-4000-8000-000000000000");
  CHECK(w.did(driver::action::kind::start) == 1);
}

TEST_CASE("what a session has cost is told as the agent sums it, also by the agent that resumes it, and not of a turn that was killed") {
  play p{test::whole};
  p.run(test::claude_recording("resume"));
  std::vector<double> costs;
  for (const auto& f : p.world.kept)
    if (f.has_turn_ended())
      costs.push_back(f.turn_ended().usage().cost_known() ? f.turn_ended().usage().session_cost_usd() : -1);
  REQUIRE(costs.size() == 2);
  CHECK(costs[0] == doctest::Approx(0.0008));
  CHECK(costs[1] == doctest::Approx(0.0016));
  play killed{test::whole};
  killed.run(test::claude_recording("killed"));
  for (const auto& f : killed.world.kept)
    if (f.has_turn_ended())
      CHECK_FALSE(f.turn_ended().usage().cost_known());
}

TEST_CASE("a driver tells the same of a recording however its bytes are cut") {
  for (const auto* scenario : scenarios) {
    CAPTURE(scenario);
    const auto recording = test::claude_recording(scenario);
    play at_once{test::whole};
    at_once.run(recording);
    holds(at_once.world);
    CHECK(final_of(at_once.world).empty() == (std::string{scenario} == "resume-unknown")); // which begins nothing
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto cut = seed == 0 ? test::slicing{test::byte_by_byte} : test::random_slices(seed, 200);
      play pieces{cut};
      pieces.run(recording);
      CHECK(final_of(pieces.world) == final_of(at_once.world));
      CHECK(pieces.world.input == at_once.world.input);
    }
  }
}

TEST_CASE("a connection that is lost at any frame costs no final item and doubles none and no prompt or decision is delivered twice") {
  for (const auto* scenario : scenarios) {
    CAPTURE(scenario);
    const auto recording = test::claude_recording(scenario);
    const test::slicing cut = test::whole;
    play calm{cut};
    calm.run(recording);
    for (std::size_t at = 1; at <= calm.world.all.size(); ++at) {
      CAPTURE(at);
      play lossy{cut, at};
      lossy.run(recording);
      CHECK(final_of(lossy.world) == final_of(calm.world));
      CHECK(lossy.world.input == calm.world.input);
      holds(lossy.world);
    }
  }
}
