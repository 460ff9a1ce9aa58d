// inspect, cleanup, roles.
#include "actors/base/limits.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/rules.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "gateway/json/shapes.hpp"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace swarm::cli {

namespace {

// -- inspect -----------------------------------------------------------------------------

v1::Messages recent_messages(const invocation& cli) {
  auto query = cli.query();
  query.mutable_list_messages()->set_limit(20);
  return cli.ask(query).messages();
}

json inspection(const invocation& cli) {
  json out = {{"scope", cli.scope()}};
  auto& instances = out["instances"] = json::array();
  for (const auto& s : all_sessions(cli, cli.scope()))
    instances.push_back(mcp::peer(s));
  auto& messages = out["messages"] = json::array();
  const auto recent = recent_messages(cli);
  for (const auto& m : recent.messages())
    messages.push_back(message_row(m));
  auto& tasks = out["tasks"] = json::array();
  for (const auto& t : all_tasks(cli, {}, true))
    tasks.push_back(mcp::task(t));
  auto& locks = out["locks"] = json::array();
  for (const auto& l : all_locks(cli, ""))
    locks.push_back(lock_row(l));
  auto& kv = out["kv"] = json::array();
  for (const auto& e : all_kv(cli, ""))
    kv.push_back(mcp::kv_row(e));
  return out;
}

std::string string_or_dash(const json& value) {
  return value.is_string() && !value.get_ref<const std::string&>().empty() ? value.get<std::string>() : "-";
}

int run_inspect(invocation& cli) {
  auto all = inspection(cli);
  auto& io = cli.io();
  if (cli.json_wanted()) {
    io.print(all);
    return code::ok;
  }
  io.line("scope: " + scope_shown(cli));
  auto section = [&](const char* title, const char* name, auto line_of) {
    io.painted_line(io.paint(colour::bold, concat({title, " (", all[name].size(), ")"})));
    for (const auto& row : all[name])
      io.line("  " + line_of(row));
  };
  section("instances", "instances", [](const json& r) { return short_id(r["id"].get<std::string>()) + "  " + string_or_dash(r["label"]); });
  section("tasks", "tasks", [](const json& r) {
    return short_id(r["id"].get<std::string>()) + "  [" + r["status"].get<std::string>() + "]  " + r["type"].get<std::string>() + "  " +
           r["title"].get<std::string>();
  });
  section("locks", "locks", [](const json& r) { return string_or_dash(r["owner_label"]) + "  " + r["file"].get<std::string>(); });
  section("kv", "kv", [](const json& r) { return r["key"].get<std::string>(); });
  section("recent messages", "messages", [](const json& r) {
    return "#" + mcp::dump(r["id"], -1) + "  " + short_id(r["sender"].get<std::string>()) + " → " + short_id(r["recipient"].get<std::string>()) +
           "  " + r["content"].get<std::string>();
  });
  return code::ok;
}

void build_inspect(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_inspect(cli); });
}

// -- cleanup -----------------------------------------------------------------------------

/// Adds the counters of `more`.
void add(v1::SweepReport& sum, const v1::SweepReport& more) {
  sum.set_sessions_reclaimed(sum.sessions_reclaimed() + more.sessions_reclaimed());
  sum.set_tasks_reopened(sum.tasks_reopened() + more.tasks_reopened());
  sum.set_task_assignees_cleared(sum.task_assignees_cleared() + more.task_assignees_cleared());
  sum.set_locks_deleted(sum.locks_deleted() + more.locks_deleted());
  sum.set_terminal_spawn_locks_deleted(sum.terminal_spawn_locks_deleted() + more.terminal_spawn_locks_deleted());
  sum.set_messages_deleted(sum.messages_deleted() + more.messages_deleted());
  sum.set_terminal_tasks_deleted(sum.terminal_tasks_deleted() + more.terminal_tasks_deleted());
  sum.set_events_deleted(sum.events_deleted() + more.events_deleted());
  sum.set_kv_deleted(sum.kv_deleted() + more.kv_deleted());
  sum.mutable_kv_keys_deleted()->MergeFrom(more.kv_keys_deleted());
  sum.set_identity_rows_deleted(sum.identity_rows_deleted() + more.identity_rows_deleted());
}

/// One sweep is of bounded size, so they go on until nothing is due.
void sweep(const invocation& cli, const std::string& scope, v1::SweepReport& sum) {
  auto command = cli.command();
  command.set_scope(scope);
  command.mutable_sweep()->set_mode("manual");
  for (bool more = true; more;) {
    auto report = cli.execute(command).sweep();
    add(sum, report);
    more = report.more();
  }
}

/// What the next sweep would do.
void preview(const invocation& cli, const std::string& scope, v1::SweepReport& sum) {
  auto query = cli.query();
  query.set_scope(scope);
  query.mutable_preview_sweep();
  add(sum, cli.ask(query).sweep());
}

std::vector<std::string> scopes_to_clean(const invocation& cli, bool all) {
  if (!all)
    return {cli.scope()};
  auto query = cli.query();
  query.mutable_list_scopes();
  std::vector<std::string> out;
  for (const auto& s : all_rows<v1::ScopeState>(cli, std::move(query)))
    out.push_back(s.scope());
  return out;
}

