#include "services/call/agent_call.hpp"

#include <algorithm>

#include "actors/agents/agent.hpp"
#include "actors/domain/agent_start.hpp"

namespace swarm {

namespace {

constexpr int agents_in_agents_max = 64;

struct agent_process {
  process_key process;
  std::string program;
};

agent_process outermost(agent_roots& roots, agent_process at) {
  for (int i = 0; i < agents_in_agents_max; ++i) {
    auto own = roots.processes().process(static_cast<pid_t>(at.process.pid));
    auto above = own ? roots.root_of(own->parent) : std::nullopt;
    if (!above)
      break;
    at = {above->process, above->program};
  }
  return at;
}

} // namespace

std::optional<v1::AgentStart> agent_start_of(const caller_places& places, const claim& who) {
  if (!who.is_below_agent())
    return std::nullopt;
  const auto& place = who.place;
  auto& roots = places.roots();
  const auto started = outermost(roots, {place.root, place.program});
  const auto* program = agents::find(started.program);
  auto out = domain::agent_start(program ? program->variables : "",
                                 [&](std::string_view name) { return roots.environment_of_root(started.process, name).value_or(""); });
  // An id is given to one program, which is not what that has started.
  if (started.process != place.root)
    out.clear_instance_id();
  out.set_root(place.root.text());
  out.set_program(place.program);
  return out;
}

v1::Principal speaker(const caller_places& places, const claim& who, const v1::Principal& caller, const std::string& named) {
  auto out = caller;
  if (!who.is_below_agent() || who.rule == v1::Explanation::TOKEN || caller.kind() != v1::Principal::SESSION || named.empty() || named == caller.id())
    return out;
  const auto root = places.roots().find(who.place.root);
  if (root && std::any_of(root->sessions.begin(), root->sessions.end(), [&](const auto& s) { return s.id == named; })) {
    out.set_id(named);
    out.clear_grants(); // the grants are those of the session that the place stands for
  }
  return out;
}

} // namespace swarm
