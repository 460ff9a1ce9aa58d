// doctor: is everything here that the fabric needs, and does it answer.
#include "actors/base/limits.hpp"
#include "actors/base/owner.hpp"
#include "actors/base/paths.hpp"
#include "actors/base/secrets.hpp"
#include "actors/base/share_directory.hpp"
#include "actors/base/text.hpp"
#include "actors/domain/config.hpp"
#include "actors/domain/rules.hpp"
#include "cli/install/check.hpp"
#include "cli/rows.hpp"
#include "cli/verb.hpp"
#include "gateway/client/node_start.hpp"
#include "gateway/json/shapes.hpp"

#include <unistd.h>

namespace swarm::cli {

namespace {

class report {
public:
  void add(const char* name, const char* status, const std::string& message, json details = json::object()) {
    failed_ = failed_ || std::string_view{status} == "fail";
    warnings_ += std::string_view{status} == "warn";
    checks_.push_back({{"name", name}, {"status", status}, {"message", message}, {"details", std::move(details)}});
  }
  const json& checks() const noexcept { return checks_; }
  bool failed() const noexcept { return failed_; }
  std::size_t warnings() const noexcept { return warnings_; }

private:
  json checks_ = json::array();
  std::size_t warnings_ = 0;
  bool failed_ = false;
};

void check_binary(report& r) {
  auto directory = swarmd_path().parent_path();
  for (auto name : {"swarmd", "swarm-keeper"})
    if (access((directory / name).c_str(), X_OK) != 0) {
      r.add("binary", "fail", std::string{name} + " is not beside swarmctl in " + directory.string() + "; build or install it there");
      return;
    }
  r.add("binary", "ok", "swarmctl " SWARM_VERSION, {{"directory", directory.string()}, {"version", SWARM_VERSION}});
}

/// A check that cannot be made has failed, and the next one is made all the same.
template <class Check>
void attempt(report& r, const char* name, Check check) {
  try {
    check();
  } catch (const failure& f) {
    r.add(name, "fail", f.what());
  }
}

/// A file of contexts that cannot be read hides no other fault. Who names a node wants to hear of no other one.
void check_context(invocation& cli, report& r) {
  try {
    speak_to_chosen(cli, nullptr);
  } catch (const failure& f) {
    if (!cli.flags.node.empty() || f.exit_status != code::refused)
      throw;
    r.add("context", "fail", std::string{f.what()} + "; what follows is about the node of this user");
  }
}

/// A process owns the state directory and does not answer at its socket.
bool is_silent(const invocation& cli) {
  auto& finder = cli.node().finder;
  return !cli.elsewhere() && !finder.running() && living_owner(state_dir{finder.state_directory()}.lock_file());
}

void check_start(invocation& cli, report& r) {
  auto obstacles = cli.node().finder.obstacles();
  for (const auto& o : obstacles)
    r.add("start", "fail", o);
  if (!obstacles.empty() || is_silent(cli))
    return;
  std::error_code ec;
  const auto space = cli.elsewhere() ? std::filesystem::space_info{} : std::filesystem::space(cli.node().finder.state_directory(), ec);
  if (!cli.elsewhere() && !ec && space.available < limits::disk_critical_bytes())
    r.add("start", "warn", "a node may not start with so little space on the disk: " + byte_count(space.available));
  else
    r.add("start", "ok", cli.elsewhere() ? "of another host; there: swarmctl doctor" : "nothing keeps the node from starting");
}

void check_cluster(invocation& cli, report& r) {
  auto view = cli.node().admin.nodes();
  if (view.cluster_id().empty())
    return r.add("cluster", "info", "this node is in no cluster");
  const auto name = cli.node().admin.status().node_name();
  if (auto there = name_in_cluster(view, name); !there.empty())
    r.add("node_name", "warn", name_is_taken(name, there), {{"name", name}, {"name_in_cluster", there}});
  if (const auto unreached = unreached_home(view); !unreached.empty())
    return r.add("cluster", "fail", unreached, {{"home", name}, {"link", link_text(v1::ClusterNode::SELF)}});
  for (const auto& n : view.nodes())
    if (has_revoked_us(n)) {
      return r.add(
        "cluster", "fail",
        concat({"the home ", n.info().node_name(),
                " has revoked this node: run swarmctl leave here. To come back, the host joins as a new node, with a new state directory"}),
        {{"home", n.info().node_name()}, {"link", link_text(n.link())}});
    } else if (n.home()) {
      bool linked = n.link() == v1::ClusterNode::SELF || n.link() == v1::ClusterNode::UP;
      auto text = "the home " + n.info().node_name() + " (" + n.info().address() + ") is " + link_state(n, cli.now_ms());
      return r.add("cluster", linked ? "ok" : "fail", linked ? text : text + ": shared scopes stand still until it is back; see: swarmctl nodes",
                   {{"home", n.info().node_name()}, {"link", link_text(n.link())}});
    }
}

json words_of(bool known, const v1::Restrictions& x) {
  if (!known)
    return nullptr;
  return "NoNewPrivs " + std::to_string(x.no_new_privileges() ? 1 : 0) + ", Seccomp " + std::to_string(x.seccomp()) + ", unit " +
         (x.unit().empty() ? "none" : x.unit());
}

/// Programs have the restrictions of the keeper, whatever those of the node are.
void check_keeper(const v1::NodeStatus& s, report& r) {
  const auto node = words_of(s.has_restrictions(), s.restrictions()), keeper = words_of(s.has_keeper_restrictions(), s.keeper_restrictions());
  const json details{{"pid", s.keeper_pid()}, {"restrictions", node}, {"keeper_restrictions", keeper}};
  if (!s.keeper_refused().empty())
    return r.add("keeper", "fail", s.keeper_refused(), details);
  if (s.keeper_pid() == 0)
    return r.add("keeper", "fail", "the node has no keeper; see its log", details);
  const auto pid = "pid " + std::to_string(s.keeper_pid());
  if (node == keeper || node.is_null() || keeper.is_null())
    return r.add("keeper", "ok", pid, details);
  r.add("keeper", "warn",
        pid + " has other restrictions than the node, and so have the programs in terminals: " + keeper.get<std::string>() + "; the node " +
          node.get<std::string>() + ". To end them all: swarmctl down, then swarmctl up",
        details);
}

/// Work that nobody's shell has asked for, as after a restart of the machine, has the environment of the node.
void check_agents(const v1::NodeStatus& s, report& r) {
  std::string names;
  for (const auto& agent : s.agents())
    names += concat({names.empty() ? "" : ", ", agent});
  r.add("unattended", "info",
        names.empty() ? "no agent can start without a caller: the node finds no agent's program on its own PATH"
                      : concat({"can start without a caller: ", names, ", with the keys that config.toml gives them ([agents.NAME.environment])"}),
        {{"agents", std::vector<std::string>(s.agents().begin(), s.agents().end())}});
}

/// False when no node answers: then nothing else can be asked.
bool check_node(invocation& cli, report& r) {
  auto dir = cli.node().finder.state_directory();
  if (!cli.node().finder.running()) {
    const bool silent = is_silent(cli);
    std::error_code ec;
    if (auto file = state_dir{dir}.database(); !cli.elsewhere() && std::filesystem::exists(file, ec))
      r.add("database", "ok", file.string(), {{"path", file.string()}});
    else
      r.add("database", "warn", "no node is running; it is made when the node starts: swarmctl up", {{"state_dir", dir}});
    r.add("node", silent ? "fail" : "warn",
          silent                             ? no_node_text(state_dir{dir})
          : cli.node().finder.is_kept_down() ? "it was stopped with swarmctl down, and stays so until: swarmctl up"
                                             : "no node is running; start one with: swarmctl up");
    return false;
  }
  auto s = cli.node().admin.status();
  dir = s.state_dir();
  r.add("database", "ok", state_dir{dir}.database().string(), {{"path", state_dir{dir}.database().string()}, {"schema_version", s.schema_version()}});
  bool same = s.version() == SWARM_VERSION;
  r.add("node", same ? "ok" : "warn",
        s.node_name() + ", pid " + std::to_string(s.pid()) + ", up " + duration(s.uptime_ms()) +
          (same ? "" : ", version " + s.version() + " but swarmctl is " SWARM_VERSION ": swarmctl down --keep-programs, then up"),
        {{"pid", s.pid()}, {"version", s.version()}});
  check_keeper(s, r);
  check_agents(s, r);
  return true;
}

void check_disk(invocation& cli, report& r) {
  if (cli.elsewhere())
    return r.add("disk", "info", "of another host; there: swarmctl doctor");
  std::error_code ec;
  auto space = std::filesystem::space(cli.node().finder.state_directory(), ec);
  if (ec) {
    r.add("disk", "info", "the state directory does not exist yet");
    return;
  }
  auto status = space.available < limits::disk_critical_bytes() ? "fail" : space.available < limits::disk_low_bytes() ? "warn" : "ok";
  r.add("disk", status, byte_count(space.available) + " free", {{"available_bytes", space.available}});
}

void check_instances(invocation& cli, report& r) {
  std::uint64_t live = 0;
  json stale = json::array();
  for (const auto& s : all_sessions(cli, cli.scope())) {
    if (domain::is_attended(s, cli.now_ms()) || cli.now_ms() - s.heartbeat_ms() <= limits::session_stale().count())
      ++live;
    else
      stale.push_back(s.id());
  }
  r.add("live_instances", "info", std::to_string(live) + " live in this scope", {{"count", live}});
  r.add("stale_instances", stale.empty() ? "ok" : "warn",
        stale.empty() ? "none"
                      : concat({stale.size(), " have not been heard of for ", duration(limits::session_stale().count()), "; they go after ",
                                duration(limits::session_reclaim().count())}),
        {{"instances", stale}});
}

void check_integrity(invocation& cli, report& r) {
  auto check = cli.node().admin.check({});
  r.add("integrity", check.ok() ? "ok" : "fail", check.ok() ? "the store is consistent" : check.text() + "; restore a backup");
}

void check_environment(invocation& cli, report& r) {
  json details = json::object();
  for (auto name : {"SWARM_HOME", "SWARM_DB_PATH", "SWARM_MCP_BIN", "SWARM_MCP_SCOPE", "SWARM_MCP_INSTANCE_ID", "AGENT_IDENTITY", "SWARM_IDENTITY",
                    "SWARM_WORK_TRACKER"})
    details[name] = mcp::text_or_null(cli.env().get(name));
  bool ignored = !cli.env().get("SWARM_DB_PATH").empty();
  r.add("env", ignored ? "warn" : "info",
        ignored ? "SWARM_DB_PATH has no effect here; SWARM_HOME names the state directory" : "the variables in use are in --json", details);
}

/// What install has to give, and how each agent's program that is here is set up.
void check_hosts_into(invocation& cli, report& r) {
  auto share = share_directory(cli.env().get("SWARM_SHARE"));
  for (auto [name, part] : {std::pair{"skill_discovery", "skills"}, std::pair{"plugin_discovery", "agents"}}) {
    std::error_code ec;
    bool there = !share.empty() && std::filesystem::is_directory(share / part, ec);
    r.add(name, there ? "info" : "warn",
          there ? (share / part).string() : "the files that come with swarmctl are not found; SWARM_SHARE names their directory");
  }
  if (cli.env().get("HOME").empty())
    return;
  for (auto& check : check_hosts(cli.env()))
    r.add(check.name.c_str(), check.status, check.message, std::move(check.details));
}

/// Which agents cannot start for want of a key; faults of the file itself are the start's.
void check_secrets_into(const invocation& cli, report& r) {
  if (cli.elsewhere() || cli.config_file.empty())
    return;
  auto document = read_config(cli.config_file, domain::whole_config());
  const auto used = domain::secrets_used(document);
  if (used.empty() || !document.faults.empty())
    return;
  const secret_store secrets{secrets_directory(cli.config_file.parent_path())};
  domain::check_secrets(document, [&](std::string_view name) { return secrets.has(name); });
  for (const auto& fault : document.faults)
    r.add("secrets", "fail", fault.told(cli.config_file.string()));
  if (document.faults.empty())
    r.add("secrets", "ok", concat({"config.toml names ", counted(used.size(), "secret"), ", and nothing is missing"}));
}

int run_doctor(invocation& cli) {
  report r;
  check_context(cli, r);
  cli.node().finder.never_start();
  if (!cli.flags.timeout_given)
    cli.node().finder.set_timeout_ms(limits::doctor_check_timeout.count());
  check_binary(r);
  attempt(r, "start", [&] { check_start(cli, r); });
  bool node = false;
  attempt(r, "node", [&] { node = check_node(cli, r); });
  attempt(r, "scope", [&] { r.add("scope", "ok", cli.scope(), {{"scope", cli.scope()}, {"named", is_named_scope(cli.scope())}}); });
  if (node) {
    attempt(r, "cluster", [&] { check_cluster(cli, r); });
    attempt(r, "live_instances", [&] { check_instances(cli, r); });
  }
  attempt(r, "hosts", [&] { check_hosts_into(cli, r); });
  attempt(r, "secrets", [&] { check_secrets_into(cli, r); });
  check_environment(cli, r);
  check_disk(cli, r);
  if (node)
    attempt(r, "integrity", [&] { check_integrity(cli, r); });
  if (cli.json_wanted()) {
    std::size_t failed = 0;
    for (const auto& c : r.checks())
      failed += c["status"] == "fail";
    cli.io().print({{"ok", !r.failed()}, {"failed", failed}, {"scope", cli.scope()}, {"checks", r.checks()}});
    return r.failed() ? code::refused : code::ok;
  }
  auto& io = cli.io();
  for (const auto& c : r.checks()) {
    auto status = c["status"].get<std::string>();
    auto tag = status == "ok" ? "OK  " : status == "fail" ? "FAIL" : status == "warn" ? "WARN" : "INFO";
    auto tint = status == "ok" ? colour::green : status == "fail" ? colour::red : status == "warn" ? colour::yellow : colour::dim;
    io.painted_line("  [" + io.paint(tint, tag) + "] " +
                    io.paint(colour::none, c["name"].get<std::string>() + ": " + c["message"].get<std::string>()));
  }
  if (r.failed())
    io.line("Something is wrong: see the lines with FAIL.");
  else if (r.warnings() > 0)
    io.line(counted(r.warnings(), "warning") + ": see the lines with WARN.");
  else
    io.line("Nothing is wrong.");
  return r.failed() ? code::refused : code::ok;
}

void build_doctor(CLI::App& app, invocation& cli) {
  on_run(app, cli, [&cli] { return run_doctor(cli); });
}

constexpr verb verbs[] = {
  {.name = "doctor",
   .about = subject::start,
   .summary = "check the programs, the disk, the agents' set-up and the running node; exit 1 if a check fails",
   .examples = "  swarmctl doctor --json",
   .build = build_doctor,
   .chooses_node = true},
};

} // namespace

std::span<const verb> doctor_verbs() { return verbs; }

} // namespace swarm::cli
