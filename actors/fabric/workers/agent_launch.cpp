#include "actors/fabric/workers/agent_launch.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <nlohmann/json.hpp>

#include "actors/base/crypto.hpp"
#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"

namespace swarm {

namespace {

using json = nlohmann::ordered_json;

/// What the MCP server and the hooks of a worker need to be its session. Codex gives its children nothing else of its own environment.
constexpr const char* passed_on[] = {"SWARM_HOME",      "SWARM_TOKEN",         "SWARM_SPAWN_ID",      "SWARM_TASK_ID",   "SWARM_MCP_INSTANCE_ID",
                                     "SWARM_MCP_SCOPE", "SWARM_MCP_DIRECTORY", "SWARM_MCP_FILE_ROOT", "SWARM_MCP_LABEL", "SWARM_AGENT_ROLE",
                                     "SWARM_WORKTREE",  "SWARM_WORKTREE_OF",   "AGENT_IDENTITY"};

constexpr int hook_timeout_s = 20;

json hook(const std::string& swarmctl, const char* agent, const char* event, const char* matcher = nullptr) {
  json entry;
  if (matcher)
    entry["matcher"] = matcher;
  entry["hooks"] =
    json::array({{{"type", "command"}, {"command", shell_quoted(swarmctl) + " hook " + agent + " " + event}, {"timeout", hook_timeout_s}}});
  return json::array({entry});
}

constexpr const char* claude_writers = "Write|Edit|MultiEdit|NotebookEdit|Bash";

json claude_settings(const std::string& swarmctl) {
  return {{"permissions", {{"allow", json::array({"mcp__swarm"})}}},
          {"hooks",
           {{"SessionStart", hook(swarmctl, "claude", "session-start")},
            {"UserPromptSubmit", hook(swarmctl, "claude", "prompt-submit")},
            {"PreToolUse", hook(swarmctl, "claude", "pre-tool-use", claude_writers)},
            {"PostToolUse", hook(swarmctl, "claude", "post-tool-use", claude_writers)},
            {"Stop", hook(swarmctl, "claude", "stop")},
            {"PermissionRequest", hook(swarmctl, "claude", "notification")}, // its Notification comes seconds later
            {"Notification", hook(swarmctl, "claude", "notification")},
            {"SessionEnd", hook(swarmctl, "claude", "session-end")}}}};
}

std::vector<std::string> claude_arguments(const std::string& swarmctl) {
  json server{{"mcpServers", {{"swarm", {{"command", swarmctl}, {"args", json::array({"mcp"})}, {"alwaysLoad", true}}}}}};
  return {"--mcp-config", server.dump(), "--settings", claude_settings(swarmctl).dump()};
}

// -- Codex: TOML values on its command line, in which a JSON string or list of strings is one, too.

struct codex_hook {
  const char* name;
  const char* key; // in the trust it keeps
  const char* event;
};
constexpr codex_hook codex_hooks[] = {{"SessionStart", "session_start", "session-start"},
                                      {"UserPromptSubmit", "user_prompt_submit", "prompt-submit"},
                                      {"PreToolUse", "pre_tool_use", "pre-tool-use"},
                                      {"PostToolUse", "post_tool_use", "post-tool-use"},
                                      {"Stop", "stop", "stop"},
                                      {"PermissionRequest", "permission_request", "notification"}};
/// Codex asks its user about every hook it does not know, and keeps a digest of the hook's canonical form. Who starts it with our hooks
/// vouches for them, for this process.
std::string codex_digest(const codex_hook& h, const std::string& command) {
  nlohmann::json canonical{
    {"event_name", h.key},
    {"hooks", nlohmann::json::array({{{"async", false}, {"command", command}, {"timeout", hook_timeout_s}, {"type", "command"}}})}};
  return "sha256:" + to_hex(sha256(canonical.dump()));
}

std::string toml(const std::string& text) { return json(text).dump(); }

/// The trust that goes with a dispatch: the directory, and the repository it is in.
std::string codex_projects(const std::string& directory) {
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

std::vector<std::string> codex_arguments(const std::string& swarmctl, const std::string& directory) {
  json variables = json::array();
  for (const auto* name : passed_on)
    variables.push_back(name);
  // Its daemon would run our server and hooks in another environment than the worker's, and outlive it.
  std::vector<std::string> out{"--no-daemon", "-c",
                               "mcp_servers.swarm={command=" + toml(swarmctl) + ",args=[\"mcp\"],env_vars=" + variables.dump() +
                                 ",default_tools_approval_mode=\"approve\"}",
                               "-c", codex_projects(directory)};
  std::string trust;
  for (const auto& h : codex_hooks) {
    auto command = shell_quoted(swarmctl) + " hook codex " + h.event;
    out.insert(out.end(), {"-c", std::string{"hooks."} + h.name + "=[{hooks=[{type=\"command\",command=" + toml(command) +
                                   ",timeout=" + std::to_string(hook_timeout_s) + "}]}]"});
    trust += (trust.empty() ? "" : ",") + toml(std::string{"/<session-flags>/config.toml:"} + h.key + ":0:0") +
             "={trusted_hash=" + toml(codex_digest(h, command)) + "}";
  }
  out.insert(out.end(), {"-c", "hooks.state={" + trust + "}"});
  return out;
}

/// A file of ours that the agent's program is to read, or empty.
std::string shared_file(const std::string& program, const std::string& share, const char* name) {
  namespace fs = std::filesystem;
  const auto directory = share_directory(share, program);
  std::error_code ec;
  return !directory.empty() && fs::exists(directory / name, ec) ? (directory / name).string() : std::string{};
}

/// A file of ours that the program is not started without.
struct needed_file {
  std::string_view harness;
  const char* path; // in the share directory
  const char* without;
};
constexpr needed_file needed_files[] = {
  {"opencode", "agents/opencode/swarm.js", "OpenCode would work without looking at locks and could not be woken: its plugin"},
  {"gemini", "agents/gemini/swarm.toml",
   "Gemini CLI would ask before each of the swarm's tools, and nobody would be there to answer: our policy for it"}};

const needed_file* needed_by(std::string_view harness) {
  const auto* end = std::end(needed_files);
  const auto* found = std::find_if(std::begin(needed_files), end, [&](const auto& f) { return f.harness == harness; });
  return found == end ? nullptr : found;
}

std::string opencode_config(const std::string& swarmctl, const std::string& share) {
  json config{{"mcp", {{"swarm", {{"type", "local"}, {"command", json::array({swarmctl, "mcp"})}, {"enabled", true}}}}}};
  config["plugin"] = json::array({"file://" + shared_file(swarmctl, share, needed_by("opencode")->path)});
  return config.dump();
}

/// A server that its user has set up is not trusted, and stands before ours of that name: nobody is there to allow each of its tools. Policies
/// that are named replace the user's own, so those are named, too.
std::vector<std::string> gemini_arguments(const std::string& swarmctl, const std::string& share) {
  return {"--skip-trust", "--policy", shared_file(swarmctl, share, needed_by("gemini")->path), "--policy", "~/.gemini/policies"};
}

} // namespace

std::vector<std::string> agent_arguments(std::string_view harness, const std::string& swarmctl, const std::string& directory,
                                         const std::string& share) {
  if (harness == "claude")
    return claude_arguments(swarmctl);
  if (harness == "codex")
    return codex_arguments(swarmctl, directory);
  if (harness == "gemini")
    return gemini_arguments(swarmctl, share);
  return {};
}

std::vector<std::string> agent_environment(std::string_view harness, const std::string& swarmctl, const std::string& share) {
  if (harness == "opencode")
    return {"OPENCODE_CONFIG_CONTENT=" + opencode_config(swarmctl, share)};
  if (harness == "gemini") {
    // One process: a signal for the worker must reach the program. It takes such settings from root only, as a package installs them;
    // anybody else's come from `swarmctl install`.
    std::vector<std::string> out{"GEMINI_CLI_NO_RELAUNCH=true"};
    if (auto settings = shared_file(swarmctl, share, "agents/gemini/settings.json"); !settings.empty())
      out.push_back("GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + settings);
    return out;
  }
  return {};
}

std::string agent_obstacle(std::string_view harness, const std::string& swarmctl, const std::string& share) {
  const auto* needed = needed_by(harness);
  if (!needed || !shared_file(swarmctl, share, needed->path).empty())
    return {};
  auto directory = share_directory(share, swarmctl);
  return std::string{needed->without} + " is not there, " +
         (directory.empty() ? "and no share/swarm-fabric is beside the directory of " + swarmctl : (directory / needed->path).string()) +
         ". Install the whole package, or set SWARM_SHARE to the directory that has agents/" + std::string{harness} +
         " (deploy/ of the source tree); then dispatch again";
}

// Codex calls its first hook with the first prompt only.
bool agent_has_hooks(std::string_view harness) noexcept { return harness == "claude" || harness == "opencode" || harness == "gemini"; }

} // namespace swarm
