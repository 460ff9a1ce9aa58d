#include "cli/install/hosts.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "actors/agents/agent.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"
#include "cli/edit/json.hpp"
#include "cli/edit/toml.hpp"
#include "cli/edit/yaml.hpp"
#include "gateway/client/failure.hpp"

namespace swarm::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* server_name = "swarm";
constexpr const char* skill_name = "swarm";
/// Stands in every file that we alone write.
constexpr std::string_view mark = "swarm-fabric";
constexpr const char* toml_comment = "# written by swarmctl install; swarmctl install --uninstall takes it away";
std::string name_of(const std::string& program) { return fs::path{program}.filename().string(); }
bool is_our_program(const std::string& program) { return name_of(program) == "swarmctl"; }

bool is_our_hook(const std::string& command, const std::string& host) {
  auto words = shell_words(command);
  return words.size() >= 4 && is_our_program(words[0]) && words[1] == "hook" && words[2] == host;
}

bool is_before_tool(const agents::hook_spec& hook) { return std::string_view{hook.verb} == "pre-tool-use"; }

std::string hook_command(const install_options& o, const agents::agent& agent, const agents::hook_spec& hook) {
  auto out = agents::hook_command(agent, hook, o.program.string());
  if (is_before_tool(hook))
    out += std::string{o.fail_closed ? " --fail-closed" : ""} + (o.enforce ? " --enforce" : "");
  return out;
}

std::string text_of(const json* value) { return value && value->is_string() ? value->get<std::string>() : std::string{}; }

/// The program of a server entry, "command" being a text or a list.
std::string server_program(const json* entry) {
  if (!entry || !entry->is_object() || !entry->contains("command"))
    return {};
  const auto& command = entry->at("command");
  return command.is_array() ? text_of(command.empty() ? nullptr : &command.front()) : text_of(&command);
}

/// Install names the program by its full path, which hardly anybody does by hand.
std::function<bool(const std::string&)> with_full_path(std::function<std::string(const std::string&)> program) {
  return [program = std::move(program)](const std::string& text) {
    const fs::path named = program(text);
    return named.is_absolute() && is_our_program(named.string());
  };
}

[[noreturn]] void refuse_foreign(const std::string& what, const std::string& program) {
  throw failure(code::refused, "another " + what + " is there under the name " + server_name +
                                 (program.empty() ? "" : " (" + escape_control(program, false) + ")") + "; rename it, or --force to take its place");
}

// -- pieces of JSON files ------------------------------------------------------------

/// Our tool server under that key; `entry` has what must be there, the rest of an entry of ours stays. A file that its program cannot read is not
/// written to, but our entry can be taken out of it.
setting json_server(fs::path file, json_dialect dialect, const std::string& key, json entry, bool force) {
  json_text::path where{key, server_name};
  setting s;
  s.what = "MCP server";
  s.file = std::move(file);
  s.put = [=](const std::string& text, const contents&) {
    json_text t{text, dialect};
    const auto* now = t.find(where);
    bool ours = now && is_our_program(server_program(now));
    if (now && !ours && !force)
      refuse_foreign("MCP server", server_program(now));
    if (!ours) {
      t.set(where, entry);
      return t.text();
    }
    for (const auto& [name, value] : entry.items())
      t.set({key, server_name, name}, value);
    return t.text();
  };
  s.take = [=](const std::string& text, const contents&) {
    json_text t{text};
    if (!is_our_program(server_program(t.find(where))))
      return text;
    t.erase(where);
    if (t.find({key})->empty())
      t.erase({key});
    return t.text();
  };
  s.program = [=](const std::string& text) { return server_program(json_text{text}.find(where)); };
  s.by_install = [=, named = with_full_path(s.program)](const std::string& text) {
    json_text t{text};
    const auto* now = t.find(where);
    // A value that differs is one that the user has changed since.
    return named(text) && std::all_of(entry.items().begin(), entry.items().end(), [&](const auto& item) { return now->contains(item.key()); });
  };
  s.give_back = [where, take = s.take](const std::string& text, const std::string& before) {
    json_text t{text}, earlier{before};
    const auto* entry_then = earlier.find(where);
    if (!entry_then || !is_our_program(server_program(t.find(where))))
      return take(text, {});
    t.set(where, *entry_then);
    return t.text();
  };
  return s;
}

