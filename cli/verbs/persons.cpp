#include "cli/persons.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "actors/agents/ancestry.hpp"
#include "actors/base/share_directory.hpp"
#include "cli/install/check.hpp"
#include "cli/verb.hpp"

namespace swarm::cli {

namespace {

/// Given and not taken back: --flag=false is given, too.
bool is_set(const CLI::App& command, const std::string& flag) {
  const auto* option = command.get_option(flag);
  return option->count() != 0 && option->as<bool>();
}

bool always(const invocation&, const CLI::App&) { return true; }

/// A node that runs says itself who may stop it, and counts who may not.
bool no_node_runs(const invocation& cli, const CLI::App&) {
  if (cli.elsewhere())
    return false;
  cli.node().finder.never_start();
  return !cli.node().finder.running();
}

bool is_kept_down(const invocation& cli, const CLI::App&) { return cli.node().finder.is_kept_down(); }

/// Whether the host is set up with a guard that the command leaves out.
bool weakens(const invocation& cli, const CLI::App& command, const std::string& host) {
  install_options o;
  o.program = program_for_settings(cli.env());
  o.share = share_directory(cli.env().get("SWARM_SHARE"));
  try {
    const auto now = options_as_installed(host, cli.env(), o);
    return (now.fail_closed && !is_set(command, "--fail-closed")) || (now.enforce && !is_set(command, "--enforce"));
  } catch (const std::exception&) {
    return false; // install does not change what it cannot read
  }
}

bool takes_guards_away(const invocation& cli, const CLI::App& command) {
  if (is_set(command, "--dry-run"))
    return false;
  if (is_set(command, "--uninstall"))
    return true;
  const auto named = comma_separated(command.get_option("--host")->results());
  auto is_named = [&](std::string_view name) { return std::find(named.begin(), named.end(), name) != named.end(); };
  const auto& hosts = install_host_names();
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    const bool meant = named.empty() || is_named("all") || is_named(host) || (host == "claude" && is_named("claude-code"));
    return meant && weakens(cli, command, host);
  });
}

struct persons_act {
  std::string_view command;
  const char* what;
  bool (*applies)(const invocation&, const CLI::App&);
};

/// All that is a person's without a node. What needs a node is in the table of rights.
constexpr persons_act acts[] = {
  {"down", "keeping a node down", no_node_runs},
  {"up", "starting a node that was stopped with swarmctl down", is_kept_down},
  {"restore", "replacing the store of a node", always},
  {"context use", "choosing the node that commands speak to", always},
  {"context set", "changing which node a name means", always},
  {"context delete", "forgetting the name of a node", always},
  {"config edit", "changing what the node is configured to do", always},
  {"secret set", "keeping a secret", always},
  {"secret list", "listing the names of secrets", always},
  {"secret rm", "removing a secret", always},
  {"install", "taking out or weakening what install has put in", takes_guards_away},
};

std::string path_of(const CLI::App& command) {
  const auto* above = command.get_parent();
  return above == nullptr ? std::string{} : above->get_parent() == nullptr ? command.get_name() : path_of(*above) + " " + command.get_name();
}

} // namespace

std::string why_no_person(const invocation& cli) {
  if (cli.env().in_worker())
    return "this process runs in a worker";
  const auto here = cli.node().finder.explain_here();
  if (here && here->rule() == v1::Explanation::LOGIN)
    return {};
  auto why = agents::reason_for_suspicion(system_processes(), getpid(), geteuid());
  return why.empty() && here && here->principal().kind() != v1::Principal::OPERATOR ? here->reason() : why;
}

void refuse_who_is_no_person(const invocation& cli, const CLI::App& command) {
  const auto path = path_of(command);
  const auto* act = std::find_if(std::begin(acts), std::end(acts), [&](const persons_act& a) { return a.command == path; });
  if (act == std::end(acts) || !act->applies(cli, command))
    return;
  if (auto why = why_no_person(cli); !why.empty())
    throw failure(code::refused, std::string{act->what} + " is for a person to do, and " + why +
                                   ". Run it in a terminal of your own; see: swarmctl whoami --explain");
}

void refuse_who_is_not_operator(const invocation& cli, const std::function<void()>& call) {
  const auto kind = [&]() -> std::optional<v1::Principal::Kind> {
    try {
      return cli.node().admin.explain().principal().kind();
    } catch (const call_failed& f) {
      if (!f.is_refusal())
        throw;
      return std::nullopt; // a node of a version that cannot say
    }
  }();
  if (!kind)
    cli.node().admin.nodes();
  if (kind && *kind != v1::Principal::OPERATOR)
    call();
}

} // namespace swarm::cli
