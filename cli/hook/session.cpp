#include "cli/hook/session.hpp"

#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"
#include "actors/domain/agent_start.hpp"
#include "actors/domain/json_text.hpp"
#include "actors/domain/rules.hpp"
#include "gateway/json/shapes.hpp"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swarm::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t session_shown = 8;
constexpr std::size_t file_bytes_max = limits::profile_value_bytes_max;

std::string lower(std::string_view text) {
  std::string out{text};
  for (auto& c : out)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c + ('a' - 'A'));
  return out;
}

domain::variable_reader variables_of(const environment& env) {
  return [&env](std::string_view name) { return env.get(name); };
}

/// SWARM_<agent>_<name>.
std::string own(const agents::agent& agent, const environment& env, const std::string& name) {
  return domain::own_variable(agent.variables, variables_of(env), name);
}

std::string own_or_common(const agents::agent& agent, const environment& env, const std::string& name) {
  return domain::own_or_common_variable(agent.variables, variables_of(env), name);
}

/// The first bytes of a regular file, as UTF-8; empty when it cannot be read.
std::string small_file(const fs::path& file) {
  unique_fd fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode))
    return {};
  std::string text(file_bytes_max, '\0');
  auto n = read(fd.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return to_utf8(text);
}

/// The text of the nearest file of that name, from `directory` up to the scope's directory.
std::string nearest_file(const std::string& name, const std::string& directory, const std::string& scope) {
  auto top = is_named_scope(scope) || !is_inside(scope, directory) ? git_root(directory) : scope;
  for (fs::path p{directory};; p = p.parent_path()) {
    if (auto text = small_file(p / name); !text.empty())
      return text;
    if (p == top || !p.has_relative_path())
      return {};
  }
}

/// The text as one token of a label: UTF-8 without spaces and control characters.
std::string token(std::string_view text) {
  auto out = to_utf8(text);
  out.resize(utf8_prefix(out, limits::id_bytes_max).size());
  for (auto& c : out)
    c = static_cast<unsigned char>(c) <= ' ' || c == 0x7f ? '_' : c;
  return escape_control(out, false);
}

std::string role_of(const agents::agent& agent, const environment& env, const std::string& directory, const std::string& scope, bool coordinator) {
  auto role = own(agent, env, "AGENT_ROLE");
  if (role.empty()) {
    auto text = nearest_file(".swarm-role", directory, scope);
    for (std::string_view rest = text; role.empty() && !rest.empty();) {
      auto end = std::min(rest.find('\n'), rest.size());
      auto line = trimmed(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (!line.empty() && line.front() != '#')
        role = line;
    }
  }
  if (role.empty())
    role = trimmed(env.get("SWARM_AGENT_ROLE"));
  if (role.empty() && coordinator)
    role = "planner";
  role = lower(role);
  return role == "worker" ? std::string{} : token(role);
}

std::string short_session(std::string_view session) {
  std::string out{session};
  std::erase(out, '-');
  return token(utf8_prefix(out, session_shown));
}

/// The configured tracker as {"schema_version":1, identity, provider, mcp, …}.
std::optional<tracker_setting> normalised(json given, const std::string& identity) {
  auto text = [&](const char* name) {
    auto i = given.find(name);
    return i != given.end() && i->is_string() ? std::string{trimmed(i->get_ref<const std::string&>())} : std::string{};
  };
  auto provider = lower(text("provider"));
  auto mcp = text("mcp").empty() ? text("mcp_server") : text("mcp");
  if (!domain::is_name(provider))
    return std::nullopt;
  if (mcp.empty())
    mcp = provider;
  auto name = identity.empty() ? std::string{"default"} : identity;
  json out = {{"schema_version", 1}, {"identity", name}, {"provider", provider}, {"mcp", mcp}};
  for (const auto* field : {"source", "team", "project", "repo", "workspace", "board", "url", "default_state", "component"})
    if (auto value = text(field); !value.empty())
      out[field] = value;
  return tracker_setting{"config/work_tracker/" + name, mcp::dump(out, -1), provider, mcp};
}

std::optional<json> tracker_in(std::string_view text) {
  text = trimmed(text);
  if (text.empty())
    return std::nullopt;
  if (text.front() == '{') {
    auto parsed = domain::parse_json(text);
    return parsed && parsed->is_object() ? std::optional<json>{std::move(*parsed)} : std::nullopt;
  }
  auto line = text.substr(0, text.find('\n'));
  auto colon = line.find(':');
  json out = {{"provider", trimmed(line.substr(0, colon))}};
  if (colon != line.npos)
    out["mcp"] = trimmed(line.substr(colon + 1));
  return out;
}

/// For text between backticks: without backticks, so that text of others cannot end the quotation.
std::string quoted_code(std::string text) {
  std::erase(text, '`');
  return escape_control(text, false);
}

} // namespace

