// A driver's core with a swarmd and an agent that tests play, and a clock that they move.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "services/driver/core.hpp"
#include "tests/support/claude_recording.hpp"

namespace swarm::test {

using nlohmann::json;

inline const std::string prompt_1 = "11111111-1111-4111-8111-111111111111";
inline const std::string prompt_2 = "22222222-2222-4222-8222-222222222222";
inline const std::string prompt_3 = "33333333-3333-4333-8333-333333333333";

class driver_world {
public:
  explicit driver_world(driver::settings s = {.resume = {}, .generation = 1, .version = "1", .at = {.directory = "/repo", .home = "/home/u"}})
    : core(std::move(s)) {}

  // ---- as swarmd ----
  void hello(std::uint64_t stored_seq = 0, std::uint64_t generation = 1) {
    internal::ToDriver f;
    auto& h = *f.mutable_hello();
    h.set_protocol(1);
    const auto nonce = "nonce " + std::to_string(1'000'000'000 + ++hellos);
    h.set_nonce(nonce);
    h.set_last_seq(stored_seq);
    h.set_generation(generation);
    reader = {};
    reader.skip_to(nonce);
    connected = true;
    tell(f);
  }
  void tell(const internal::ToDriver& f) {
    core.from_swarmd(agents::encode_driver_frame(f), now());
    settle();
  }
  void prompt(const std::string& id, const std::string& text = "hello", std::uint64_t generation = 1) {
    internal::ToDriver f;
    auto& p = *f.mutable_prompt();
    p.set_id(id);
    p.set_generation(generation);
    p.set_text(text);
    p.set_begins(true);
    p.set_last(true);
    tell(f);
  }
  void steer(const std::string& id, const std::string& text) {
    internal::ToDriver f;
    auto& p = *f.mutable_prompt();
    p.set_id(id);
    p.set_generation(1);
    p.set_text(text);
    p.set_last(true);
    p.set_steer(true);
    tell(f);
  }
  void stored(std::uint64_t seq) {
    internal::ToDriver f;
    f.mutable_stored()->set_seq(seq);
    tell(f);
  }
  void stop(std::uint32_t grace_ms = 1'000) {
    internal::ToDriver f;
    f.mutable_stop()->set_grace_ms(grace_ms);
    tell(f);
  }
  void interrupt(const std::string& id) {
    internal::ToDriver f;
    f.mutable_interrupt()->set_id(id);
    tell(f);
  }
  void answer(const std::string& request, const std::string& option, std::uint64_t generation = 1) {
    internal::ToDriver f;
    auto& a = *f.mutable_answer();
    a.set_request_id(request);
    a.set_generation(generation);
    a.set_option(option);
    a.set_digest(digest_of(kept, request));
    tell(f);
  }
  /// The connection is gone with what is on its way; what is kept is sent again at the next hello.
  void lose() {
    connected = false;
    reader = {};
  }

  // ---- as the agent ----
  void agent_writes(const std::string& bytes) {
    REQUIRE(core.reads_agent());
    core.agent_wrote(bytes, now());
    settle();
  }
  void agent_writes(const json& frame) { agent_writes(frame.dump() + "\n"); }
  void introduce() {
    agent_writes(json{{"type", "control_response"},
                      {"response",
                       {{"subtype", "success"},
                        {"request_id", "swarm-1"},
                        {"response", {{"hooks_applied", true}, {"hook_on_failure_supported", true}, {"claude_code_version", "2"}}}}}});
  }
  void begins(const std::string& prompt) {
    agent_writes(json{{"type", "command_lifecycle"}, {"command_uuid", prompt}, {"state", "started"}});
    agent_writes(json{{"type", "system"}, {"subtype", "init"}, {"session_id", "native"}, {"model", "m"}, {"cwd", "/repo"}});
  }
  void says(const std::string& message, const std::string& words) {
    agent_writes(json{{"type", "assistant"}, {"message", {{"id", message}, {"content", json::array({{{"type", "text"}, {"text", words}}})}}}});
  }
  void asks(const std::string& id, const std::string& tool = "Write", const json& asked = {{"file_path", "/repo/x"}}) {
    agent_writes(json{{"type", "control_request"},
                      {"request_id", id},
                      {"request", {{"subtype", "can_use_tool"}, {"tool_name", tool}, {"input", asked}, {"tool_use_id", "call of " + id}}}});
  }
  void asks_hook(const std::string& id, const std::string& tool, const json& asked) {
    agent_writes(
      json{{"type", "control_request"},
           {"request_id", id},
           {"request",
            {{"subtype", "hook_callback"},
             {"callback_id", "before"},
             {"input", {{"hook_event_name", "PreToolUse"}, {"tool_name", tool}, {"tool_input", asked}, {"cwd", "/repo"}, {"tool_use_id", "c"}}}}}});
  }
  void ends_turn() { agent_writes(json{{"type", "result"}, {"is_error", false}, {"total_cost_usd", 0.1}}); }
  void agent_ends(int status = 0, int signal = 0, std::size_t left_behind = 0) {
    core.agent_exited({status, signal, left_behind}, now());
    core.agent_output_ended(now());
    settle();
  }

  void pass(std::int64_t ms) {
    time += ms;
    core.tick(now());
    settle();
  }
  driver::moment now() const { return {1'700'000'000'000 + time, time}; }

  /// Takes what the core has for all sides.
  void settle() {
    for (auto a : core.take_actions()) {
      if (a.what == driver::action::kind::start)
        core.agent_runs(42);
      actions.push_back(std::move(a));
    }
    for (auto bytes = core.to_agent(); agent_takes && !bytes.empty(); bytes = core.to_agent()) {
      input += bytes;
      core.agent_took(bytes.size(), now());
    }
    for (auto bytes = core.to_swarmd(); pipe_takes && !bytes.empty(); bytes = core.to_swarmd()) {
      if (connected)
        reader.push(bytes);
      core.swarmd_took(bytes.size(), now());
    }
    std::string message;
    while (connected && reader.next(message) == agents::driver_frame_reader::status::frame) {
      internal::FromDriver f;
      REQUIRE(f.ParseFromString(message));
      if (++frames == lose_at) {
        lose();
        break;
      }
      all.push_back(f);
      if (f.seq() > last_seq) {
        CHECK(f.seq() == last_seq + 1);
        last_seq = f.seq();
        kept.push_back(f);
      }
    }
    for (auto& a : core.take_actions())
      actions.push_back(std::move(a));
  }

  std::size_t did(driver::action::kind what) const {
    return static_cast<std::size_t>(std::count_if(actions.begin(), actions.end(), [&](const auto& a) { return a.what == what; }));
  }
  /// Of the agent's input.
  std::size_t lines_with(const std::string& text) const {
    std::size_t out = 0;
    for (std::size_t at = 0, end = 0; (end = input.find('\n', at)) != input.npos; at = end + 1)
      out += input.substr(at, end - at).find(text) != std::string::npos ? 1U : 0U;
    return out;
  }
  std::vector<internal::PromptState> states_of(const std::string& prompt) const {
    std::vector<internal::PromptState> out;
    for (const auto& f : kept)
      if (f.has_prompt_state() && f.prompt_state().id() == prompt)
        out.push_back(f.prompt_state());
    return out;
  }
  std::vector<internal::AnswerState> answers() const {
    std::vector<internal::AnswerState> out;
    for (const auto& f : kept)
      if (f.has_answer_state())
        out.push_back(f.answer_state());
    return out;
  }
  std::vector<internal::Notice> notices(const std::string& kind) const {
    std::vector<internal::Notice> out;
    for (const auto& f : kept)
      if (f.has_notice() && f.notice().kind() == kind)
        out.push_back(f.notice());
    return out;
  }
  const internal::Ready& ready() const {
    for (auto f = all.rbegin(); f != all.rend(); ++f)
      if (f->has_ready())
        return f->ready();
    FAIL("no ready");
    std::abort();
  }

  driver::core core;
  agents::driver_frame_reader reader;
  bool connected = false;
  bool agent_takes = true;
  bool pipe_takes = true;
  std::size_t frames = 0;
  std::size_t lose_at = 0; // this frame is the last of a connection and does not arrive; 0 = never
  int hellos = 0;
  std::int64_t time = 1'000'000;
  std::string input; // of the agent
  std::vector<driver::action> actions;
  std::vector<internal::FromDriver> all;  // as swarmd has got it
  std::vector<internal::FromDriver> kept; // each once
  std::uint64_t last_seq = 0;
};

/// A turn has begun.
inline driver_world in_a_turn(driver::workplace at = {.directory = "/repo", .home = "/home/u"}) {
  driver_world w{{.resume = {}, .generation = 1, .version = "1", .at = std::move(at)}};
  w.hello();
  w.prompt(prompt_1);
  w.introduce();
  w.begins(prompt_1);
  return w;
}

} // namespace swarm::test
