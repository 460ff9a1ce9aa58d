#include "actors/fabric/entities/task.hpp"

#include "actors/domain/rules.hpp"

namespace swarm {

task_actor::behavior_type task(task_actor::stateful_pointer<task_state> self, entity_place place) {
  runtime::install_defaults(self);
  self->state.place = std::move(place);
  return {
    [self](const execution_ptr& exec) -> caf::result<reply_ptr> { return self->delegate(self->state.place.links.writer, exec); },
    [self](const batch_ptr& b) {
      for (const auto& p : b->patches())
        if (p.has_task() && p.task().id() == self->state.place.id) {
          self->state.status = p.task().status();
          self->state.assignee = p.task().assignee();
        }
    },
    [self](passivate_atom) {
      self->quit();
      return true;
    },
    [self](tree_atom) {
      const auto& st = self->state;
      return runtime::self_row(self, st.status == v1::TASK_STATUS_UNSPECIFIED ? "awake" : domain::to_text(st.status), st.assignee);
    },
  };
}

} // namespace swarm
