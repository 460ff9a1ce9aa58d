#include "services/driver/permissions.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "actors/agents/json_view.hpp"
#include "actors/agents/tools.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/shell/protected.hpp"

namespace swarm::driver {

namespace {

using agents::json_view;
using rule_kind = internal::Permissions;

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::string_view nothing_changes = "Nothing may be changed in this conversation for now; say what you would do";
/// What only a person can answer, like a question.
constexpr std::array<std::string_view, 1> for_people{"ExitPlanMode"};
/// What changes nothing; the agent asks for it outside of its directory.
constexpr std::array<std::string_view, 8> reading{"Read", "Glob", "Grep", "LS", "NotebookRead", "LSP", "WebFetch", "WebSearch"};
/// What works on the agent's own notes and tasks, or has other tools work, which are looked at themselves.
constexpr std::array<std::string_view, 18> planning{
  "AskUserQuestion", "Task",          "Agent",          "SendMessage", "ListAgents",           "TodoWrite",
  "TaskCreate",      "TaskUpdate",    "TaskGet",        "TaskList",    "TaskOutput",           "TaskStop",
  "CronList",        "EnterPlanMode", "ReportFindings", "ToolSearch",  "ListMcpResourcesTool", "ReadMcpResourceTool"};
/// Names of files and directories that say what is run, or what an agent may do.
constexpr std::array<std::string_view, 35> deciding{".git",          ".gitconfig",
                                                    ".gitmodules",   ".gitattributes",
                                                    ".github",       ".claude",
                                                    ".claude.json",  ".mcp.json",
                                                    ".codex",        ".gemini",
                                                    ".opencode",     ".vscode",
                                                    ".idea",         ".husky",
                                                    ".envrc",        ".npmrc",
                                                    ".yarnrc",       ".yarnrc.yml",
                                                    ".cargo",        ".bashrc",
                                                    ".zshrc",        ".bash_profile",
                                                    ".profile",      ".zprofile",
                                                    ".bash_login",   ".zshenv",
                                                    ".ssh",          ".gnupg",
                                                    ".config",       ".local",
                                                    ".devcontainer", ".netrc",
                                                    ".bash_aliases", ".pre-commit-config.yaml",
                                                    ".circleci"};

/// What a pattern's argument is compared with; nothing when no pattern fits, however the request looks.
std::optional<std::string> argument_of(const internal::Request& asked, const json_view& body) {
  const json_view::members input{body};
  if (asked.kind() == internal::Request::COMMAND) {
    // Other members may change how the command runs, for example outside the agent's sandbox.
    constexpr std::array<std::string_view, 4> known{"command", "description", "timeout", "run_in_background"};
    for (const auto& [name, value] : input.all())
      if (!is_one_of(name.text(), known))
        return std::nullopt;
    auto command = input["command"].text();
    if (command.empty() || command.find_first_of(std::string_view{";&|<>()`$\n\r\0", 12}) != command.npos)
      return std::nullopt;
    return command;
  }
  if (asked.kind() == internal::Request::FILE)
    return asked.writes_size() == 1 ? std::optional{target_path(asked.writes(0).name())} : std::nullopt;
  if (asked.kind() != internal::Request::TOOL || is_one_of(asked.tool(), for_people))
    return std::nullopt;
  for (const auto& [tool, name] : {std::pair{"WebFetch", "url"}, {"WebSearch", "query"}, {"Read", "file_path"}})
    if (asked.tool() == tool)
      return input[name].text();
  return std::string{body.raw()};
}

/// Tool, or Tool(argument).
bool fits(std::string_view pattern, std::string_view tool, std::string_view argument) {
  if (pattern == tool)
    return true;
  return pattern.size() == tool.size() + argument.size() + 2 && pattern.starts_with(tool) && pattern[tool.size()] == '(' && pattern.ends_with(')') &&
         pattern.substr(tool.size() + 1, argument.size()) == argument;
}

bool has_deciding_name(std::string_view path) {
  while (!path.empty()) {
    const auto name = path.substr(0, path.find('/'));
    if (is_one_of(name, deciding))
      return true;
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return false;
}

internal::HookQuestion as_question(const internal::Request& asked, std::string_view body, const std::string& here) {
  internal::HookQuestion q;
  q.set_tool(asked.tool());
  q.set_input(std::string{body});
  q.set_directory(here);
  return q;
}

/// Whatever it is given.
bool changes_nothing(std::string_view tool) { return is_one_of(tool, reading) || is_one_of(tool, for_people) || is_one_of(tool, planning); }

ruling denied(std::string rule, std::string reason) { return {ruling::kind::deny, std::move(rule), std::move(reason)}; }

} // namespace

void permission_rules::set(internal::Permissions permissions, moment now) {
  permissions_ = std::move(permissions);
  if (permissions_.allowed_size() > static_cast<int>(limits::conversation_patterns_max))
    permissions_.mutable_allowed()->DeleteSubrange(static_cast<int>(limits::conversation_patterns_max),
                                                   permissions_.allowed_size() - static_cast<int>(limits::conversation_patterns_max));
  known_ = true;
  auto_until_ = now.boot_ms + std::clamp<std::int64_t>(permissions_.end_ms() - now.unix_ms, 0, limits::conversation_bypass_max.count());
}

bool permission_rules::is_auto(moment now) const {
  return permissions_.kind() == rule_kind::AUTO && now.unix_ms < permissions_.end_ms() && now.boot_ms < auto_until_;
}

bool permission_rules::is_plain_file_below(const std::string& path) const {
  if (at_.directory.empty())
    return false;
  const auto root = real_path(at_.directory);
  const auto file = target_path(path);
  if (file == root || !is_inside(root, file) || is_setting_at_home(path) || is_setting_at_home(file))
    return false;
  // By its own name and by that of the link which was named.
  return !has_deciding_name(path_below(root, file)) && !has_deciding_name(path_below(is_inside(at_.directory, path) ? at_.directory : root, path));
}

/// Many programs keep what they run in a file of this kind.
bool permission_rules::is_setting_at_home(const std::string& path) const {
  if (at_.home.empty())
    return false;
  const auto real = real_path(at_.home);
  for (const auto* home : {&at_.home, &real})
    if (path != *home && is_inside(*home, path) && path_below(*home, path).starts_with('.'))
      return true;
  return false;
}

std::string permission_rules::matching_pattern(const internal::Request& asked, std::string_view body) const {
  if (permissions_.allowed().empty())
    return {};
  const auto argument = argument_of(asked, json_view::of(body));
  if (!argument)
    return {};
  for (const auto& pattern : permissions_.allowed())
    if (fits(pattern, asked.tool(), *argument))
      return pattern;
  return {};
}

agents::tool_writes permission_rules::writes_of(const internal::Request& asked, std::string_view body, const std::string& here) const {
  return writes_of(as_question(asked, body, here));
}

std::string permission_rules::why_kept_out(const internal::Request& asked, std::string_view body, const std::string& here) const {
  return agents::kept_out_of(at_.kept_out, as_question(asked, body, here), at_.place()).reason;
}

std::string permission_rules::why_not_run(const internal::HookQuestion& question) const {
  if (changes_nothing(question.tool()))
    return {};
  if (auto out = agents::kept_out_of(at_.kept_out, question, at_.place()); !out.rule.empty())
    return std::move(out.reason);
  return permissions_.kind() == rule_kind::PLAN && !agents::is_of_fabric(question.tool()) ? std::string{nothing_changes} : std::string{};
}

ruling permission_rules::decide(const internal::Request& asked, std::string_view body, const std::string& here, const internal::Locks& locks,
                                moment now) const {
  const auto question = as_question(asked, body, here);
  if (auto out = agents::kept_out_of(at_.kept_out, question, at_.place()); !out.rule.empty())
    return denied(std::move(out.rule), std::move(out.reason));
  const auto held = agents::held_against(locks, writes_of(question));
  if (held.what == agents::held_path::kind::held)
    return denied(concat({"a peer holds ", held.path}), concat({"A peer holds ", held.path, ". Do something else first, and try again later"}));
  const auto kind = permissions_.kind();
  if (kind == rule_kind::DENY)
    return denied("deny", "Whatever needs a permission is denied in this conversation; go on without it");
  if (asked.kind() == internal::Request::QUESTION || is_one_of(asked.tool(), for_people))
    return {};
  if (kind == rule_kind::PLAN && !is_one_of(asked.tool(), reading) && !agents::is_of_fabric(asked.tool()))
    return denied("plan", std::string{nothing_changes});
  ruling allowed{ruling::kind::allow};
  if (is_auto(now))
    allowed.rule = "auto";
  else if (kind == rule_kind::AUTO_EDIT && asked.kind() == internal::Request::FILE && asked.writes_size() == 1 &&
           is_plain_file_below(asked.writes(0).name()))
    allowed.rule = "auto-edit";
  else if (auto pattern = matching_pattern(asked, body); !pattern.empty())
    allowed.rule = "allowed: " + pattern;
  else
    return {};
  return held.what == agents::held_path::kind::perhaps ? ruling{} : allowed;
}

std::string permission_rules::pattern_of(const internal::Request& asked, std::string_view body) const {
  const auto argument = argument_of(asked, json_view::of(body));
  if (!argument || argument->empty() || asked.tool().empty() || asked.tool().find_first_of("()") != std::string::npos)
    return {};
  // The shell expands these, so the same text may mean different files.
  if (asked.kind() == internal::Request::COMMAND && argument->find_first_of("*?[{~") != std::string::npos)
    return {};
  if (asked.kind() == internal::Request::FILE && !is_plain_file_below(asked.writes(0).name()))
    return {};
  auto pattern = concat({asked.tool(), "(", *argument, ")"});
  const bool has_control = std::any_of(pattern.begin(), pattern.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return has_control || pattern.size() > limits::conversation_pattern_bytes_max ? std::string{} : pattern;
}

} // namespace swarm::driver
