#include "actors/agents/programs.hpp"

#include <filesystem>

#include "actors/base/crypto.hpp"
#include "actors/base/text.hpp"

namespace swarm::agents {

namespace {

using json = nlohmann::ordered_json;

constexpr hook_spec hooks[] = {
  {"SessionStart", "session-start", nullptr}, {"UserPromptSubmit", "prompt-submit", nullptr}, {"PreToolUse", "pre-tool-use", "Bash|apply_patch"},
  {"PostToolUse", "post-tool-use", nullptr},  {"PermissionRequest", "notification", nullptr}, {"Stop", "stop", nullptr},
  {"SessionEnd", "session-end", nullptr, 3}, // Codex allows no more at the end of a session
};

/// What the MCP server and the hooks of a worker need to be its session. Codex gives its children nothing else of its own environment.
constexpr const char* passed_on[] = {"SWARM_HOME",      "SWARM_TOKEN",         "SWARM_SPAWN_ID",      "SWARM_TASK_ID",   "SWARM_MCP_INSTANCE_ID",
                                     "SWARM_MCP_SCOPE", "SWARM_MCP_DIRECTORY", "SWARM_MCP_FILE_ROOT", "SWARM_MCP_LABEL", "SWARM_AGENT_ROLE",
                                     "SWARM_WORKTREE",  "SWARM_WORKTREE_OF",   "AGENT_IDENTITY"};

/// Codex takes TOML values on its command line. A JSON string or list of strings is one.
std::string toml(const std::string& text) { return json(text).dump(); }

/// The trust that a dispatch gives: in the directory, and in the repository it lies in.
std::string trusted_projects(const std::string& directory) {
  namespace fs = std::filesystem;
  std::string out = "projects={" + toml(directory) + "={trust_level=\"trusted\"}";
  std::error_code ec;
  for (auto d = fs::path{directory}; d.has_relative_path(); d = d.parent_path())
    if (fs::exists(d / ".git", ec)) {
      if (d != directory)
        out += "," + toml(d.string()) + "={trust_level=\"trusted\"}";
      break;
    }
  return out + "}";
}

std::string hook_value(const hook_spec& h, const std::string& command) {
  return concat({"hooks.", h.event, "=[{", h.matcher ? "matcher=" + toml(h.matcher) + "," : "", "hooks=[{type=\"command\",command=", toml(command),
                 ",timeout=", std::to_string(h.timeout_s), "}]}]"});
}

std::vector<std::string> arguments_of(const start& s) {
  json variables = json::array();
  for (const auto* name : passed_on)
    variables.push_back(name);
  // Its daemon would run our server and hooks in another environment than the worker's, and outlive it.
  std::vector<std::string> out{"--no-daemon", "-c",
                               "mcp_servers.swarm={command=" + toml(s.swarmctl) + ",args=[\"mcp\"],env_vars=" + variables.dump() +
                                 ",default_tools_approval_mode=\"approve\"}",
                               "-c", trusted_projects(s.directory)};
  // Codex asks its user about each hook whose hash it does not know. The one who starts it with our hooks trusts them for this process.
  std::string trust;
  for (const auto& h : hooks) {
    auto command = hook_command(codex, h, s.swarmctl);
    out.insert(out.end(), {"-c", hook_value(h, command)});
    auto key = codex_event_key(h.event);
    trust += concat({trust.empty() ? "" : ",", toml("/<session-flags>/config.toml:" + key + ":0:0"),
                     "={trusted_hash=", toml(codex_hook_hash(key, h.matcher ? h.matcher : "", command, h.timeout_s)), "}"});
  }
  out.insert(out.end(), {"-c", "hooks.state={" + trust + "}"});
  return out;
}

constexpr std::string_view helpers[] = {"codex-linux-san", "codex-execve-wr"}; // they become the command, or stand between it and Codex
constexpr std::string_view scripts[] = {"/@openai/codex/"};
// The first of each command, the second of its long-lived shells; the others where it has a sandbox.
constexpr environment_mark marks[] = {{"CODEX_THREAD_ID", ""}, {"CODEX_CI", "1"}, {"CODEX_SANDBOX", ""}, {"CODEX_SANDBOX_NETWORK_DISABLED", "1"}};

} // namespace

std::string codex_hook_hash(const std::string& event, const std::string& matcher, const std::string& command, int timeout_s) {
  // The hash is of the canonical form: keys in order, no blanks. nlohmann::json sorts its keys.
  nlohmann::json identity{{"event_name", event},
                          {"hooks", nlohmann::json::array({{{"type", "command"}, {"command", command}, {"timeout", timeout_s}, {"async", false}}})}};
  if (!matcher.empty())
    identity["matcher"] = matcher;
  return "sha256:" + to_hex(sha256(identity.dump()));
}

std::string codex_event_key(std::string_view event) {
  std::string out;
  for (char c : event) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_upper && !out.empty())
      out += '_';
    out += is_upper ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  return out;
}

// Codex runs its first hook with the first prompt only.
constinit const agent codex{.what = program::codex,
                            .name = "codex",
                            .title = "Codex",
                            .runtime = "codex",
                            .variables = "CODEX",
                            .settings = {"CODEX_HOME", "", ".codex"},
                            .has_early_hooks = false,
                            .hooks = hooks,
                            .looks = {.scripts = scripts, .helpers = helpers},
                            .marks = marks,
                            .arguments = arguments_of};

} // namespace swarm::agents
