// What calls about one conversation begin with.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "services/call/service_environment.hpp"

namespace swarm {

/// Runs `next(row)` when this principal sees the conversation and what was said in it is kept here; `refuse(status)` otherwise. The scope is the
/// store's.
template <class Self, class Next, class Refuse>
void with_conversation(Self* self, const std::shared_ptr<service_environment>& service, const v1::Principal& principal, const std::string& scope,
                       const std::string& id, Next next, Refuse refuse) {
  auto front = service->board->get().front;
  if (!front)
    return refuse(to_status(errc::unavailable));
  auto q = std::make_shared<v1::Query>();
  q->set_scope(scope);
  *q->mutable_principal() = principal;
  if (principal.kind() == v1::Principal::SESSION)
    q->set_viewer(principal.id());
  q->mutable_list_conversations()->set_id(id);
  ask(self, front, query_ptr{q})
    .then(
      [service, q, next, refuse](const answer_ptr& a) {
        if (a->has_refusal()) {
          service->refused.add_if_forbidden(*q, a->refusal());
          return refuse(to_status(a->refusal()));
        }
        if (a->conversations().conversations_size() != 1)
          return refuse({grpc::StatusCode::NOT_FOUND, "no conversation " + q->list_conversations().id() + "; `swarmctl chat list` shows them"});
        const auto& row = a->conversations().conversations(0);
        if (row.node_id() != service->node->facts.node_id)
          return refuse(
            {grpc::StatusCode::FAILED_PRECONDITION, "what was said in this conversation is kept on the node " + row.node_id() + "; read it there"});
        next(row);
      },
      [refuse](caf::error& e) { refuse(to_status(e)); });
}

} // namespace swarm
