// A node on the deterministic scheduler whose keeper runs the model of a conversation's driver.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/base/text.hpp"
#include "tests/support/fabric_world.hpp"
#include "tests/support/model_driver.hpp"

namespace swarm::test {

struct talk_world {
  fabric_world f;
  std::map<std::string, std::unique_ptr<model_driver>> drivers; // by spawn and attempt
  std::string spawn;
  bool stalls = false; // the agents begin with nothing
  bool rich = false;   // see model_driver
  bool deaf = false;   // the drivers do not end
  std::string writes;  // likewise
  bool cut = false;    // nothing reaches them
  /// Before each frame in either direction, with its number.
  std::function<void(std::size_t)> on_frame;
  std::size_t frames = 0;

  explicit talk_world(std::uint64_t seed = 0) : f(seed) {
    f.keeper.on_typed = [this](const std::string& id, const std::string& frame) {
      if (cut)
        return;
      spawn = id;
      const auto attempt = f.keeper.find(id)->info.attempt;
      auto& d = drivers[id + "#" + std::to_string(attempt)];
      if (!d)
        d = std::make_unique<model_driver>(attempt);
      d->stalls = stalls;
      d->rich = rich;
      d->writes = writes;
      passes();
      if (!f.keeper.runs(id))
        return; // it was lost with this frame
      d->hear(frame);
      print(id, *d);
      if (d->stopped && !deaf)
        f.keeper.exit(id, 0);
    };
  }
  ~talk_world() { f.stop(); }

  /// What is tried again after a pause has been.
  void wait() {
    f.w.settle();
    f.w.advance_by(std::chrono::seconds{5}, std::chrono::milliseconds{100});
    f.w.settle();
  }
  model_driver& driver(std::uint32_t attempt = 1) { return *drivers.at(spawn + "#" + std::to_string(attempt)); }

  std::string start(const std::string& prompt) {
    auto c = f.command();
    auto& s = *c.mutable_start_conversation();
    s.set_harness("claude");
    s.add_argv("/bin/true");
    s.set_directory("/repo");
    s.set_prompt(prompt);
    s.set_node_id("node-1");
    const auto r = f.run(c);
    REQUIRE_MESSAGE(!r.has_refusal(), r.refusal().text());
    return r.conversation().conversation().id();
  }
  v1::Conversation row(const std::string& id) {
    auto q = f.query();
    q.mutable_list_conversations()->set_id(id);
    const auto a = f.ask(q);
    REQUIRE(a.conversations().conversations_size() == 1);
    return a.conversations().conversations(0);
  }
  /// What the driver does by itself, and what it says then.
  void say(const std::function<void(model_driver&)>& what) {
    what(driver());
    print(spawn, driver());
    f.w.settle();
  }
  /// Behind the log's end.
  void append(const std::string& id, std::uint32_t generation, std::uint64_t seq, const v1::ConversationItem& item) {
    auto more = std::make_shared<log_frames>();
    more->log = {id, 0};
    conversation_frame frame;
    frame.generation = generation;
    frame.driver_seq = seq;
    frame.at_ms = 1;
    frame.kind = static_cast<std::uint32_t>(item.kind());
    frame.body = item.SerializeAsString();
    more->frames.push_back(std::move(frame));
    more->sync = true;
    auto a = f.request<log_state_ptr>(f.board->get().conversation_logs, log_frames_ptr{more});
    f.w.settle();
    REQUIRE_FALSE(a.failed());
  }
  std::vector<v1::Approval> approvals() {
    auto q = f.query();
    q.mutable_list_approvals();
    const auto a = f.ask(q);
    return {a.approvals().approvals().begin(), a.approvals().approvals().end()};
  }
  v1::Reply decide(const std::string& option) {
    const auto all = approvals();
    const auto open = std::find_if(all.begin(), all.end(), [](const auto& x) { return x.decided_at_ms() == 0; });
    REQUIRE(open != all.end());
    const auto& a = *open;
    auto c = f.command();
    c.mutable_decide_approval()->set_approval_id(a.id());
    c.mutable_decide_approval()->set_option(option);
    c.mutable_decide_approval()->set_action_digest(a.action_digest());
    return f.run(c);
  }
  v1::Reply send(const std::string& id, const std::string& prompt, bool steer = false) {
    auto c = f.command();
    c.mutable_send_prompt()->set_conversation_id(id);
    c.mutable_send_prompt()->set_prompt(prompt);
    c.mutable_send_prompt()->set_steer(steer);
    return f.run(c);
  }
  std::vector<v1::Prompt> prompts(const std::string& id) {
    auto q = f.query();
    q.mutable_list_prompts()->set_conversation_id(id);
    const auto a = f.ask(q);
    return {a.prompts().prompts().begin(), a.prompts().prompts().end()};
  }
  /// Of whole items.
  std::vector<std::string> items(const std::string& id) {
    std::vector<std::string> out;
    for (const auto& i : parts(id))
      if (i.last())
        out.push_back(concat({static_cast<int>(i.kind()), " ", i.kind() == v1::CONVERSATION_USER ? i.body() : i.id(), " ", i.state()}));
    return out;
  }
  /// All that the log holds.
  std::vector<v1::ConversationItem> parts(const std::string& id) {
    std::vector<v1::ConversationItem> out;
    std::optional<log_cursor> at;
    for (;;) {
      auto r = std::make_shared<log_reading>();
      r->log = {id, 0};
      r->from = at;
      auto a = f.request<log_pages_ptr>(f.board->get().conversation_logs, log_reading_ptr{r});
      f.w.settle();
      for (const auto& e : a.get()->entries) {
        REQUIRE(out.emplace_back().ParseFromString(e.item));
        CHECK(e.ends_item == out.back().last());
      }
      if (a.get()->entries.empty() && !a.get()->gap)
        return out;
      at = a.get()->next;
    }
  }

private:
  void passes() {
    if (on_frame)
      on_frame(frames);
    ++frames;
  }
  /// Frame by frame.
  void print(const std::string& id, model_driver& d) {
    const auto out = std::exchange(d.out, {});
    std::size_t at = 0;
    for (auto n : std::exchange(d.sizes, {})) {
      passes();
      if (!f.keeper.runs(id))
        return; // what it says would be heard by nobody
      f.keeper.print(id, out.substr(at, n));
      at += n;
    }
  }
};

} // namespace swarm::test
