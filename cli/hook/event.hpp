// What an agent's program tells its hooks about a tool call, and the answers that it understands.
#pragma once

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
  std::string tool;   // as the host calls it
  std::string key;    // names this call among those of the session
  std::string script; // of a shell, for people
  std::vector<shell::written_path> paths;
  bool cut = false; // it may write more than that: a bound was met
};

/// What a tool call writes, from the event the host sent. `where` is what relative paths are relative to.
tool_use tool_use_of(const json& event, const shell::place& where);

/// The tool must not run.
json hook_denial(const agents::agent&, const std::string& reason);
/// What the model is to know; before a tool some hosts show it to people only.
json hook_context(const agents::agent&, hook_event, const std::string& text);

} // namespace swarm::cli
