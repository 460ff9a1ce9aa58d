#include "cli/hook/event.hpp"

#include "actors/agents/tools.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/domain/json_text.hpp"
#include "gateway/json/shapes.hpp"
#include "gateway/session/file_uri.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <pwd.h>

namespace swarm::cli {

namespace {

using domain::text_in;

constexpr std::pair<std::string_view, hook_event> events[] = {
  {"session-start", hook_event::session_start}, {"pre-tool-use", hook_event::pre_tool_use},   {"post-tool-use", hook_event::post_tool_use},
  {"session-end", hook_event::session_end},     {"prompt-submit", hook_event::prompt_submit}, {"stop", hook_event::stop},
  {"notification", hook_event::notification},
};

constexpr std::string_view directory_keys[] = {"workdir", "cwd", "directory", "dir_path", "dir"};

/// Whether an account may be called so, also one of a domain: ada@example.org, EXAMPLE\ada. Most texts that begin with ~ name none, and each
/// question may go to a server.
bool may_be_account(std::string_view name) {
  constexpr std::size_t longest = 256; // LOGIN_NAME_MAX
  constexpr std::string_view others = "_.-@+\\";
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= longest && (is_letter(name.front()) || is_digit(name.front())) &&
         std::any_of(name.begin(), name.end(), is_letter) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c) || others.find(c) != others.npos; });
}

/// The home directories of the accounts that one event names. Each is asked for once.
class account_homes {
public:
  explicit account_homes(const account_home& look_up) : look_up_(look_up) {}
  /// Absolute; empty when there is no such account.
  const std::string& of(const std::string& account) {
    auto [known, is_new] = known_.try_emplace(account);
    if (is_new && may_be_account(account))
      known->second = look_up_(account);
    return known->second;
  }

private:
  const account_home& look_up_;
  std::map<std::string, std::string> known_;
};

/// Where a tool runs.
struct tool_place : shell::place {
  account_homes* accounts;
};

/// The path that a program makes of ~, ~/x and ~account/x; empty for another text.
std::string below_home(const std::string& text, const tool_place& where) {
  if (text.empty() || text.front() != '~')
    return {};
  const auto end = std::min(text.find('/'), text.size());
  const auto home = end == 1 ? where.home : where.accounts->of(text.substr(1, end - 1));
  return home.empty() ? std::string{} : home + text.substr(end);
}

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

std::string without_percent(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool coded = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    out += coded ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    i += coded ? 2 : 0;
  }
  return out;
}

void add_path(const std::string& path, const tool_place& where, std::vector<shell::written_path>& out) {
  if (!path.empty() && path.size() <= limits::path_bytes_max() && path.find('\0') == path.npos && out.size() <= limits::hook_paths_max)
    out.push_back({normalize_path(path, where.directory), false, false});
}

/// Adds every path that a program may take the text for. One expands `~` or reads a URI, another takes both as they stand.
void add_path_of_tool(const std::string& text, const tool_place& where, std::vector<shell::written_path>& out) {
  add_path(text, where, out);
  add_path(below_home(text, where), where, out);
  const std::string in_uri{mcp::path_of_file_uri(text).value_or("")};
  if (!in_uri.starts_with('/') && !in_uri.starts_with('~'))
    return;
  add_path(in_uri, where, out);
  const auto decoded = without_percent(in_uri);
  if (decoded != in_uri)
    add_path(decoded, where, out);
  add_path(below_home(decoded, where), where, out);
}

void add_envelopes(const json& input, const tool_place& where, std::vector<shell::written_path>& out) {
  auto look = [&](const json& value) {
    if (value.is_string() && value.get_ref<const std::string&>().find(agents::patch_mark) != std::string::npos)
      for (const auto& path : shell::paths_in_envelope(value.get_ref<const std::string&>()))
        add_path_of_tool(path, where, out);
  };
  look(input);
  if (input.is_object())
    for (const auto& [key, value] : input.items())
      look(value);
}

void add_named(const json& input, const tool_place& where, std::vector<shell::written_path>& out) {
  if (!input.is_object())
    return;
  for (auto key : agents::path_parameters())
    add_path_of_tool(text_in(input, key), where, out);
}

/// Every text in it that is a path as a whole.
void add_all_named(const json& value, const tool_place& where, std::vector<shell::written_path>& out) {
  if (out.size() > limits::hook_paths_max)
    return;
  if (value.is_structured()) {
    for (const auto& inner : value)
      add_all_named(inner, where, out);
    return;
  }
  if (!value.is_string())
    return;
  if (const auto& text = value.get_ref<const std::string&>(); text.find('\n') == text.npos)
    add_path_of_tool(text, where, out);
}

std::vector<std::string> words_in(const json& argv) {
  std::vector<std::string> out;
  for (const auto& word : argv)
    if (word.is_string())
      out.push_back(word);
  return out;
}

/// Where a shell tool's command runs: its directory as it stands, and expanded when that is another one.
std::vector<tool_place> places_of_command(const json& input, const tool_place& where) {
  auto plain = where, expanded = where;
  for (auto key : directory_keys)
    if (auto directory = text_in(input, key); !directory.empty() && directory.size() <= limits::path_bytes_max()) {
      std::vector<shell::written_path> readings;
      add_path_of_tool(directory, expanded, readings);
      if (!readings.empty())
        expanded.directory = readings.back().path;
      plain.directory = normalize_path(directory, plain.directory);
    }
  return plain.directory == expanded.directory ? std::vector{plain} : std::vector{plain, expanded};
}

