// A process without a node around it: what the MCP server asks for is answered by the test.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/mcp/node.hpp"

namespace swarm::test {

class fake_mcp_host final : public mcp::host {
public:
  std::function<v1::Reply(const v1::Command&)> decide = [](const v1::Command&) { return v1::Reply{}; };
  std::function<v1::Answer(const v1::Query&)> answer = [](const v1::Query&) { return v1::Answer{}; };
  /// Of the session that is registered; decide() is not asked for registrations.
  v1::Session session;
  /// What a reader of a conversation gets.
  std::function<std::vector<v1::ConversationChunk>(const v1::ReadConversationRequest&)> conversation = [](const auto&) {
    return std::vector<v1::ConversationChunk>{};
  };
  /// A wait ends with this; without it only when it is cancelled.
  std::optional<v1::Activity> activity;
  /// Whatever else waits for something does so until it is cancelled.
  std::atomic<bool> patient = false;
  /// What a watcher is told after a while; without it, that there is a gap.
  v1::WatchReply news;
  std::function<std::string(std::string_view)> environment = [](std::string_view) { return std::string{}; };

  fake_mcp_host() {
    session.set_id("session-1");
    session.set_scope("/repo");
    session.set_directory("/repo");
    session.set_root("/repo");
    session.set_file_root("/repo");
    session.set_presence(v1::Session::PROCESS);
    session.set_pid(1);
    session.set_pid_start(1);
    session.set_adopted(true);
  }

  std::unique_ptr<mcp::connection> connect(const std::string&, start) const override { return std::make_unique<line>(*this); }
  std::string variable(std::string_view name) const override { return environment(name); }
  v1::Caller caller() const override { return {}; }
  std::string working_directory() const override { return "/repo"; }
  std::string state_directory() const override { return "/state"; }
  std::int64_t now_ms() const override { return 1'000'000; }
  std::int64_t boot_ms() const override { return now_; }
  std::string new_token() const override { return std::string(64, 'a'); }
  std::pair<std::int64_t, std::uint64_t> process() const override { return {1, 1}; }
  bool is_agent(std::int64_t, std::uint64_t) const override { return false; }
  void check_directory(const std::string&) const override {}
  void check_directories(const std::string&, const std::string&, const std::string&) const override {}
  mcp::worker_settings worker(const v1::Session&, const std::string&, const std::string& harness, const std::string&) const override {
    return {harness, {}};
  }
  void note(const std::string&) const override {}

  /// The time of boot_ms().
  void advance(std::chrono::milliseconds d) { now_ += d.count(); }
  /// As soon as so many calls wait to be cancelled; false when it does not come to that within ten seconds.
  bool waits(int calls) {
    std::unique_lock guard{waiting_mutex_};
    return waiting_changed_.wait_for(guard, std::chrono::seconds{10}, [&] { return waiting_ == calls; });
  }

private:
  class line final : public mcp::connection {
  public:
    explicit line(const fake_mcp_host& h) : host_(h) {}
    v1::Reply execute(const v1::Command& c, const mcp::environment_list&, std::int64_t) override {
      give_up_if_cancelled();
      if (host_.patient && c.acquire_lock().wait_ms() > 0)
        until_cancelled();
      if (!c.has_register_session())
        return host_.decide(c);
      v1::Reply out;
      *out.mutable_session()->mutable_session() = host_.session;
      return out;
    }
    v1::Answer ask(const v1::Query& q) override {
      give_up_if_cancelled();
      return host_.answer(q);
    }
    v1::Activity wait_for_activity(const v1::WaitRequest& r) override {
      if (host_.activity) {
        host_.now_ += r.timeout_ms();
        return *host_.activity;
      }
      until_cancelled();
    }
    void watch(v1::WatchRequest, std::int64_t timeout_ms, const std::function<bool(const v1::WatchReply&)>& on) override {
      // The server's own, for news, does not count as a call.
      if (timeout_ms == 0 || host_.patient)
        until_cancelled(timeout_ms != 0);
      if (on(host_.news) || host_.news.events().empty())
        host_.now_ += timeout_ms;
    }
    v1::PtyList list_ptys(const v1::ListPtysRequest&) override {
      v1::PtyList out;
      out.add_ptys()->set_id("pty-1");
      return out;
    }
    void read_pty(v1::ReadPtyRequest, std::int64_t timeout_ms, const std::function<bool(const v1::PtyChunk&)>& on) override {
      if (timeout_ms != 0 && host_.patient)
        until_cancelled();
      v1::PtyChunk chunk;
      chunk.set_data("\xff output");
      if (on(chunk))
        host_.now_ += timeout_ms;
    }
    void read_conversation(v1::ReadConversationRequest r, std::int64_t, const std::function<bool(const v1::ConversationChunk&)>& on) override {
      for (const auto& chunk : host_.conversation(r))
        if (!on(chunk))
          return;
    }
    v1::SendPtyReply send_to_pty(const v1::SendPtyRequest& r) override {
      v1::SendPtyReply out;
      out.set_accepted(r.data().size());
      return out;
    }
    void cancel() override {
      std::lock_guard guard{mutex_};
      cancelled_ = true;
      changed_.notify_all();
    }

  private:
    void give_up_if_cancelled() {
      std::lock_guard guard{mutex_};
      if (cancelled_)
        throw mcp::call_failed{mcp::code::interrupted, "cancelled"};
    }
    [[noreturn]] void until_cancelled(bool counts = true) {
      std::unique_lock guard{mutex_};
      host_.count(counts ? 1 : 0);
      changed_.wait(guard, [&] { return cancelled_; });
      // What comes after, such as leaving the line, works.
      cancelled_ = false;
      host_.count(counts ? -1 : 0);
      throw mcp::call_failed{mcp::code::interrupted, "cancelled"};
    }

    const fake_mcp_host& host_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool cancelled_ = false;
  };

  void count(int change) const {
    std::lock_guard guard{waiting_mutex_};
    waiting_ += change;
    waiting_changed_.notify_all();
  }

  mutable std::atomic<std::int64_t> now_ = 0;
  mutable std::mutex waiting_mutex_;
  mutable std::condition_variable waiting_changed_;
  mutable int waiting_ = 0;
};

/// What the server has said, line by line.
class heard_lines {
public:
  void add(const std::string& text) {
    std::lock_guard guard{mutex_};
    lines_.push_back(text);
    changed_.notify_all();
  }
  /// The first line that fits, which is taken away; an empty text when there is none within ten seconds.
  std::string take(const std::function<bool(const std::string&)>& fits) {
    std::unique_lock guard{mutex_};
    std::string out;
    changed_.wait_for(guard, std::chrono::seconds{10}, [&] {
      for (auto i = lines_.begin(); i != lines_.end(); ++i)
        if (fits(*i)) {
          out = *i;
          lines_.erase(i);
          return true;
        }
      return false;
    });
    return out;
  }
  std::vector<std::string> all() {
    std::lock_guard guard{mutex_};
    return {lines_.begin(), lines_.end()};
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
};

} // namespace swarm::test
