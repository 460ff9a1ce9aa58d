// A task somebody is working on: commands about it pass in order; it knows the newest row for the graph.
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/fabric/entity.hpp"

namespace swarm {

struct task_state {
  static inline const char* name = "task";
  entity_place place;
  v1::TaskStatus status = v1::TASK_STATUS_UNSPECIFIED;
  std::string assignee;
};

task_actor::behavior_type task(task_actor::stateful_pointer<task_state> self, entity_place place);

} // namespace swarm
