// The agents' programs whose hooks we are: what they call things, what they tell us of a tool call, and how they want to be answered
// (contract 5.1, agent-drivers 4).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/hook/shell.hpp"

namespace swarm::cli {

using json = nlohmann::ordered_json;

enum class hook_event { session_start, pre_tool_use, post_tool_use, session_end, prompt_submit, stop, notification };

struct hook_host {
  enum class kind { claude, codex, opencode, hermes, gemini };
  kind what;
  const char* name;
  const char* runtime; // in labels
  const char* prefix;  // of its variables: SWARM_<prefix>_…
};

std::span<const hook_host> hook_hosts();
const hook_host* find_hook_host(std::string_view name);
std::optional<hook_event> find_hook_event(std::string_view name);

struct tool_use {
  enum class kind { other, write, shell };
  kind what = kind::other;
  std::string tool;   // as the host calls it
  std::string key;    // names this call among those of the session
  std::string script; // of a shell, for people
  std::vector<written_path> paths;
  bool cut = false; // it may write more than that: a bound was met
};

/// What a tool call writes, from the event the host sent. `where` is what relative paths are relative to.
tool_use tool_use_of(const json& event, const shell_place& where);

/// The tool must not run.
json hook_denial(const hook_host&, const std::string& reason);
/// What the model is to know; before a tool some hosts show it to people only.
json hook_context(const hook_host&, hook_event, const std::string& text);

} // namespace swarm::cli
