#include "actors/fabric/entity.hpp"

#include "actors/domain/rows.hpp"

namespace swarm {

std::string wait_key(const v1::Principal& principal, const v1::RequestId& id) {
  return domain::key(domain::principal_key(principal), id.client(), id.seq());
}

runtime::tree_entry self_row(caf::scheduled_actor* self, std::string state, std::string detail) {
  runtime::tree_entry e;
  e.kind = self->name();
  e.state = std::move(state);
  e.mailbox_depth = runtime::mailbox_depth(self);
  e.detail = std::move(detail);
  return e;
}

} // namespace swarm
