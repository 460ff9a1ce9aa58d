// An agent's events as its hooks read them, and the answers in the agent's own format.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/agents/agent.hpp"
#include "actors/shell/writes.hpp"

namespace swarm::cli {

using json = nlohmann::ordered_json;

enum class hook_event { session_start, pre_tool_use, post_tool_use, session_end, prompt_submit, stop, notification };

std::optional<hook_event> find_hook_event(std::string_view name);

struct tool_use {
  enum class kind { other, write, shell };
  kind what = kind::other;
  std::string tool;   // the agent's name for it
  std::string key;    // tells this call from the session's other calls
  std::string script; // the command of a shell tool, to be shown to people
  std::vector<shell::written_path> paths;
  std::vector<shell::written_path> named; // paths that a tool names which may write them: a tool that we do not know, or of an MCP server
  bool unreadable = false;                // no tool is named, or what it is to write is not said in a way that we know
  bool cut = false;                       // the call may write more than `paths`: a limit was reached
};

/// The home directory of an account, absolute; empty when there is none.
using account_home = std::function<std::string(const std::string& account)>;
/// What the system says.
std::string home_of_account(const std::string& account);

/// What a tool call writes, read from the agent's event. `where` is what relative paths are relative to.
tool_use tool_use_of(const json& event, const shell::place& where, const account_home& = home_of_account);

/// The answer that keeps the tool from running.
json hook_denial(const agents::agent&, const std::string& reason);
/// The answer that gives `text` to the model. Before a tool, some agents show it to people only.
json hook_context(const agents::agent&, hook_event, const std::string& text);

} // namespace swarm::cli
