// Patterns of what the agent of a conversation may do unasked: a tool's name, or TOOL(EXACT ARGUMENT). Its driver compares them
// (services/driver/permissions.cpp).
#include <algorithm>
#include <array>

#include "actors/base/text.hpp"
#include "actors/domain/conversation/rules.hpp"

namespace swarm::domain {

namespace {

using conversation = v1::Conversation;

constexpr std::size_t field_bytes = 4; // of a pattern in a frame, beside its text

constexpr std::array<std::string_view, 5> of_files{"Read", "Write", "Edit", "MultiEdit", "NotebookEdit"};

/// Why the driver would find that no command of the shell is this one.
std::string why_no_command(std::string_view argument) {
  if (argument.empty())
    return "no command is empty. Allow Bash for every command.";
  if (argument == "*" || argument.ends_with(":*"))
    return "* stands for itself. Give the whole command, for instance Bash(make test).";
  if (argument.find_first_of(";&|<>()`$") != argument.npos)
    return "several commands in one line, redirections and variables are always asked about. Give one plain command.";
  return {};
}

std::string why_no_file(std::string_view argument) {
  if (!argument.starts_with('/'))
    return "files are compared by their absolute path. Give that.";
  if (argument.ends_with("/*") || argument.find("**") != argument.npos)
    return "* stands for itself. Give one file, or take --permissions auto-edit.";
  return {};
}

/// Why nothing would ever match the pattern; empty = something may.
std::string why_never(std::string_view pattern, std::string_view harness) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(pattern.begin(), pattern.end(), is_control))
    return "a pattern is one line of text.";
  const auto open = pattern.find('(');
  const auto tool = pattern.substr(0, open);
  const auto is_of_name = [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '*' && c != ')'; };
  if (tool.empty() || !std::all_of(tool.begin(), tool.end(), is_of_name))
    return "a pattern is the name of a tool, or TOOL(EXACT ARGUMENT).";
  if (harness == "claude" && tool.front() >= 'a' && tool.front() <= 'z' && !tool.starts_with("mcp__"))
    return "tools of claude begin with a capital letter, for instance Bash, or with mcp__.";
  if (open == pattern.npos)
    return {};
  if (!pattern.ends_with(')'))
    return "the bracket is not closed at its end.";
  const auto argument = pattern.substr(open + 1, pattern.size() - open - 2);
  if (tool == "Bash")
    return why_no_command(argument);
  return std::find(of_files.begin(), of_files.end(), tool) == of_files.end() ? std::string{} : why_no_file(argument);
}

} // namespace

std::optional<v1::Reply> check_new_patterns(const pattern_list& patterns, const std::string& harness) {
  for (const auto& pattern : patterns)
    if (const auto why = pattern.empty() ? std::string{} : why_never(pattern, harness); !why.empty())
      return refuse(v1::Refusal::INVALID, "Nothing would ever match the pattern \"" + pattern + "\": " + why);
  return std::nullopt;
}

int add_patterns(conversation& c, const pattern_list& patterns) {
  const auto before = c.allowed_size();
  for (const auto& pattern : patterns)
    if (!pattern.empty() && std::find(c.allowed().begin(), c.allowed().end(), pattern) == c.allowed().end())
      c.add_allowed(pattern);
  return c.allowed_size() - before;
}

std::optional<v1::Reply> check_patterns(const conversation& c) {
  if (c.allowed_size() > static_cast<int>(limits::conversation_patterns_max))
    return refuse(v1::Refusal::LIMIT,
                  "At most " + std::to_string(limits::conversation_patterns_max) + " patterns of a conversation allow something. Forget some first.",
                  c.id());
  std::size_t bytes = 0;
  for (const auto& pattern : c.allowed())
    bytes += pattern.size() + field_bytes;
  if (bytes > limits::conversation_patterns_bytes_max)
    return refuse(v1::Refusal::LIMIT,
                  "The patterns of a conversation have at most " + std::to_string(limits::conversation_patterns_bytes_max / limits::kib) +
                    " KiB together. Forget some first.",
                  c.id());
  return std::nullopt;
}

} // namespace swarm::domain