json hook_group(const agents::hook_spec& hook, const install_options& o, const agents::agent& agent) {
  auto group = agents::hook_entry(agent, hook, hook_command(o, agent, hook));
  if (agent.what == agents::program::claude && o.fail_closed && is_before_tool(hook))
    group["hooks"][0]["onFailure"] = "block";
  return group;
}

/// Places of our handlers: index of the group, index in it.
std::vector<std::pair<std::size_t, std::size_t>> our_handlers(const json_text& t, const std::string& event, const std::string& host) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  const auto* groups = t.find({"hooks", event});
  if (!groups || !groups->is_array())
    return out;
  for (std::size_t g = 0; g < groups->size(); ++g) {
    const auto* handlers = t.find({"hooks", event, std::to_string(g), "hooks"});
    for (std::size_t h = 0; handlers && handlers->is_array() && h < handlers->size(); ++h)
      if (is_our_hook(text_of(t.find({"hooks", event, std::to_string(g), "hooks", std::to_string(h), "command"})), host))
        out.emplace_back(g, h);
  }
  return out;
}

void take_handler(json_text& t, const std::string& event, std::pair<std::size_t, std::size_t> place) {
  json_text::path group{"hooks", event, std::to_string(place.first)};
  auto handlers = group;
  handlers.push_back("hooks");
  if (t.find(handlers)->size() == 1)
    return t.erase(group);
  handlers.push_back(std::to_string(place.second));
  t.erase(handlers);
}

bool same(const json& a, const json& b) { return nlohmann::json(a) == nlohmann::json(b); }

setting json_hooks(fs::path file, const agents::agent& agent, const install_options& o) {
  const auto lines = agent.hooks;
  const auto dialect = agent.dialect;
  const std::string host = agent.name;
  setting s;
  s.what = "hooks";
  s.file = std::move(file);
  s.put = [=](const std::string& text, const contents&) {
    json_text t{text, dialect};
    for (const auto& line : lines) {
      auto group = hook_group(line, o, agent);
      auto places = our_handlers(t, line.event, host);
      json_text::path all{"hooks", line.event};
      bool kept = false;
      for (auto i = places.rbegin(); i != places.rend(); ++i) {
        auto here = all;
        here.push_back(std::to_string(i->first));
        bool alone = t.find(here)->at("hooks").size() == 1;
        if (alone && !kept && (places.size() == 1 || same(*t.find(here), group))) {
          t.set(here, group);
          kept = true;
        } else {
          take_handler(t, line.event, *i);
        }
      }
      if (!kept) {
        all.push_back("-");
        t.set(all, group);
      }
    }
    return t.text();
  };
  s.take = [=](const std::string& text, const contents&) {
    json_text t{text};
    const auto* hooks = t.find({"hooks"});
    if (!hooks || !hooks->is_object())
      return text;
    std::vector<std::string> events;
    for (const auto& [event, groups] : hooks->items())
      events.push_back(event);
    bool taken = false;
    for (const auto& event : events) {
      auto places = our_handlers(t, event, host);
      for (auto i = places.rbegin(); i != places.rend(); ++i)
        take_handler(t, event, *i);
      taken = taken || !places.empty();
      if (!places.empty() && t.find({"hooks", event})->empty())
        t.erase({"hooks", event});
    }
    if (taken && t.find({"hooks"})->empty())
      t.erase({"hooks"});
    return t.text();
  };
  s.program = [=](const std::string& text) {
    json_text t{text};
    for (const auto& line : lines)
      for (auto [g, h] : our_handlers(t, line.event, host))
        return shell_words(text_of(t.find({"hooks", line.event, std::to_string(g), "hooks", std::to_string(h), "command"})))[0];
    return std::string{};
  };
  s.by_install = with_full_path(s.program);
  return s;
}

// -- files that are ours alone -------------------------------------------------------

std::string file_text(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  std::ostringstream out;
  out << in.rdbuf();
  if (!in)
    throw failure(code::refused, path.string() + " cannot be read; it comes with swarmctl ($SWARM_SHARE names another directory)");
  return out.str();
}

setting own_file(const std::string& what, fs::path file, std::string bytes, bool force) {
  setting s;
  s.what = what;
  s.file = std::move(file);
  s.ours_alone = true;
  s.put = [=](const std::string& text, const contents&) {
    if (!text.empty() && text.find(mark) == text.npos && !force)
      refuse_foreign(what, "");
    return bytes;
  };
  s.take = [](const std::string& text, const contents&) { return text.find(mark) == text.npos ? text : std::string{}; };
  return s;
}

