#include "cli/targets.hpp"

#include <algorithm>
#include <functional>

#include <sys/stat.h>

// As in actors/base/limits_config.cpp: a malformed file is refused, not asserted.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/toml_text.hpp"
#include "cli/edit/file.hpp"
#include "cli/edit/json.hpp"
#include "cli/edit/toml.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t name_bytes_max = 64;
constexpr const char* heading = "# The nodes swarmctl knows by name; written by: swarmctl context set. Comments are not kept.\n";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_context_name(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max && is_word(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_word(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_absolute_directory(const std::string& path) {
  return !path.empty() && path.front() == '/' && std::none_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// The fields of an entry, in the order they are written.
constexpr std::pair<const char*, std::string target::*> fields[] = {
  {"ssh", &target::ssh},
  {"state_dir", &target::state_dir},
  {"remote_state_dir", &target::remote_state_dir},
  {"scope", &target::scope},
};

std::size_t line_of(const toml::node& node) { return std::max<std::size_t>(node.source().begin.line, 1); }

std::string text_of(const toml::node& node, const std::string& what) {
  auto value = node.value_exact<std::string>();
  if (!value)
    throw unreadable(line_of(node), what + " must be a text in quotes");
  return *value;
}

target parse_entry(const std::string& name, const toml::node& node) {
  const auto* table = node.as_table();
  if (!table)
    throw unreadable(line_of(node), "context." + name + " must be a table: [context." + name + "]");
  target out;
  out.name = name;
  for (const auto& [key, value] : *table) {
    auto field = std::find_if(std::begin(fields), std::end(fields), [k = key.str()](const auto& f) { return k == f.first; });
    if (field == std::end(fields))
      throw unreadable(line_of(value), "unknown key \"" + std::string{key.str()} + "\"; there are ssh, state_dir, remote_state_dir and scope");
    out.*(field->second) = text_of(value, field->first);
  }
  if (auto wrong = objection_to(out); !wrong.empty())
    throw unreadable(line_of(node), wrong);
  return out;
}

context_list parse_contexts(std::string text) {
  if (auto wrong = make_fit_for_toml(text))
    throw unreadable(std::max<std::size_t>(wrong->line, 1), wrong->text);
  toml::table file;
  try {
    file = toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw unreadable(e.source().begin.line, "this is not TOML: " + std::string{e.description()});
  }
  context_list out;
  for (const auto& [key, value] : file) {
    if (key.str() == "current") {
      out.current = text_of(value, "current");
    } else if (key.str() == "context" && value.is_table()) {
      for (const auto& [name, entry] : *value.as_table())
        out.contexts.push_back(parse_entry(std::string{name.str()}, entry));
    } else {
      throw unreadable(line_of(value), "unknown key \"" + std::string{key.str()} + "\"; there are current and [context.NAME]");
    }
  }
  if (out.contexts.size() > contexts_max)
    throw unreadable(1, "more than " + std::to_string(contexts_max) + " contexts");
  if (out.current == default_context)
    out.current.clear();
  if (!out.current.empty() && !out.find(out.current))
    throw unreadable(line_of(*file.get("current")), "current names \"" + escape_control(out.current) + "\", which is no context of this file");
  return out;
}

std::string text_of_contexts(const context_list& list) {
  std::string out = heading;
  if (!list.current.empty())
    out += "current = " + toml_quoted(list.current) + "\n";
  for (const auto& c : list.contexts) {
    // A name may have a dot in it, which would be a table below a table.
    out += "\n[context." + toml_quoted(c.name) + "]\n";
    for (const auto& [key, field] : fields)
      if (!(c.*field).empty())
        out += std::string{key} + " = " + toml_quoted(c.*field) + "\n";
  }
  return out;
}

context_list contexts_of(const settings_file& file) {
  if (!file.bytes)
    return {};
  if (file.bytes->size() > contexts_file_bytes_max)
    throw failure(code::refused, file.path.string() + ": longer than " + std::to_string(contexts_file_bytes_max) + " bytes");
  // A user who can write it decides which program of which host commands go to.
  struct stat info {};
  if (stat(file.target.c_str(), &info) == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw failure(code::refused, file.path.string() + ": others can write this file; look at it, then: chmod 600 " + file.path.string());
  try {
    return parse_contexts(*file.bytes);
  } catch (const unreadable& e) {
    throw failure(code::refused, file.path.string() + ": " + e.what());
  }
}

target named_in_file(const std::string& name, const std::string& source, const environment& env) {
  auto path = contexts_file(env);
  auto list = read_contexts(path);
  const auto* found = list.find(name);
  if (!found)
    throw failure(code::refused, source + " names \"" + escape_control(name, false) + "\", and there is no such context in " + path.string() +
                                   "; see: swarmctl context list");
  return *found;
}

} // namespace

const target* context_list::find(std::string_view name) const {
  auto i = std::find_if(contexts.begin(), contexts.end(), [&](const target& c) { return c.name == name; });
  return i == contexts.end() ? nullptr : &*i;
}

std::string objection_to(const target& c) {
  if (c.name == default_context)
    return "\"default\" is the node of this user and cannot be another one";
  if (!is_context_name(c.name))
    return "a context is named by up to 64 letters, digits and . - _, the first a letter or digit, not \"" + escape_control(c.name, false) + "\"";
  for (const auto& [key, field] : fields)
    if ((c.*field).size() > context_value_bytes_max)
      return std::string{key} + " of " + c.name + " is longer than " + std::to_string(context_value_bytes_max) + " bytes";
  if (c.ssh.empty() == c.state_dir.empty())
    return "context " + c.name + " needs either ssh (the node of another host) or state_dir (another node of this one)";
  if (!c.ssh.empty() && !parse_ssh_host(c.ssh))
    return "ssh of " + c.name + " must be [USER@]HOST or ssh://[USER@]HOST[:PORT], not \"" + escape_control(c.ssh, false) + "\"";
  if (!c.state_dir.empty() && !is_absolute_directory(c.state_dir))
    return "state_dir of " + c.name + " must be an absolute path";
  if (!c.remote_state_dir.empty() && (c.ssh.empty() || !is_absolute_directory(c.remote_state_dir)))
    return "remote_state_dir of " + c.name + " must be an absolute path of the other host, and goes with ssh only";
  if (!c.scope.empty() && !is_named_scope(c.scope) && !is_absolute_directory(c.scope))
    return "scope of " + c.name + " must be a name or an absolute path";
  return {};
}

fs::path contexts_file(const environment& env) {
  if (auto given = env.get("XDG_CONFIG_HOME"); !given.empty() && given.front() == '/')
    return fs::path{given} / "swarm" / "contexts.toml";
  auto home = env.get("HOME");
  if (home.empty())
    throw failure(code::refused, "neither XDG_CONFIG_HOME nor HOME is set, so there is no place for contexts");
  return fs::path{home} / ".config" / "swarm" / "contexts.toml";
}

context_list read_contexts(const fs::path& path) { return contexts_of(read_settings(path)); }

void change_contexts(const fs::path& path, const std::function<void(context_list&)>& change) {
  constexpr int attempts = 10;
  for (int i = 0; i < attempts; ++i) {
    auto file = read_settings(path);
    auto list = contexts_of(file);
    change(list);
    if (list.contexts.size() > contexts_max)
      throw failure(code::refused,
                    "there are " + std::to_string(contexts_max) + " contexts already; take one away with: swarmctl context delete NAME");
    std::sort(list.contexts.begin(), list.contexts.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    try {
      replace_settings(file, text_of_contexts(list), false);
      return;
    } catch (const changed_meanwhile&) {
      // Keep the other process's change: try again on top of it.
    }
  }
  throw failure(code::refused, path.string() + " is being changed by others all the time; try again");
}

chosen_node choose_node(const std::string& flag, const environment& env, node_choice from) {
  if (env.in_worker() && !flag.empty())
    throw failure(code::refused, "a worker speaks to the node it runs on; --context is for the person running this host");
  if (from == node_choice::own && !flag.empty())
    throw failure(code::usage, "--context does not go with this command, which is about this host");
  if (env.in_worker() || from == node_choice::own)
    return {};
  auto named = [&](const std::string& name, const char* source) -> chosen_node {
    if (name == default_context)
      return {std::nullopt, source};
    return {named_in_file(name, source, env), source};
  };
  if (!flag.empty())
    return named(flag, "--context");
  if (auto name = env.get("SWARM_CONTEXT"); !name.empty())
    return named(name, "SWARM_CONTEXT");
  if (!env.get("SWARM_HOME").empty())
    return {std::nullopt, "SWARM_HOME"};
  // Without a home there is no file either.
  if (from == node_choice::told || (env.get("HOME").empty() && env.get("XDG_CONFIG_HOME").empty()))
    return {};
  auto list = read_contexts(contexts_file(env));
  if (list.current.empty())
    return {};
  return {*list.find(list.current), "current"};
}

} // namespace swarm::cli
