// The MCP server of one agent session: takes messages, one a line, and gives lines back.
//
// What a session asks for takes effect in the order received: tool calls and resources are worked off one after the other. A tool that
// waits does its first step in that order and the rest beside what comes later. What changes nothing (initialize, lists, ping) is answered
// at once. Both eras of the protocol are spoken, told apart by each request (docs/agents.md). Who asks for it is told that a call goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "gateway/mcp/json_rpc.hpp"
#include "gateway/mcp/member.hpp"
#include "gateway/mcp/tool.hpp"

namespace swarm::mcp {

class server {
public:
  /// Takes one line without its end, from any thread; blocks while the client does not read.
  using sink = std::function<void(const std::string& line)>;

  /// `room` is called, from any thread, when is_full() has become false.
  server(const host&, tool_table&, sink, std::function<void()> room = {});
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// One line from the client. From one thread, which gives no more while is_full().
  void receive(std::string_view line);
  /// limits::mcp_requests_queued_max requests or limits::mcp_queued_bytes_max bytes of them wait.
  bool is_full();
  /// Tells those who asked for it how long their calls have been going on by now. From the thread of receive(), which is to call it again
  /// after the time it gives; nothing: there is nobody to tell.
  std::optional<std::chrono::milliseconds> tell_progress();
  /// An answer to a malformed line (too long).
  void refuse_line(const std::string& why);
  /// No more will come: works off what has come already, for at most this time. Calls that wait are not waited for.
  void finish_queue(std::chrono::milliseconds patience);
  /// The client has gone: gives up what is under way and leaves the swarm. Nothing is sent any more.
  void stop();

private:
  /// A request under way, to be cancelled by its id.
  struct under_way {
    bool cancelled = false;
    connection* waits_on = nullptr; // of a wait that runs beside
    bool in_order = false;          // it is the one being worked off
    json progress_token = nullptr;  // null: nobody wants to hear of it
    std::int64_t began_ms = 0;
    std::int64_t told_ms = 0; // when it was told of last, or began
    double progress = 0;      // as it was told last
    std::string how_far = "still under way";
  };
  struct job {
    rpc::message request;
    bool modern = false;
    std::size_t bytes = 0; // of its line
  };
  /// What a client of the stateless protocol wants to hear of.
  struct listener {
    json id;
    json wanted;
  };

  void handle(rpc::message, std::size_t bytes);
  bool is_in_use(const json& id) const;
  bool has_too_many() const;
  void answer_now(const rpc::message&, bool modern);
  json initialize(const json& params);
  json discover() const;
  json tools(bool modern) const;
  void listen(const rpc::message&);
  void cancel(const json& params);

  void work();
  void work_off(const job&);
  json call_tool(const job&, bool& later);
  json call_tool_once(const job&, const tool&, const json& arguments, bool& later);
  json read(const job&);
  /// Throws std::exception when that is not possible.
  void begin_wait(const job&, std::function<tool_result(const tool_call&)> rest, const binding_ptr&, json arguments);
  /// Unless it has been answered or cancelled. With a text: that is how far it has come.
  void tell_progress_of(const std::string& key, const std::string& how_far = {});

  void watch(const binding_ptr&);
  void changed(const char* uri);
  void tools_changed();
  void notify(const char* method, const json& params, const std::function<bool(const json& wanted)>& wants);

  void send(const json&);
  /// Unless it was cancelled or the client has gone.
  void finish(const job&, const std::function<json()>& answer);
  json decorated(json result, bool modern, bool cached) const;

  const host& host_;
  tool_table& tools_;
  sink out_;
  std::function<void()> room_;
  member me_;

  std::mutex mutex_; // guards what follows
  std::condition_variable filled_, became_idle_, waits_over_;
  std::deque<job> queue_;
  std::size_t queued_bytes_ = 0;
  std::map<std::string, under_way> requests_;
  std::vector<listener> listeners_;
  std::size_t waits_ = 0;
  bool stopped_ = false;
  bool idle_ = false;    // the worker is at the end of the queue
  bool legacy_ = false;  // initialize was answered: news come unasked
  bool objects_ = false; // its client takes results for what they are only if they are objects

  binding_ptr listed_for_; // whose rights decided about the tools last told; of the worker
  std::mutex out_mutex_;
  std::unique_ptr<connection> watching_;
  std::thread watcher_;
  std::thread worker_;
};

} // namespace swarm::mcp