/// Written by a plugin of ours when it is loaded, never by us; it goes with the rest.
setting stamp_file(fs::path file) {
  auto s = own_file("", std::move(file), "", false);
  s.put = [](const std::string& text, const contents&) { return text; };
  return s;
}

void add_tree(install_host& host, const std::string& what, const fs::path& from, const fs::path& to, bool force) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (fs::recursive_directory_iterator i{from, ec}, end; !ec && i != end; i.increment(ec))
    if (i->is_regular_file() && i->path().filename().string().front() != '.' && i->path().parent_path().filename() != "__pycache__")
      files.push_back(i->path());
  if (files.empty())
    throw failure(code::refused, "there is nothing in " + from.string() + "; it comes with swarmctl ($SWARM_SHARE names another directory)");
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    host.settings.push_back(own_file(what, to / fs::relative(file, from), file_text(file), force));
}

void add_skill(install_host& host, const install_options& o, const fs::path& skills) {
  if (o.skill)
    add_tree(host, "skill", o.share / "skills" / skill_name, skills / skill_name, o.force);
}

/// What a plugin of ours reads to know whom to call.
setting plugin_settings(fs::path file, const install_options& o) {
  json what{{"for", mark}, {"program", o.program.string()}, {"fail_closed", o.fail_closed}, {"enforce", o.enforce}};
  return own_file("plugin", std::move(file), what.dump(2) + "\n", o.force);
}

// -- the hosts -----------------------------------------------------------------------

fs::path home_of(const environment& env) {
  auto home = env.get("HOME");
  if (home.empty() || home.front() != '/')
    throw failure(code::refused, "$HOME names no directory");
  return home;
}

fs::path settings_of(const agents::agent& agent, const environment& env) {
  auto named = env.get(agent.settings.variable);
  if (named.empty() || named.front() != '/')
    return home_of(env) / agent.settings.below_home;
  return *agent.settings.below_variable ? fs::path{named} / agent.settings.below_variable : fs::path{named};
}

bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}

void set_up_claude(install_host& host, const agents::agent& agent, const environment& env, const install_options& o) {
  auto directory = settings_of(agent, env);
  // With a directory of its own the program keeps this file in it.
  auto global = env.get(agent.settings.variable).empty() ? home_of(env) / ".claude.json" : directory / ".claude.json";
  host.found = host.found || is_there(global);
  json entry{{"type", "stdio"}, {"command", o.program.string()}, {"args", {"mcp"}}, {"alwaysLoad", true}};
  host.settings.push_back(json_server(global, agent.dialect, "mcpServers", entry, o.force));
  host.settings.push_back(json_hooks(directory / "settings.json", agent, o));
  add_skill(host, o, directory / "skills");
}

/// Key and hash of each of our hooks in the text of hooks.json.
std::vector<std::pair<std::string, std::string>> codex_trust(const fs::path& hooks_file, const std::string& hooks) {
  std::vector<std::pair<std::string, std::string>> out;
  json_text t{hooks};
  for (const auto& line : agents::find("codex")->hooks)
    for (auto [g, h] : our_handlers(t, line.event, "codex")) {
      auto label = agents::codex_event_key(line.event);
      const auto& group = *t.find({"hooks", line.event, std::to_string(g)});
      const auto& handler = group.at("hooks").at(h);
      // What somebody else made of our entry may be of any kind.
      auto timeout = handler.contains("timeout") && handler.at("timeout").is_number_integer() ? handler.at("timeout").get<int>() : 600;
      auto matcher = group.contains("matcher") ? text_of(&group.at("matcher")) : std::string{};
      out.emplace_back(hooks_file.string() + ":" + label + ":" + std::to_string(g) + ":" + std::to_string(h),
                       agents::codex_hook_hash(label, matcher, handler.at("command"), timeout));
    }
  return out;
}

