// Recordings of Claude Code, played to a driver: cut anywhere, and with the connection to swarmd lost at each frame.
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "tests/unit/services/driver/driver_world.hpp"

using namespace swarm;
using test::driver_world;
using test::json;

namespace {

// Without requests of the driver's own: their ids are not the recorded ones.
const char* const scenarios[] = {"always",   "background", "deny",  "hook-denies", "killed", "large-result",
                                 "question", "resume",     "steer", "subagent",    "text",   "tools"};

/// Plays swarmd and the agent. After each loss swarmd says everything once more, for it does not know what has arrived.
class play {
public:
  explicit play(test::slicing cut, std::size_t lose_at = 0) : cut_(std::move(cut)) { world.lose_at = lose_at; }

  void run(const std::vector<json>& recording) {
    world.hello();
    for (const auto& entry : recording) {
      if (entry.contains("from"))
        hear(entry["from"]);
      else if (entry.contains("to"))
        tell(entry["to"]);
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
    if (frame.value("type", "") == "control_response")
      frame["response"]["request_id"] = "swarm-1";
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
    if (frame["type"] == "user") {
      auto& p = *f.mutable_prompt();
      p.set_id(frame["uuid"]);
      p.set_generation(1);
      const auto& content = frame["message"]["content"];
      p.set_text(content.is_string() ? content.get<std::string>() : "words");
      p.set_last(true);
    } else if (frame["type"] == "control_response" && !answer(frame["response"], f)) {
      return;
    } else if (frame["type"] != "control_response") {
      return;
    }
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

TEST_CASE("a driver tells the same of a recording however its bytes are cut") {
  for (const auto* scenario : scenarios) {
    CAPTURE(scenario);
    const auto recording = test::claude_recording(scenario);
    play at_once{test::whole};
    at_once.run(recording);
    holds(at_once.world);
    CHECK_FALSE(final_of(at_once.world).empty());
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
