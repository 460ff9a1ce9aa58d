#include "services/host/harness.hpp"

#include <filesystem>
#include <iterator>
#include <sstream>

#include <unistd.h>

#include "actors/base/program.hpp"
#include "actors/base/text.hpp"
#include "actors/base/worktree.hpp"
#include "actors/domain/harness.hpp"
#include "actors/domain/refusal.hpp"

namespace swarm {

namespace {

/// By its own name, or by the name the caller's SWARM_HARNESS_<NAME> gives its program (as in swarm-mcp). Empty when it is unknown.
std::string named(const std::string& name, const std::vector<std::string>& environment) {
  if (domain::is_harness(name))
    return name;
  for (auto agent : domain::agents)
    if (!name.empty() && variable(environment, domain::launcher_variable(agent)) == name)
      return std::string{agent};
  return {};
}

/// What starts the agent in its program's place; empty = nothing does. swarm-mcp puts the alias unquoted into a shell script, so it may carry
/// arguments.
std::vector<std::string> chosen_launcher(const std::string& agent, const std::vector<std::string>& environment) {
  std::istringstream words{variable(environment, domain::launcher_variable(agent))};
  return {std::istream_iterator<std::string>{words}, {}};
}

std::vector<std::string> launcher(const std::string& agent, const std::vector<std::string>& environment) {
  auto out = chosen_launcher(agent, environment);
  if (out.empty())
    out.push_back(agent);
  return out;
}

v1::Refusal not_installed(const std::string& harness, const std::string& program) {
  return domain::refusal(v1::Refusal::NOT_INSTALLED, concat({"The harness ", harness, " is not installed: no program ", program,
                                                             " on PATH. Install it or choose another --harness."}));
}

v1::Refusal no_directory(const std::string& directory) {
  return domain::refusal(v1::Refusal::NOT_FOUND, concat({"There is no directory ", directory, " on this node"}));
}

v1::Refusal no_program(const std::string& program, const std::string& directory) {
  if (program.find('/') == std::string::npos)
    return domain::refusal(v1::Refusal::NOT_FOUND, concat({"There is no program ", program, " on PATH"}));
  auto file = std::filesystem::path{directory} / program;
  std::error_code ec;
  if (std::filesystem::is_directory(file, ec))
    return domain::refusal(v1::Refusal::NOT_FOUND, concat({program, " is a directory, not a program"}));
  if (std::filesystem::exists(file, ec))
    return domain::refusal(v1::Refusal::NOT_FOUND, concat({program, " cannot be executed: chmod +x it, or name its interpreter (sh ", program, ")"}));
  return domain::refusal(v1::Refusal::NOT_FOUND, concat({"There is no program ", program, " in ", directory}));
}

/// The agent of a conversation is what its caller names, as in StartConversation.
bool is_structured(const v1::Dispatch& d) { return d.structured(); }
bool is_structured(const v1::RequestSpawn&) { return false; }

/// Its driver looks for the program again at each start; a caller without PATH leaves it to the node.
std::optional<v1::Refusal> check_conversation(v1::StartConversation& s, const std::vector<std::string>& environment) {
  std::error_code ec;
  if (!s.directory().empty() && !std::filesystem::is_directory(s.directory(), ec))
    return no_directory(s.directory());
  if (domain::is_agent(s.harness()) && s.argv().empty())
    for (const auto& word : chosen_launcher(s.harness(), environment))
      s.add_argv(word);
  const bool is_named = !s.argv().empty();
  if (!domain::is_agent(s.harness()) || (!is_named && variable(environment, "PATH").empty()))
    return std::nullopt; // the store knows which agents there are
  const auto program = is_named ? s.argv(0) : s.harness();
  if (find_program(program, search_path(environment), s.directory()))
    return std::nullopt;
  return is_named ? no_program(program, s.directory()) : not_installed(s.harness(), program);
}

/// Fields shared by Dispatch and RequestSpawn.
template <class Body>
std::optional<v1::Refusal> check(Body& body, const std::vector<std::string>& environment) {
  auto harness = named(body.harness(), environment);
  if (harness.empty())
    return domain::refusal(v1::Refusal::INVALID, concat({"Unknown harness \"", body.harness(), "\". Known: ", domain::harness_names(), "."}));
  body.set_harness(harness);
  std::error_code ec;
  if (!body.directory().empty() && !std::filesystem::is_directory(body.directory(), ec))
    return no_directory(body.directory());
  auto path = search_path(environment);
  if (harness == domain::shell_harness && body.argv().empty()) {
    auto shell = variable(environment, "SHELL");
    body.add_argv(shell.empty() ? "/bin/sh" : shell);
  }
  if (domain::is_agent(harness)) {
    auto words = launcher(harness, environment);
    if (is_structured(body) && !body.argv().empty())
      words.assign(body.argv().begin(), body.argv().end());
    auto found = find_program(words[0], path, body.directory());
    if (!found)
      return not_installed(harness, words[0]);
    words[0] = *found;
    body.mutable_argv()->Assign(words.begin(), words.end());
    return std::nullopt;
  }
  if (body.argv().empty())
    return domain::refusal(v1::Refusal::INVALID, "The harness exec needs a command: … --harness exec -- PROGRAM ARGUMENTS");
  if (!find_program(body.argv(0), path, body.directory()))
    return no_program(body.argv(0), body.directory());
  return std::nullopt;
}

/// The worker belongs to the worktree its scope is about, even when another worker asked for it from its own.
template <class Body>
std::optional<v1::Refusal> place_in_repository(Body& body, const std::string& scope) {
  auto tree = find_git_tree(body.directory());
  if (!tree)
    return domain::refusal(v1::Refusal::INVALID, concat({"A worker with a worktree of its own needs a git repository, and ", body.directory(),
                                                         " is in none. Name another directory, or leave --worktree out."}));
  auto directory = repository_path(body.directory(), scope);
  if (!find_git_tree(directory))
    return domain::refusal(v1::Refusal::INVALID, concat({"The repository ", tree->repository, " has no main worktree. Leave --worktree out."}));
  body.set_directory(directory);
  return std::nullopt;
}

template <class Body>
std::optional<v1::Refusal> prepare(Body& body, const std::string& scope, const std::vector<std::string>& environment) {
  if (!body.worktree())
    return check(body, environment);
  if (auto r = place_in_repository(body, scope))
    return r;
  if (!find_program("git", search_path(environment), body.directory()))
    return domain::refusal(v1::Refusal::NOT_INSTALLED, "A worker with a worktree of its own needs git, and there is no program git on PATH");
  return check(body, environment);
}

} // namespace

std::optional<v1::Refusal> check_harness(v1::Command& cmd, const std::vector<std::string>& environment) {
  if (cmd.has_dispatch() && !cmd.dispatch().harness().empty())
    return prepare(*cmd.mutable_dispatch(), cmd.scope(), environment);
  if (cmd.has_dispatch() && cmd.dispatch().worktree())
    return domain::refusal(v1::Refusal::INVALID, concat({"A worktree is made for a worker: name its harness, one of ", domain::harness_names()}));
  if (cmd.has_start_conversation())
    return check_conversation(*cmd.mutable_start_conversation(), environment);
  if (cmd.has_request_spawn())
    return prepare(*cmd.mutable_request_spawn(), cmd.scope(), environment);
  return std::nullopt;
}

} // namespace swarm
