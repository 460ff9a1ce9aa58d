// A tool of the MCP server: a row of a table that others can extend while the server runs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "gateway/mcp/member.hpp"
#include "gateway/mcp/node.hpp"

namespace swarm::mcp {

using json = nlohmann::ordered_json;

/// What a tool says: text blocks. An error here is a failure of the call; a refusal of the fabric is an ordinary text (as in swarm-mcp).
struct tool_result {
  std::vector<std::string> texts;
  bool is_error = false;
};

tool_result said(std::string text);
inline tool_result said(const char* text) { return said(std::string{text}); }
/// As indented JSON.
tool_result said(const json&);
/// {"error": text}
tool_result said_error(const std::string& text);

/// Says how far a call that waits has come, beside what is said of it now and then; does nothing unless the client asked for it.
using progress_report = std::function<void(const std::string& how_far)>;

/// One call of a tool by a session.
struct tool_call {
  const host& process;
  connection& node;
  const v1::Session& session;
  const json& arguments;
  progress_report progress;

  /// With the scope, the session as actor, and the process's overrides.
  v1::Command command() const;
  /// With the scope and the session's eyes.
  v1::Query query() const;
  /// The file that an argument names.
  std::string file(const std::string& input) const;
  /// Where it lies on this host, with symbolic links followed.
  std::string real_file(const std::string& input) const;
  /// An argument that the schema requires or gives a default for.
  const std::string& text(const char* name) const { return arguments.at(name).get_ref<const std::string&>(); }
  /// Empty when it is not given.
  std::string optional_text(const char* name) const;
  bool flag(const char* name) const;
  bool given(const char* name) const { return arguments.contains(name); }
};

/// What is left of a call that waits.
struct tool_waiting {
  /// Runs beside later calls, with a connection of its own.
  std::function<tool_result(const tool_call&)> rest{};
  /// The answer when no more may wait, told why: of a call that has done something already, which an error would have done again. Without it
  /// the call fails.
  std::function<tool_result(const std::string& why)> otherwise{};
};
using tool_outcome = std::variant<tool_result, tool_waiting>;

struct tool {
  std::string name{};
  std::string description{};
  json input_schema{};
  json annotations = nullptr;
  /// The grant a session needs ("pty", "spawn"); empty = none. Without it the tool is neither listed nor called.
  std::string right{};
  /// What is decided in the order of the requests happens here; may leave the rest to a tool_waiting.
  std::function<tool_outcome(const tool_call&)> run{};
  /// Instead of `run`, for the tools that make or end the session.
  std::function<tool_result(member&, const json& arguments)> bind{};
  /// Before `run`, and before anybody must be bound.
  std::function<void(member&, const json& arguments)> before{};
};

/// The tools in the order in which they are listed. Thread-safe.
class tool_table {
public:
  using tool_ptr = std::shared_ptr<const tool>;

  /// Replaces one of the same name. Tells the listener.
  void add(tool);
  /// False when there is none.
  bool remove(std::string_view name);
  tool_ptr find(std::string_view name) const;
  std::vector<tool_ptr> list() const;
  /// Called after each later change, without any lock held.
  void on_change(std::function<void()>);

private:
  mutable std::mutex mutex_;
  std::vector<tool_ptr> tools_;
  std::function<void()> changed_;
};

/// swarm-mcp's 33 tools, in its order, and ours after them.
void add_tools(tool_table&);

/// Families; each gives the tools with these names.
std::vector<tool> session_tools();
std::vector<tool> message_tools();
std::vector<tool> task_tools();
std::vector<tool> lock_tools();
std::vector<tool> kv_tools();
std::vector<tool> status_tools();
std::vector<tool> dispatch_tools();
std::vector<tool> pty_tools();
std::vector<tool> routine_tools();
std::vector<tool> person_tools();
std::vector<tool> chat_tools();

} // namespace swarm::mcp