setting codex_server(fs::path file, const install_options& o) {
  toml_path where{"mcp_servers", server_name};
  // Codex starts servers with an environment of a few variables; these say who the session is. Names only.
  toml_values values{{"command", toml_quoted(o.program.string())},
                     {"args", "[\"mcp\"]"},
                     {"env_vars", "[\"SWARM_HOME\", \"SWARM_TOKEN\", \"SWARM_SPAWN_ID\", \"SWARM_MCP_INSTANCE_ID\", \"SWARM_MCP_DIRECTORY\", "
                                  "\"SWARM_MCP_SCOPE\", \"SWARM_MCP_LABEL\", \"SWARM_MCP_FILE_ROOT\", \"AGENT_IDENTITY\", \"SWARM_IDENTITY\", "
                                  "\"XDG_STATE_HOME\"]"}};
  auto program = [where](const std::string& text) {
    auto at = where;
    at.emplace_back("command");
    return toml_text_at(text, at).value_or("");
  };
  setting s;
  s.what = "MCP server";
  s.file = std::move(file);
  s.program = program;
  s.by_install = with_full_path(program);
  s.put = [=, force = o.force](const std::string& text, const contents&) {
    auto now = program(text);
    if (toml_has(text, where) && !is_our_program(now)) {
      if (!force)
        refuse_foreign("MCP server", toml_text_at(text, {"mcp_servers", server_name, "url"}).value_or(now));
      return toml_with_table(toml_without_table(text, where, toml_comment), where, values, toml_comment);
    }
    return toml_with_table(text, where, values, toml_comment);
  };
  s.take = [=](const std::string& text, const contents&) {
    return is_our_program(program(text)) ? toml_without_table(text, where, toml_comment) : text;
  };
  return s;
}

setting codex_trust_setting(fs::path file, const fs::path& hooks) {
  setting s;
  s.what = "trust in the hooks";
  s.file = std::move(file);
  s.put = [=](const std::string& text, const contents& now) {
    auto out = text;
    for (const auto& [key, hash] : codex_trust(hooks, now(hooks)))
      out = toml_with_table(out, {"hooks", "state", key}, {{"trusted_hash", toml_quoted(hash)}}, "");
    return out;
  };
  s.take = [=](const std::string& text, const contents& now) {
    auto out = text;
    for (const auto& [key, hash] : codex_trust(hooks, now(hooks)))
      out = toml_without_table(out, {"hooks", "state", key}, "");
    return out;
  };
  return s;
}

void set_up_codex(install_host& host, const agents::agent& agent, const environment& env, const install_options& o) {
  std::error_code ec;
  auto directory = settings_of(agent, env);
  // A directory that $CODEX_HOME names is resolved by Codex, and the keys of trust begin with it.
  if (!env.get(agent.settings.variable).empty() && is_there(directory))
    directory = fs::canonical(directory, ec);
  auto hooks = directory / "hooks.json";
  host.settings.push_back(json_hooks(hooks, agent, o));
  host.settings.push_back(codex_server(directory / "config.toml", o));
  host.settings.push_back(codex_trust_setting(directory / "config.toml", hooks));
  add_skill(host, o, directory / "skills");
  if (o.fail_closed)
    host.notes.push_back("Codex lets a tool run when a hook crashes or takes too long, and cannot be told otherwise");
}

setting opencode_plugin(fs::path file, const std::string& url) {
  auto place = [url](const json_text& t) -> std::optional<std::size_t> {
    const auto* list = t.find({"plugin"});
    for (std::size_t i = 0; list && list->is_array() && i < list->size(); ++i)
      if (text_of(&list->at(i)) == url)
        return i;
    return std::nullopt;
  };
  setting s;
  s.what = "plugin";
  s.file = std::move(file);
  s.put = [=](const std::string& text, const contents&) {
    json_text t{text};
    if (!place(t))
      t.set({"plugin", "-"}, url);
    return t.text();
  };
  s.take = [=](const std::string& text, const contents&) {
    json_text t{text};
    if (!place(t))
      return text;
    while (auto at = place(t))
      t.erase({"plugin", std::to_string(*at)});
    if (t.find({"plugin"})->empty())
      t.erase({"plugin"});
    return t.text();
  };
  return s;
}

std::string file_url(const fs::path& path) {
  std::string out = "file://";
  for (auto c : path.string()) {
    auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view{"/-._~"}.find(c) != std::string_view::npos)
      out += c;
    else
      out += "%" + to_hex(std::string_view{&c, 1});
  }
  return out;
}