int run_cleanup(invocation& cli, bool dry_run) {
  bool all = cli.flags.scope.empty() && cli.env().get("SWARM_MCP_SCOPE").empty();
  v1::SweepReport sum;
  sum.set_dry_run(dry_run);
  for (const auto& scope : scopes_to_clean(cli, all))
    dry_run ? preview(cli, scope, sum) : sweep(cli, scope, sum);
  auto report = mcp::cleanup(sum, all ? std::string{} : cli.scope(), "manual", cli.now_ms());
  if (cli.json_wanted()) {
    cli.io().print(report);
    return code::ok;
  }
  cli.io().line(std::string{dry_run ? "would clean " : "cleaned "} + (all ? "all scopes" : cli.scope()));
  for (const auto& [name, value] : report.items())
    if (value.is_number() && name != "at")
      cli.io().line("  " + name + ": " + mcp::dump(value, -1));
  return code::ok;
}

void build_cleanup(CLI::App& app, invocation& cli) {
  auto dry_run = std::make_shared<bool>(false);
  flag(app, "--dry-run", *dry_run, "count, change nothing");
  on_run(app, cli, [dry_run, &cli] { return run_cleanup(cli, *dry_run); });
}

// -- roles -------------------------------------------------------------------------------

/// `.swarm-role` of the working directory or the nearest one above it, not beyond the scope (as in swarm-mcp); empty when there is none.
std::filesystem::path role_file(const invocation& cli) {
  const auto scope = cli.scope();
  for (std::filesystem::path directory = cli.directory();; directory = directory.parent_path()) {
    std::error_code ec;
    if (auto file = directory / ".swarm-role"; std::filesystem::is_regular_file(file, ec))
      return file;
    if (directory == scope || !is_inside(scope, directory.string()) || !directory.has_relative_path())
      return {};
  }
}

/// The first line that is neither blank nor a comment. Roles are written in small letters, and `worker` means none.
std::string role_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text(limits::profile_bytes_max, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::istringstream lines{text.substr(0, static_cast<std::size_t>(in.gcount()))};
  for (std::string line; std::getline(lines, line);)
    if (auto role = std::string{trimmed(line)}; !role.empty() && role.front() != '#')
      return role;
  return {};
}

/// What the label says, else what a session that starts here would get (as in swarm-mcp).
std::string routing_role(const invocation& cli, const std::string& label, const std::filesystem::path& file) {
  if (auto role = domain::role_of(label); !role.empty())
    return role;
  auto role = file.empty() ? std::string{} : role_in(file);
  if (role.empty())
    role = trimmed(cli.env().get("SWARM_AGENT_ROLE"));
  if (role.empty() && domain::has_token(label, domain::gateway_token))
    return "planner";
  for (auto& c : role)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return role == "worker" ? std::string{} : role;
}

json current_role(const invocation& cli) {
  json out = {{"instance_id", nullptr}, {"label", nullptr}, {"routing_role", nullptr}, {"mode", nullptr}};
  std::string label = cli.env().get("SWARM_MCP_LABEL");
  // Advice only: without a node or an instance the environment speaks alone.
  try {
    if (auto session = cli.named_actor()) {
      out["instance_id"] = session->id();
      label = session->label();
    }
  } catch (const failure&) {
  }
  out["label"] = mcp::text_or_null(label);
  auto file = role_file(cli);
  out["routing_role"] = mcp::text_or_null(routing_role(cli, label, file));
  if (domain::has_token(label, domain::gateway_token))
    out["mode"] = "gateway";
  json env = json::object();
  for (auto name : {"AGENT_IDENTITY", "SWARM_IDENTITY", "SWARM_AGENT_ROLE", "SWARM_MCP_LABEL"})
    env[name] = mcp::text_or_null(cli.env().get(name));
  out["env"] = env;
  out["swarm_role_file"] = mcp::text_or_null(file.string());
  out["cwd"] = cli.directory();
  out["scope"] = cli.scope();
  return out;
}

int run_roles(invocation& cli) {
  json modes = {"gateway", "worker"};
  json roles = {"planner", "implementer", "reviewer", "researcher", "generalist"};
  auto current = current_role(cli);
  if (cli.json_wanted()) {
    cli.io().print({{"plugin_modes", modes}, {"routing_roles", roles}, {"current", current}});
    return code::ok;
  }
  cli.io().line("routing roles (label tokens role:<name>): planner, implementer, reviewer, researcher, generalist");
  cli.io().line("modes: gateway (label token mode:gateway: may dispatch), worker");
  for (const auto& [name, value] : current.items())
    if (!value.is_object())
      cli.io().line("  " + name + ": " + string_or_dash(value));
  return code::ok;
}

void build_roles(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_roles(cli); });
}

constexpr verb verbs[] = {
  {"inspect", subject::sessions, "show everything in the scope at a glance", "  swarmctl inspect --json", build_inspect},
  {"cleanup", subject::sessions, "remove what has expired, in all scopes or in the one of --scope or $SWARM_MCP_SCOPE",
   "  swarmctl cleanup --dry-run", build_cleanup},
  {"roles", subject::sessions, "show the roles that a label can name, and this session's role", "  swarmctl roles --json", build_roles},
};

} // namespace

std::span<const verb> overview_verbs() { return verbs; }

} // namespace swarm::cli
