#include "services/call/caller_place.hpp"

#include <algorithm>

#include <unistd.h>

#include "actors/base/text.hpp"
#include "services/call/principals.hpp"

namespace swarm {

/// Also of another node, or one that was not seen: it names itself so, and after an upgrade its file is " (deleted)".
bool caller_places::is_keeper(const named_process& p) const {
  constexpr std::string_view name = "swarm-keeper";
  return p.pid == keeper_pid_() || p.name == name || agents::name_of({roots_.processes().executable_of(p.pid).value_or(""), p.name, {}}) == name;
}

caller_look caller_places::look_at(std::int64_t pid) const {
  caller_look out;
  auto& place = out.place;
  const auto& all = roots_.processes();
  auto line = agents::lineage_of(all, static_cast<pid_t>(pid));
  if (!line)
    return out;
  out.line = std::move(*line);
  const auto& chain = out.line.processes;
  out.standing = agents::standing_of(all, out.line, geteuid(), [this](const process_stat& p) { return roots_.known(p); });
  if (auto worker = workers_.of_lineage(chain)) {
    place.is = caller_place::kind::worker;
    place.worker = std::move(*worker);
    return out;
  }
  // By ancestry, whether or not we are attached to the keeper just now, and by the mark every worker is started with, which is left when a keeper
  // was killed and its orphans went elsewhere.
  const auto environment = all.environment_of(static_cast<pid_t>(pid)).value_or("");
  if (variable_in(environment, "SWARM_SPAWN_ID") || std::any_of(chain.begin(), chain.end(), [this](const auto& p) { return is_keeper(p); })) {
    place.is = caller_place::kind::stray;
    place.own_session = variable_in(environment, "SWARM_MCP_INSTANCE_ID").value_or("");
    return out;
  }
  if (out.standing.root) {
    const auto& root = out.standing.chain[*out.standing.root];
    place.is = caller_place::kind::agent;
    place.root = {root.pid, root.start};
    place.program = root.agent->name;
    roots_.found(place.root, place.program);
  } else if (!out.standing.mark.empty()) {
    place.is = caller_place::kind::marked;
    place.root = {chain.front().pid, chain.front().start};
    place.mark = out.standing.mark;
  } else {
    place.is = out.standing.is_orphan ? caller_place::kind::orphan : caller_place::kind::user;
  }
  return out;
}

std::string reason_of(const caller_place& p) {
  switch (p.is) {
    case caller_place::kind::unseen:
      return "the node cannot see this process: it is in a PID namespace of its own (a container), or gone; run swarmctl where the node runs";
    case caller_place::kind::worker: return "this process runs in a worker of the node";
    case caller_place::kind::stray: return "this process belongs to a worker that is not known here; show the worker's SWARM_TOKEN";
    case caller_place::kind::agent: return concat({"this process was started by the agent ", p.program, " (process ", p.root.pid, ")"});
    case caller_place::kind::marked:
      return concat({"this process has ", p.mark, " in its environment, which agents set for the commands of their tools, and no agent is above it"});
    case caller_place::kind::orphan:
      return "who started this process has ended, or is a container's first process beside an agent: nobody can tell whether a person wants it";
    case caller_place::kind::user: break;
  }
  return "this process was started by the user of the node, and by no agent";
}

} // namespace swarm