hook_identity identity_of(const agents::agent& agent, const environment& env, const std::string& session, const std::string& directory,
                          const std::string& scope, const std::string& platform) {
  hook_identity out;
  out.identity = domain::identity_name_of_start(agent.variables, variables_of(env));
  out.coordinator = lower(own_or_common(agent, env, "ROLE")) == "gateway";
  out.scope = own(agent, env, "SCOPE");
  out.file_root = own(agent, env, "FILE_ROOT");
  out.lease_ms = limits::hook_session_lease().count();
  if (auto lease = own_or_common(agent, env, "LEASE_SECONDS");
      !lease.empty() && lease.size() < 10 && lease.find_first_not_of("0123456789") == lease.npos)
    out.lease_ms = std::min<std::int64_t>(std::stoll(lease) * 1000, limits::lease_max().count());
  auto mark = "session:" + short_session(session);
  auto identity = out.identity.empty() ? std::string{} : "identity:" + out.identity + " ";
  if (auto label = own(agent, env, "LABEL"); !label.empty()) {
    label = escape_control(label, false);
    if (domain::identity_token(label).empty())
      label.insert(0, identity);
    out.label = label.find(mark) == label.npos ? label + " " + mark : label;
    out.coordinator = out.coordinator || domain::has_token(label, "mode:gateway");
    return out;
  }
  auto role = role_of(agent, env, directory, scope, out.coordinator);
  out.label = identity + agent.runtime + " platform:" + (platform.empty() ? "cli" : token(platform)) + (out.coordinator ? " mode:gateway" : "") +
              (role.empty() ? "" : " role:" + role) + " origin:" + agent.runtime + " " + mark;
  return out;
}

std::optional<tracker_setting> work_tracker_of(const agents::agent& agent, const environment& env, const std::string& identity,
                                               const std::string& directory, const std::string& scope) {
  if (auto given = tracker_in(own_or_common(agent, env, "WORK_TRACKER")))
    return normalised(std::move(*given), identity);
  if (auto provider = own_or_common(agent, env, "WORK_TRACKER_PROVIDER"); !provider.empty()) {
    json given = {{"provider", provider}};
    for (auto [name, field] : {std::pair{"MCP", "mcp"},
                               {"MCP_SERVER", "mcp_server"},
                               {"TEAM", "team"},
                               {"PROJECT", "project"},
                               {"REPO", "repo"},
                               {"WORKSPACE", "workspace"},
                               {"BOARD", "board"},
                               {"URL", "url"}})
      if (auto value = own_or_common(agent, env, std::string{"WORK_TRACKER_"} + name); !value.empty())
        given[field] = value;
    return normalised(std::move(given), identity);
  }
  for (const auto* name : {".swarm-work-tracker.json", ".swarm-work-tracker"})
    if (auto given = tracker_in(nearest_file(name, directory, scope)))
      return normalised(std::move(*given), identity);
  return std::nullopt;
}

std::string soul_of(const agents::agent& agent, const environment& env) {
  auto file = own_or_common(agent, env, "SOUL_FILE");
  return file.empty() ? std::string{} : std::string{trimmed(small_file(file))};
}

std::string greeting_text(const hook_greeting& g) {
  if (g.id.empty())
    return "# Swarm\n\nThe session start hook could not auto-register this session" + (g.reason.empty() ? "" : " (" + quoted_code(g.reason) + ")") +
           ". Call the `register` tool with your working directory before you use other swarm tools.\n";
  auto id = quoted_code(g.id);
  std::string out = "# Swarm\n\nswarm coordination is active for this session. Instance `" + id + "`, mode `" +
                    (g.coordinator ? "gateway" : "worker") +
                    "`.\n\n- Call `bootstrap` first; if it says that you are not registered, call it with adopt_instance_id=\"" + id +
                    "\".\n- A write to a file that a peer has locked is denied. Then ask the holder with send_message, wait for the lock, or work on "
                    "something else; do not go round it.\n";
  if (g.coordinator)
    out += "\n## Gateway/lead mode\n\nYou lead: hand work out with `dispatch` rather than doing it yourself, look up the tracker in "
           "`bootstrap.work_tracker`, and keep to the `swarm-mcp` skill.\n";
  if (g.coordinator && !g.soul.empty())
    out += "\n## identity / SOUL\n\n" + escape_control(g.soul) + "\n";
  if (g.tracker)
    out += "\nConfigured work tracker published: " + quoted_code(g.tracker->provider) + ", MCP `" + quoted_code(g.tracker->mcp) + "`.\n";
  if (!g.block.empty())
    out += "\n" + g.block;
  return out;
}

} // namespace swarm::cli