void set_up_opencode(install_host& host, const agents::agent& agent, const environment& env, const install_options& o) {
  auto directory = settings_of(agent, env);
  auto file = is_there(directory / "opencode.jsonc") ? directory / "opencode.jsonc" : directory / "opencode.json";
  // Not in plugin/, where OpenCode loads what it finds: it would be loaded twice.
  auto plugin = directory / "swarm-fabric";
  add_tree(host, "plugin", o.share / "agents" / "opencode", plugin, o.force);
  host.settings.push_back(plugin_settings(plugin / "swarm.json", o));
  host.settings.push_back(stamp_file(plugin / "loaded.json"));
  host.stamp = plugin / "loaded.json";
  json entry{{"type", "local"}, {"command", {o.program.string(), "mcp"}}, {"enabled", true}};
  host.settings.push_back(json_server(file, agent.dialect, "mcp", entry, o.force));
  host.settings.push_back(opencode_plugin(file, file_url(plugin / "swarm.js")));
  add_skill(host, o, directory / "skills");
}

void set_up_gemini(install_host& host, const agents::agent& agent, const environment& env, const install_options& o) {
  auto directory = settings_of(agent, env);
  json entry{{"command", o.program.string()}, {"args", {"mcp"}}};
  host.settings.push_back(json_server(directory / "settings.json", agent.dialect, "mcpServers", entry, o.force));
  host.settings.push_back(json_hooks(directory / "settings.json", agent, o));
  add_skill(host, o, directory / "skills");
  if (o.fail_closed)
    host.notes.push_back("Gemini CLI lets a tool run when a hook crashes or takes too long, and cannot be told otherwise");
}

setting hermes_server(fs::path file, const install_options& o) {
  yaml_text::path where{"mcp_servers", server_name};
  auto program = [where](const std::string& text) {
    auto at = where;
    at.emplace_back("command");
    return yaml_text{text}.scalar(at).value_or("");
  };
  setting s;
  s.what = "MCP server";
  s.file = std::move(file);
  s.program = program;
  s.by_install = with_full_path(program);
  s.put = [=, force = o.force, wanted = o.program.string()](const std::string& text, const contents&) {
    yaml_text t{text};
    auto now = program(text);
    if (now == wanted)
      return text;
    const std::vector<std::string> lines{"command: " + yaml_quoted(wanted), "args: [\"mcp\"]"};
    if (!t.has(where)) {
      t.add_key({"mcp_servers"}, server_name, lines);
      return t.text();
    }
    if (is_our_program(now)) {
      // What the user added to it stays.
      t.set_scalar({where[0], where[1], "command"}, yaml_quoted(wanted));
      return t.text();
    }
    if (!force)
      refuse_foreign("MCP server", now);
    t.replace(where, lines);
    return t.text();
  };
  s.take = [=](const std::string& text, const contents&) {
    yaml_text t{text};
    while (is_our_program(program(t.text())))
      t.erase(where);
    return t.text();
  };
  return s;
}

std::optional<std::size_t> our_hermes_hook(const yaml_text& t) {
  for (std::size_t i = 0; i < t.size({"hooks", "pre_tool_call"}); ++i)
    if (is_our_hook(t.scalar({"hooks", "pre_tool_call", std::to_string(i), "command"}).value_or(""), "hermes"))
      return i;
  return std::nullopt;
}

/// What an earlier install has written there, and nothing needs any more: it only ever goes.
setting former_setting(fs::path file, std::function<std::string(const std::string&)> without) {
  setting s;
  s.what = "shell hook of an earlier install";
  s.file = std::move(file);
  s.former = true;
  s.put = [without](const std::string& text, const contents&) { return without(text); };
  s.take = s.put;
  return s;
}

/// The plugin asks before a tool runs. This one beside it would ask a second time.
setting hermes_former_hook(fs::path file) {
  return former_setting(std::move(file), [](const std::string& text) {
    yaml_text t{text};
    while (auto i = our_hermes_hook(t))
      t.erase({"hooks", "pre_tool_call", std::to_string(*i)});
    return t.text();
  });
}

setting hermes_plugin(fs::path file) {
  yaml_text::path list{"plugins", "enabled"};
  auto place = [list](const yaml_text& t) -> std::optional<yaml_text::path> {
    for (std::size_t i = 0; i < t.size(list); ++i) {
      auto item = list;
      item.push_back(std::to_string(i));
      if (t.scalar(item) == server_name)
        return item;
    }
    return std::nullopt;
  };
  setting s;
  s.what = "plugin";
  s.file = std::move(file);
  s.put = [=](const std::string& text, const contents&) {
    yaml_text t{text};
    if (!place(t))
      t.add_item(list, {server_name});
    return t.text();
  };
  s.take = [=](const std::string& text, const contents&) {
    yaml_text t{text};
    while (auto item = place(t))
      t.erase(*item);
    return t.text();
  };
  return s;
}

