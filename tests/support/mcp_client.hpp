// A client of `swarmctl mcp` over real pipes: what an agent's host does, and what a host must not do as well.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/node_process.hpp"

namespace swarm::testing {

/// What a tool answered, looked at as an agent does: domain errors are normal answers.
struct tool_reply {
  std::vector<std::string> texts;
  bool is_error = false;
  const std::string& text() const { return texts.at(0); }
  /// The first text as JSON; throws when it is not JSON.
  json value() const;
  /// The keys of the first text, which must be an object, in their order: "a b c".
  std::string keys() const;
};
/// The same of any object in a reply.
std::string keys_of(const nlohmann::ordered_json& object);

/// One server process. Every wait has a deadline and throws at it with what came instead. Killed when it is destroyed while it runs.
class mcp_client {
public:
  /// Starts the server in the node's working directory; says nothing yet.
  explicit mcp_client(const test_node&, const run_options& = {}, const std::vector<std::string>& arguments = {});
  ~mcp_client();
  mcp_client(const mcp_client&) = delete;
  mcp_client& operator=(const mcp_client&) = delete;

  // -- lines ---------------------------------------------------------------------------------
  /// Sent whole, while what the server says meanwhile is taken.
  void send_line(const std::string&);
  /// Sends without reading what the server says; false when it does not fit into the pipe.
  bool send_unheard(const std::string& lines);
  void send(const json& message) { send_line(message.dump()); }
  void notify(const std::string& method, const json& params = json::object());
  /// Everything the server has said so far, oldest first.
  const std::vector<json>& received() const { return received_; }
  /// The first message from `from` on for which it holds.
  json await(const std::function<bool(const json&)>&, std::size_t from = 0, std::chrono::milliseconds deadline = patience);
  json await_notification(const std::string& method, const json& params, std::size_t from = 0);

  // -- requests ------------------------------------------------------------------------------
  /// Sends; the id under which the answer comes.
  int request(const std::string& method, const json& params = json::object());
  /// The whole answer of that id.
  json answer_to(const json& id);
  json result(const std::string& method, const json& params = json::object());
  json error(const std::string& method, const json& params = json::object());
  /// Whether an answer of that id is there by now.
  bool is_answered(const json& id);
  /// Of the legacy era: initialize and its notification; the result.
  json initialize(const std::string& version = "2025-11-25");

  // -- tools ---------------------------------------------------------------------------------
  int call_later(const std::string& tool, const json& arguments = json::object());
  tool_reply reply_to(const json& id);
  tool_reply call(const std::string& tool, const json& arguments = json::object()) { return reply_to(call_later(tool, arguments)); }
  /// The JSON of a reply that is no error; throws otherwise.
  json ask(const std::string& tool, const json& arguments = json::object());
  std::string text(const std::string& tool, const json& arguments = json::object()) { return call(tool, arguments).text(); }
  /// Registers in the node's working directory; the instance object.
  json enroll(const std::string& label = {}, json more = json::object());
  /// As whom enroll() registered last.
  const std::string& id() const { return id_; }

  // -- ends ----------------------------------------------------------------------------------
  pid_t pid() const { return pid_; }
  void signal(int) const;
  void close_input();
  void close_output();
  /// Exit status, or 128 + signal; throws at the deadline. What it said last is in received() then.
  int finish(std::chrono::milliseconds deadline = patience);
  const std::string& notes() const { return err_text_; }

private:
  using clock = std::chrono::steady_clock;
  /// Writes and reads what is ready; false when nothing more comes, or at the deadline.
  bool pump(clock::time_point until);
  void take_lines();
  [[noreturn]] void fail(const std::string& what) const;

  std::string directory_;
  std::string id_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  unique_fd in_, out_, err_;
  unique_fd in_read_; // held open, so that a write to a server that has gone is no SIGPIPE
  std::string to_send_, partial_, err_text_;
  std::vector<json> received_;
  int last_id_ = 0;
};

} // namespace swarm::testing