/// ["bash", "-lc", "…"] or one text.
void add_shell(const json& input, const tool_place& where, tool_use& use) {
  json command = input.is_string() ? input : json();
  for (auto key : agents::script_parameters())
    if (command.is_null() && input.is_object() && input.contains(key))
      command = input.at(std::string{key});
  const auto places = places_of_command(input, where);
  auto add = [&](std::vector<shell::written_path> paths) { std::move(paths.begin(), paths.end(), std::back_inserter(use.paths)); };
  if (command.is_string()) {
    use.script = command.get<std::string>();
    for (const auto& place : places) {
      add(shell::paths_written_by(use.script, place));
      if (use.script.starts_with(agents::patch_mark))
        add_envelopes(command, place, use.paths);
    }
  } else if (command.is_array()) {
    use.unreadable = !std::all_of(command.begin(), command.end(), [](const json& word) { return word.is_string(); });
    const auto argv = words_in(command);
    for (const auto& word : argv)
      use.script += (use.script.empty() ? "" : " ") + word;
    for (const auto& place : places)
      add(shell::paths_written_by(argv, place));
  } else {
    // Code of another language has other keys.
    const auto scripts = agents::script_parameters();
    auto is_given = [&](std::string_view key) { return input.contains(key); };
    use.unreadable = !input.is_object() || input.empty() || std::any_of(scripts.begin(), scripts.end(), is_given);
  }
}

json hook_specific(const char* event, const char* field, const std::string& text) {
  return {{"hookSpecificOutput", {{"hookEventName", event}, {field, text}}}};
}

/// The agent's name for the event. OpenCode's plugin uses Claude's names.
const char* event_name(const agents::agent& agent, hook_event event) {
  const auto& hooks = agent.hooks.empty() ? agents::find("claude")->hooks : agent.hooks;
  // An agent may have several events for one of ours; the last one listed always exists.
  for (auto h = hooks.rbegin(); h != hooks.rend(); ++h)
    if (find_hook_event(h->verb) == event)
      return h->event;
  return "";
}

} // namespace

std::optional<hook_event> find_hook_event(std::string_view name) {
  for (const auto& [text, event] : events)
    if (name == text)
      return event;
  return std::nullopt;
}

std::string home_of_account(const std::string& account) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> room{};
  bool known = getpwnam_r(account.c_str(), &entry, room.data(), room.size(), &found) == 0 && found && entry.pw_dir && entry.pw_dir[0] == '/';
  return known ? entry.pw_dir : std::string{};
}

tool_use tool_use_of(const json& event, const shell::place& directory, const account_home& look_up) {
  account_homes accounts{look_up};
  const tool_place where{directory, &accounts};
  tool_use use;
  use.tool = text_in(event, "tool_name");
  use.unreadable = use.tool.empty();
  const auto kind = agents::kind_of_tool(use.tool);
  const bool of_server = agents::tool_name(use.tool).size() != use.tool.size();
  static const json none = json::object();
  auto i = event.is_object() ? event.find("tool_input") : event.end();
  const auto& input = event.is_object() && i != event.end() ? *i : none;
  if (kind == agents::tool_kind::runs) {
    use.what = tool_use::kind::shell;
    add_shell(input, where, use);
  } else if (kind == agents::tool_kind::writes) {
    use.what = tool_use::kind::write;
    add_named(input, where, use.paths);
    if (agents::takes_patches(use.tool))
      add_envelopes(input, where, use.paths);
    // A tool of this name in somebody's MCP server may write something else than files.
    use.unreadable = use.paths.empty() && !of_server;
  }
  const bool ours = !of_server && use.what != tool_use::kind::other;
  if (!ours && kind != agents::tool_kind::reads)
    add_all_named(input, where, use.named);
  if (use.what == tool_use::kind::other)
    return use;
  use.cut = use.paths.size() > limits::hook_paths_max || use.script.size() > limits::hook_script_bytes_max;
  use.paths.resize(std::min(use.paths.size(), limits::hook_paths_max));
  use.key = text_in(event, "tool_use_id");
  if (use.key.empty() || use.key.size() > limits::id_bytes_max)
    use.key = to_hex(sha256(use.tool + '\0' + use.key + mcp::dump(input, -1))).substr(0, 32);
  return use;
}

json hook_denial(const agents::agent& agent, const std::string& reason) {
  switch (agent.what) {
    case agents::program::hermes: return {{"action", "block"}, {"message", reason}};
    case agents::program::opencode: return {{"decision", "block"}, {"reason", reason}};
    case agents::program::gemini: return {{"decision", "deny"}, {"reason", reason}};
    default: break;
  }
  return {{"hookSpecificOutput", {{"hookEventName", "PreToolUse"}, {"permissionDecision", "deny"}, {"permissionDecisionReason", reason}}}};
}

json hook_context(const agents::agent& agent, hook_event event, const std::string& text) {
  bool before_tool = event == hook_event::pre_tool_use;
  switch (agent.what) {
    case agents::program::hermes: return json{{"context", text}};
    // Before a tool, Codex and Gemini accept only a message for people.
    case agents::program::codex:
    case agents::program::gemini:
      if (before_tool)
        return json{{"systemMessage", text}};
      break;
    default: break;
  }
  return hook_specific(event_name(agent, event), "additionalContext", text);
}

} // namespace swarm::cli