/// What that hook was allowed by.
setting hermes_former_consent(fs::path file) {
  return former_setting(std::move(file), [](const std::string& text) {
    json_text t{text};
    const auto* list = t.find({"approvals"});
    auto left = list && list->is_array() ? list->size() : 0;
    bool taken = false;
    while (left-- > 0)
      if (is_our_hook(text_of(t.find({"approvals", std::to_string(left), "command"})), "hermes")) {
        t.erase({"approvals", std::to_string(left)});
        taken = true;
      }
    if (!taken)
      return text;
    if (t.find({"approvals"})->empty())
      t.erase({"approvals"});
    return t.text();
  });
}

void set_up_hermes(install_host& host, const agents::agent& agent, const environment& env, const install_options& o) {
  auto directory = settings_of(agent, env);
  auto plugin = directory / "plugins" / server_name;
  auto config = directory / "config.yaml";
  add_tree(host, "plugin", o.share / "agents" / "hermes", plugin, o.force);
  host.settings.push_back(plugin_settings(plugin / "swarm.json", o));
  host.settings.push_back(stamp_file(plugin / "loaded.json"));
  host.stamp = plugin / "loaded.json";
  host.settings.push_back(hermes_server(config, o));
  host.settings.push_back(hermes_former_hook(config));
  host.settings.push_back(hermes_plugin(config));
  host.settings.push_back(hermes_former_consent(directory / "shell-hooks-allowlist.json"));
  add_skill(host, o, directory / "skills");
}

} // namespace

std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> out;
  bool open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    auto c = line[i];
    if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      open = false;
      continue;
    }
    if (!open)
      out.emplace_back();
    open = true;
    if (quote ? c == quote : c == '\'' || c == '"')
      quote = quote ? 0 : c;
    else if (c == '\\' && quote != '\'' && i + 1 < line.size())
      out.back() += line[++i];
    else
      out.back() += c;
  }
  return out;
}

const std::vector<std::string>& install_host_names() {
  static const auto names = [] {
    std::vector<std::string> out;
    for (const auto& agent : agents::all())
      out.emplace_back(agent.name);
    return out;
  }();
  return names;
}

fs::path program_on_path(const environment& env, const std::string& name) {
  std::istringstream path{env.get("PATH")};
  std::error_code ec;
  for (std::string directory; std::getline(path, directory, ':');)
    if (auto file = fs::path{directory} / name;
        !directory.empty() && file.is_absolute() && fs::is_regular_file(file, ec) && access(file.c_str(), X_OK) == 0)
      return file;
  return {};
}

fs::path program_for_settings(const environment& env) {
  auto self = running_program();
  std::error_code ec;
  // A symbolic link on the path outlives the next version, which the file behind it may not.
  auto named = program_on_path(env, "swarmctl");
  return !named.empty() && fs::equivalent(named, self, ec) ? named : self;
}

install_host install_host_of(const std::string& name, const environment& env, const install_options& o) {
  install_host host;
  host.name = name;
  const auto* agent = agents::find(name);
  if (!agent)
    return host;
  host.title = agent->title;
  host.found = !program_on_path(env, name).empty() || is_there(settings_of(*agent, env));
  switch (agent->what) {
    case agents::program::claude: set_up_claude(host, *agent, env, o); break;
    case agents::program::codex: set_up_codex(host, *agent, env, o); break;
    case agents::program::opencode: set_up_opencode(host, *agent, env, o); break;
    case agents::program::gemini: set_up_gemini(host, *agent, env, o); break;
    case agents::program::hermes: set_up_hermes(host, *agent, env, o); break;
  }
  return host;
}

setting project_setting(const fs::path& file, bool force) {
  return json_server(file, agents::find("claude")->dialect, "mcpServers", {{"command", "swarmctl"}, {"args", {"mcp"}}}, force);
}

setting_state state_of(const setting& s, const std::string& text, const contents& now) {
  try {
    if (s.put(text, now) == text)
      return s.take(text, now) == text ? setting_state::absent : setting_state::current;
  } catch (const failure&) {
    return setting_state::outdated;
  } catch (const std::exception&) {
    return setting_state::unreadable;
  }
  try {
    return s.take(text, now) == text ? setting_state::absent : s.former ? setting_state::left_over : setting_state::outdated;
  } catch (const std::exception&) {
    return setting_state::outdated;
  }
}

} // namespace swarm::cli
