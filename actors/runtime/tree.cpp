#include "actors/runtime/tree.hpp"

#include <utility>

namespace swarm::runtime {

std::int64_t mailbox_depth(caf::scheduled_actor* self) { return static_cast<std::int64_t>(self->mailbox().size()); }

tree_entry self_row(caf::scheduled_actor* self, std::string state, std::string detail) {
  tree_entry e;
  e.kind = self->name();
  e.state = std::move(state);
  e.mailbox_depth = mailbox_depth(self);
  e.detail = std::move(detail);
  return e;
}

} // namespace swarm::runtime
