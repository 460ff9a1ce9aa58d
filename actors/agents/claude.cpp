#include "actors/agents/programs.hpp"

namespace swarm::agents {

namespace {

using json = nlohmann::ordered_json;

constexpr hook_spec hooks[] = {
  {"SessionStart", "session-start", nullptr},
  {"UserPromptSubmit", "prompt-submit", nullptr},
  {"PreToolUse", "pre-tool-use", "Write|Edit|MultiEdit|NotebookEdit|Bash|Monitor|PowerShell|mcp__.*"},
  {"PostToolUse", "post-tool-use", nullptr},
  {"Stop", "stop", nullptr},
  {"PermissionRequest", "notification", nullptr}, // its Notification comes seconds later
  {"Notification", "notification", nullptr},
  {"SessionEnd", "session-end", nullptr},
};

std::vector<std::string> arguments_of(const start& s) {
  json server{{"mcpServers", {{"swarm", {{"command", s.swarmctl}, {"args", json::array({"mcp"})}, {"alwaysLoad", true}}}}}};
  json settings{{"permissions", {{"allow", json::array({"mcp__swarm"})}}}};
  for (const auto& h : s.driven ? std::span<const hook_spec>{} : std::span{hooks})
    settings["hooks"][h.event] = json::array({hook_entry(claude, h, hook_command(claude, h, s.swarmctl))});
  return {"--mcp-config", server.dump(), "--settings", settings.dump()};
}

// Releases lie under their numbers: ~/.local/share/claude/versions/2.1.0. The npm package calls the program claude.exe everywhere.
constexpr std::string_view executables[] = {"/claude/versions/"};
constexpr std::string_view scripts[] = {"/@anthropic-ai/claude-code/"};
constexpr environment_mark marks[] = {{"CLAUDECODE", "1"}};

} // namespace

constinit const agent claude{.what = program::claude,
                             .name = "claude",
                             .title = "Claude Code",
                             .runtime = "claude-code",
                             .variables = "CC",
                             .settings = {"CLAUDE_CONFIG_DIR", "", ".claude"},
                             .has_early_hooks = true,
                             .hooks = hooks,
                             .looks = {.executables = executables, .scripts = scripts},
                             .marks = marks,
                             .arguments = arguments_of};

} // namespace swarm::agents
