// What each agent program is: its name, how the fabric starts it, its hooks, where its settings lie and what its terminal says of it. Each
// program has one file; this is what the rest of the fabric sees of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/base/json_dialect.hpp"

namespace swarm::agents {

enum class program : std::uint8_t { claude, codex, opencode, gemini, hermes };

/// Seconds that a program waits for one of our hooks. A hook gives itself less (limits::hook_call_deadline).
inline constexpr int hook_timeout_s = 20;

/// An event at which the program runs `swarmctl hook NAME VERB`.
struct hook_spec {
  const char* event;   // as the program calls it
  const char* verb;    // as `swarmctl hook` calls it
  const char* matcher; // tools, in the program's syntax; null: every tool, or an event without tools
  int timeout_s = hook_timeout_s;
};

enum class state : std::uint8_t { idle, working, blocked };

/// A beginning of the terminal's title by which the program says what it does.
struct title_mark {
  std::string_view begins;
  state means;
};

/// The directory of the user's settings: `below_variable` of the directory that the environment variable names, else `below_home` of $HOME.
struct settings_place {
  const char* variable;
  const char* below_variable;
  const char* below_home;
};

/// A file of ours without which the program must not be started.
struct needed_file {
  const char* path;    // in the share directory
  const char* without; // what would go wrong, and what the file is
};

/// How its process is told from all others, beside its name: that is what its executable is called, or the script that an interpreter (node, bun,
/// python3) runs.
struct appearance {
  std::span<const std::string_view> executables = {}; // in the path of its executable, where that has another name
  std::span<const std::string_view> scripts = {};     // in the path of its script
  std::span<const std::string_view> modules = {};     // python3 -m NAME, and what lies in it
  std::span<const std::string_view> helpers = {};     // names of processes that run its executable and are not it (the first 15 bytes)
};

/// A variable that the program sets for the commands of its tools and that no person sets.
struct environment_mark {
  std::string_view name;
  std::string_view value; // empty = any but the empty one
};

/// What a start depends on.
struct start {
  std::string swarmctl;  // absolute path
  std::string directory; // of the work
  std::string share;     // what $SWARM_SHARE says; empty = beside swarmctl
  bool driven = false;   // by a program of ours, which is asked where hooks of ours would run
};

struct agent {
  program what;
  const char* name;      // of its program, too
  const char* title;     // for people
  const char* runtime;   // in labels
  const char* variables; // its own variables are SWARM_<variables>_…
  settings_place settings;
  json_dialect dialect = json_dialect::plain;
  /// Whether it runs hooks before its first prompt. Its silence until then is a question to its user (may it trust this directory, which
  /// account), not readiness.
  bool has_early_hooks;
  std::span<const hook_spec> hooks = {}; // empty: a plugin of ours does what hooks do
  std::span<const title_mark> titles = {};
  const needed_file* needs = nullptr;
  appearance looks = {};
  std::span<const environment_mark> marks = {};
  /// Arguments after the program's own. They hold no secret: anybody may read arguments.
  std::vector<std::string> (*arguments)(const start&) = nullptr;
  /// Variables, NAME=value.
  std::vector<std::string> (*environment)(const start&) = nullptr;
};

/// Every program, in the order in which texts name them.
std::span<const agent> all();
/// Null for a name that is no agent's.
const agent* find(std::string_view name) noexcept;

/// Arguments and variables that tell the program of our MCP server and hooks, for one process and beside what its user has set up. Empty for a
/// name that is no agent's.
std::vector<std::string> arguments(std::string_view name, const start&);
std::vector<std::string> environment(std::string_view name, const start&);
/// Why the program must not be started so, and what to do about it. Empty when nothing is in the way.
std::string obstacle(std::string_view name, const start&);
bool has_early_hooks(std::string_view name) noexcept;

/// One entry of the program's list for an event, as its JSON settings want it.
nlohmann::ordered_json hook_entry(const agent&, const hook_spec&, const std::string& command);
/// `swarmctl hook NAME VERB`, for a shell.
std::string hook_command(const agent&, const hook_spec&, const std::string& swarmctl);

/// The hash by which Codex 0.169 knows a command hook that its user trusts. `event` is spelled as in codex_event_key(); an empty matcher means none.
std::string codex_hook_hash(const std::string& event, const std::string& matcher, const std::string& command, int timeout_s);
/// PreToolUse is pre_tool_use in the keys of Codex's trust.
std::string codex_event_key(std::string_view event);

} // namespace swarm::agents
