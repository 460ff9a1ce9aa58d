// swarm-driver without an agent, as swarmd meets it: frames in, frames out.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "actors/agents/driver_frames.hpp"
#include "actors/base/crypto.hpp"
#include "swarm/internal/driver.pb.h"

namespace swarm::test {

/// swarm-driver with an agent that works a prompt off: an item in two parts, a permission, another item. When it is rich, a rule decides something
/// before that, and what it asks is too long for a row.
class model_driver {
public:
  explicit model_driver(std::uint32_t generation) : generation_(generation) {}

  std::string out;                // not read yet
  std::vector<std::size_t> sizes; // of the frames in it; the first one has what stands before it
  std::map<std::string, int> prompts, answers;
  std::vector<std::string> told; // ids of whole items, in their order
  bool stopped = false;
  bool stalls = false; // its agent takes prompts and begins with none
  bool rich = false;
  std::string writes; // its permissions are to write this file
  std::map<std::string, int> interrupts, wishes;
  std::string last_word;                 // said when it is stopped
  std::vector<internal::ToDriver> heard; // but hello and stored

  void say_text(const std::string& id) { item(id, true); }
  /// More of it is to come.
  void say_part(const std::string& id) { item(id, false); }
  /// A tool is about to write the file.
  void ask_hook(const std::string& id, const std::string& path) {
    internal::FromDriver f;
    f.mutable_hook_question()->set_id(id);
    f.mutable_hook_question()->set_tool("Write");
    f.mutable_hook_question()->add_writes()->set_name(path);
    write(f);
  }
  std::string action() const { return rich ? "{\"command\":\"make" + std::string(20'000, ' ') + "\"}" : "{\"command\":\"make\"}"; }

  void hear(const std::string& frame) {
    agents::driver_frame_reader r;
    r.push(frame);
    std::string message;
    REQUIRE(r.next(message) == agents::driver_frame_reader::status::frame);
    internal::ToDriver m;
    REQUIRE(m.ParseFromString(message));
    if (m.has_hello())
      hello(m.hello());
    else if (m.has_stored())
      kept_.erase(kept_.begin(), kept_.upper_bound(m.stored().seq()));
    else if (m.has_prompt() && m.prompt().last())
      prompt(m.prompt());
    else if (m.has_answer())
      answer(m.answer());
    else if (m.has_set())
      set(m.set());
    else if (m.has_interrupt())
      interrupt(m.interrupt());
    else if (m.has_stop() && m.stop().agent_only())
      agent_ended();
    else if (m.has_stop()) {
      if (!last_word.empty())
        item(last_word, true);
      stopped = true;
    }
    if (!m.has_hello() && !m.has_stored())
      heard.push_back(m);
  }

private:
  void hello(const internal::DriverHello& h) {
    CHECK(h.generation() == generation_);
    kept_.erase(kept_.begin(), kept_.upper_bound(h.last_seq()));
    const auto greeting = "garbage" + h.nonce();
    out += greeting;
    internal::FromDriver f;
    auto& r = *f.mutable_ready();
    r.set_first_seq(kept_.empty() ? 0 : kept_.begin()->first);
    r.set_last_seq(seq_);
    write(f);
    sizes.back() += greeting.size();
    for (const auto& [n, kept] : kept_)
      write(kept);
    connected_ = true;
  }
  void write(const internal::FromDriver& f) {
    const auto frame = agents::encode_driver_frame(f);
    out += frame;
    sizes.push_back(frame.size());
  }
  internal::FromDriver& next(internal::FromDriver& f) {
    f.set_seq(++seq_);
    f.set_at_ms(static_cast<std::int64_t>(seq_));
    return f;
  }
  void say(internal::FromDriver f) {
    next(f);
    kept_[seq_] = f;
    if (connected_)
      write(f);
  }
  void state(const std::string& id, internal::PromptState::State s) {
    internal::FromDriver f;
    f.mutable_prompt_state()->set_id(id);
    f.mutable_prompt_state()->set_state(s);
    if (s == internal::PromptState::CONSUMED)
      f.mutable_prompt_state()->set_turn(turn_of_[id]);
    say(f);
  }
  void agent_ended() {
    internal::FromDriver f;
    f.mutable_agent_exited()->set_on_request(true);
    say(f);
  }
  void item(const std::string& id, bool last) {
    internal::FromDriver f;
    f.mutable_item()->set_id(id);
    f.mutable_item()->set_kind(internal::ITEM_TEXT);
    f.mutable_item()->set_body("words");
    f.mutable_item()->set_last(last);
    if (last)
      told.push_back(id);
    say(f);
  }
  void prompt(const internal::PromptPart& p) {
    if (known_.contains(p.id()))
      return state(p.id(), known_[p.id()]);
    ++prompts[p.id()];
    if (stalls) {
      known_[p.id()] = internal::PromptState::SUBMITTED;
      return state(p.id(), internal::PromptState::SUBMITTED);
    }
    if (p.steer() && !open_turn_.empty())
      return steer(p);
    CHECK(open_turn_.empty());
    open_turn_ = turn_of_[p.id()] = std::to_string(++turns_);
    state(p.id(), internal::PromptState::SUBMITTED);
    internal::FromDriver f;
    f.mutable_turn_started()->set_id(std::to_string(turns_));
    f.mutable_turn_started()->add_prompts(p.id());
    say(f);
    known_[p.id()] = internal::PromptState::CONSUMED;
    state(p.id(), internal::PromptState::CONSUMED);
    const auto name = std::to_string(turns_);
    item("a" + name, false);
    item("a" + name, true);
    if (rich)
      ruled(name);
    internal::FromDriver r;
    open_request_ = "r" + name;
    r.mutable_request()->set_id(open_request_);
    r.mutable_request()->set_kind(internal::Request::COMMAND);
    r.mutable_request()->set_title("make");
    if (!writes.empty()) {
      r.mutable_request()->set_tool("Write");
      r.mutable_request()->add_writes()->set_name(writes);
    }
    constexpr std::size_t cut = 11;
    r.mutable_request()->set_body(action().substr(0, cut));
    say(r);
    r.mutable_request()->set_body(action().substr(cut));
    r.mutable_request()->set_last(true);
    say(r);
  }
  void ruled(const std::string& name) {
    internal::FromDriver f;
    f.mutable_ruled()->set_id("q" + name);
    f.mutable_ruled()->set_kind(internal::Request::COMMAND);
    f.mutable_ruled()->set_title("ls");
    f.mutable_ruled()->set_allowed(true);
    f.mutable_ruled()->set_rule("Bash(ls)");
    say(f);
  }
  void steer(const internal::PromptPart& p) {
    known_[p.id()] = internal::PromptState::CONSUMED;
    turn_of_[p.id()] = open_turn_;
    state(p.id(), internal::PromptState::SUBMITTED);
    state(p.id(), internal::PromptState::CONSUMED);
    item("s" + p.id(), true);
  }
  void set(const internal::SetOption& s) {
    if (++wishes[s.id()] > 1)
      return;
    internal::FromDriver f;
    f.mutable_option_state()->set_id(s.id());
    f.mutable_option_state()->set_model(s.model());
    say(f);
  }
  void interrupt(const internal::InterruptTurn& i) {
    if (++interrupts[i.id()] > 1 || open_turn_.empty())
      return;
    internal::FromDriver w;
    w.mutable_withdrawn()->set_request_id(std::exchange(open_request_, {}));
    w.mutable_withdrawn()->set_reason("interrupted");
    say(w);
    end_turn(internal::TurnEnded::INTERRUPTED);
  }
  void end_turn(internal::TurnEnded::Reason reason) {
    internal::FromDriver e;
    e.mutable_turn_ended()->set_id(std::exchange(open_turn_, {}));
    e.mutable_turn_ended()->set_reason(reason);
    e.mutable_turn_ended()->mutable_usage()->set_output_tokens(7);
    say(e);
  }
  void answer(const internal::Answer& a) {
    CHECK(a.digest() == sha256(action()));
    const bool is_open = a.request_id() == open_request_;
    internal::FromDriver f;
    f.mutable_answer_state()->set_request_id(a.request_id());
    f.mutable_answer_state()->set_delivered(is_open || answers[a.request_id()] > 0);
    f.mutable_answer_state()->set_digest(a.digest());
    say(f);
    if (!is_open)
      return; // once more, or too late: nothing happens
    ++answers[a.request_id()];
    open_request_.clear();
    item("b" + open_turn_, true);
    end_turn(internal::TurnEnded::FINISHED);
  }

  std::uint32_t generation_;
  bool connected_ = false;
  std::uint64_t seq_ = 0;
  std::map<std::uint64_t, internal::FromDriver> kept_;
  std::map<std::string, internal::PromptState::State> known_;
  std::uint64_t turns_ = 0;
  std::string open_turn_, open_request_;
  std::map<std::string, std::string> turn_of_; // by prompt
};

} // namespace swarm::test
