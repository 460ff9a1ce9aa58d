#include "actors/agents/tools.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace swarm::agents {

namespace {

constexpr std::string_view write_tools[] = {"Write",     "Edit",  "MultiEdit",   "NotebookEdit", "write",     "edit",
                                            "multiedit", "patch", "apply_patch", "write_file",   "edit_file", "replace"};
constexpr std::string_view patch_tools[] = {"apply_patch", "patch"};
constexpr std::string_view shell_tools[] = {
  "Bash",         "bash",    "shell",        "exec_command", "shell_command", "local_shell", "terminal", "run_command", "run_shell_command",
  "unified_exec", "Monitor", "execute_code", "PowerShell",   "REPL",          "Eval"};
constexpr std::string_view other_languages[] = {"execute_code", "PowerShell", "REPL", "Eval"};
constexpr std::string_view lookups[] = {"LSP"};
constexpr std::string_view path_names[] = {"file_path", "filePath", "notebook_path", "absolute_path", "path", "file", "filepath"};
constexpr std::string_view script_names[] = {"command", "cmd", "script"};
// How the name of a tool begins or ends that only looks. One of the other words in it, and it counts as one that writes.
constexpr std::string_view reading_words[] = {"read", "get",  "list", "search", "find",  "view", "show", "stat", "head",  "tail",
                                              "grep", "glob", "tree", "cat",    "query", "ls",   "look", "diff", "fetch", "count"};
constexpr std::string_view writing_words[] = {"write", "edit",   "create", "delete", "remove", "move", "rename",  "update", "replace",
                                              "patch", "apply",  "insert", "append", "save",   "set",  "put",     "copy",   "make",
                                              "mkdir", "upload", "exec",   "run",    "shell",  "bash", "command", "chmod",  "touch"};

bool is_one_of(parameter_names list, std::string_view name) { return std::find(list.begin(), list.end(), name) != list.end(); }

/// read_file, readFile and read-file as "read" and "file".
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> out(1);
  bool small = false;
  for (char c : name) {
    bool capital = c >= 'A' && c <= 'Z';
    bool letter = capital || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if ((capital && small) || (!letter && !out.back().empty()))
      out.emplace_back();
    if (letter)
      out.back() += capital ? static_cast<char>(c + ('a' - 'A')) : c;
    small = letter && !capital;
  }
  if (out.size() > 1 && out.back().empty())
    out.pop_back();
  return out;
}

bool only_reads(std::string_view tool) {
  auto words = words_of(tool);
  return (is_one_of(reading_words, words.front()) || is_one_of(reading_words, words.back())) &&
         std::none_of(words.begin(), words.end(), [](const auto& w) { return is_one_of(writing_words, w); });
}

} // namespace

std::string_view tool_name(std::string_view tool) {
  if (auto mark = tool.rfind("__"); tool.starts_with("mcp__") && mark != tool.npos)
    tool.remove_prefix(mark + 2);
  return tool;
}

bool is_of_fabric(std::string_view tool) {
  constexpr std::string_view ours = "mcp__swarm__";
  if (!tool.starts_with(ours))
    return false;
  tool.remove_prefix(ours.size());
  return !tool.starts_with('_') && tool.find("__") == tool.npos; // else of a server whose name begins so
}

tool_kind kind_of_tool(std::string_view tool) {
  const auto name = tool_name(tool);
  if (is_one_of(shell_tools, name))
    return tool_kind::runs;
  if (is_one_of(write_tools, name))
    return tool_kind::writes;
  return only_reads(name) || is_one_of(lookups, tool) ? tool_kind::reads : tool_kind::other;
}

bool reads_shell_lines(std::string_view tool) { return !is_one_of(other_languages, tool_name(tool)); }

bool takes_patches(std::string_view tool) { return is_one_of(patch_tools, tool_name(tool)); }

parameter_names path_parameters() noexcept { return path_names; }
parameter_names script_parameters() noexcept { return script_names; }

} // namespace swarm::agents
