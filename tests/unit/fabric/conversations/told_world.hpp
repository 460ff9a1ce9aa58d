// A dialogue, what it wants done, and what its driver says.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/base/crypto.hpp"
#include "actors/fabric/conversations/dialogue.hpp"
#include "tests/support/model_driver.hpp"

namespace swarm::test {

/// A dialogue whose store and log do what they are asked at once.
struct told_world {
  v1::Conversation row;
  std::unique_ptr<dialogue> talk;
  std::vector<internal::ToDriver> told;
  std::vector<dialogue::file_to_driver> files;
  std::vector<v1::Command> commands;
  std::vector<v1::ConversationItem> items;
  std::vector<std::string> blobs;
  std::vector<dialogue::judge_answer> cases;
  std::vector<internal::HookQuestion> hooks;
  std::vector<std::uint32_t> interrupts;
  std::function<v1::Reply(const v1::Command&)> store;
  bool full = false; // no blob has room
  std::uint64_t seq = 0, revision = 0;

  told_world() {
    row.set_id("c");
    row.set_generation(1);
    row.set_state(v1::Conversation::IDLE);
    row.set_directory("/repo");
    store = [this](const v1::Command&) {
      v1::Reply r;
      *r.mutable_conversation()->mutable_conversation() = row;
      return r;
    };
  }

  void begin(log_tail tail = {}) { talk = std::make_unique<dialogue>(row, std::move(tail)); }
  void connect() {
    const std::string nonce(16, 'n');
    talk->connected(nonce);
    internal::FromDriver ready;
    ready.mutable_ready()->set_last_seq(seq);
    talk->heard(nonce + agents::encode_driver_frame(ready));
    settle();
  }
  void says(internal::FromDriver f) {
    f.set_seq(++seq);
    talk->heard(agents::encode_driver_frame(f));
    settle();
  }
  v1::Prompt& prompt(const std::string& id, v1::Prompt::State state) {
    auto& p = prompts[id];
    p.set_id(id);
    p.set_number(prompts.size());
    p.set_text("words of " + id);
    p.set_state(state);
    p.set_generation(1);
    return p;
  }
  void row_changed() {
    talk->row_is(row, ++revision);
    settle();
  }
  /// As the rules do: without an open turn the oldest alone may be sent.
  void lets_send() {
    store = [this](const v1::Command& c) {
      v1::Reply r;
      *r.mutable_conversation()->mutable_conversation() = row;
      if (const auto& id = c.report_conversation().sending(); !id.empty()) {
        auto& p = prompts[id];
        const auto is_before = [&](const auto& other) { return other.second.state() < v1::Prompt::CONSUMED && other.second.number() < p.number(); };
        if (row.open_turn().empty() ? std::none_of(prompts.begin(), prompts.end(), is_before) : p.steer())
          p.set_state(v1::Prompt::SENDING);
        *r.mutable_conversation()->mutable_prompt() = p;
      }
      return r;
    };
  }
  std::map<std::string, v1::Prompt> prompts;

  void settle() {
    for (auto effects = talk->take(); !effects.empty(); effects = talk->take())
      for (auto& e : effects)
        perform(e);
  }
  std::vector<std::string> kinds() const {
    std::vector<std::string> out;
    for (const auto& m : told)
      out.push_back(m.has_prompt()        ? "prompt " + m.prompt().id()
                    : m.has_interrupt()   ? "interrupt"
                    : m.has_answer()      ? "answer " + m.answer().option()
                    : m.has_permissions() ? "permissions"
                    : m.has_locks()       ? "locks"
                    : m.has_set()         ? "set " + m.set().model()
                    : m.has_stop()        ? "stop"
                    : m.has_hello()       ? "hello"
                                          : "stored");
    return out;
  }
  std::size_t count(const std::string& kind) const {
    const auto all = kinds();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), kind));
  }

private:
  void perform(dialogue::effect& e) {
    if (auto* frame = std::get_if<dialogue::to_driver>(&e)) {
      agents::driver_frame_reader r;
      r.push(frame->frame);
      std::string message;
      REQUIRE(r.next(message) == agents::driver_frame_reader::status::frame);
      REQUIRE(told.emplace_back().ParseFromString(message));
      if (frame->interrupt != 0)
        interrupts.push_back(frame->interrupt);
    } else if (auto* file = std::get_if<dialogue::file_to_driver>(&e)) {
      files.push_back(*file);
    } else if (auto* c = std::get_if<dialogue::ask>(&e)) {
      commands.push_back(c->command);
      auto r = store(c->command);
      r.set_revision(++revision);
      talk->answered(r);
    } else if (auto* k = std::get_if<dialogue::keep>(&e)) {
      for (const auto& f : k->frames)
        REQUIRE(items.emplace_back().ParseFromString(f.body));
      talk->kept({1, items.size()});
    } else if (auto* b = std::get_if<dialogue::keep_blob>(&e)) {
      blobs.push_back(b->bytes);
      talk->blob_kept(full ? "there is no room" : "");
    } else if (auto* j = std::get_if<dialogue::judge_answer>(&e)) {
      cases.push_back(*j);
    } else if (auto* h = std::get_if<dialogue::judge>(&e)) {
      hooks.push_back(h->question);
    }
  }
};

inline internal::FromDriver request(const std::string& id, const std::string& body) {
  internal::FromDriver f;
  f.mutable_request()->set_id(id);
  f.mutable_request()->set_kind(internal::Request::COMMAND);
  f.mutable_request()->set_title("make");
  f.mutable_request()->set_body(body);
  f.mutable_request()->set_last(true);
  return f;
}

inline v1::Approval approval(const std::string& id, const std::string& body) {
  v1::Approval a;
  a.set_id(id);
  a.set_conversation_id("c");
  a.set_generation(1);
  a.set_native_id("r-" + id);
  a.set_kind(v1::Approval::COMMAND);
  a.set_body(body);
  a.set_action_digest(sha256(body));
  a.set_tool("Bash");
  a.add_writes()->set_name("/repo/out");
  return a;
}

/// The log has that the approval `id` was asked for.
inline log_tail asked_for(const std::string& id) {
  log_tail tail;
  auto& item = tail.asked[id];
  item.set_kind(v1::CONVERSATION_PERMISSION);
  item.set_id("r-" + id);
  item.set_approval_id(id);
  item.set_state("asked");
  return tail;
}

inline internal::FromDriver answer_state(const std::string& request, const std::string& option) {
  internal::FromDriver f;
  f.mutable_answer_state()->set_request_id(request);
  f.mutable_answer_state()->set_delivered(true);
  f.mutable_answer_state()->set_option(option);
  return f;
}

inline v1::Approval decided(v1::Approval a, const std::string& how) {
  a.set_decided_at_ms(1);
  a.set_decision(how);
  a.set_delivery(v1::Approval::PENDING);
  return a;
}

} // namespace swarm::test
