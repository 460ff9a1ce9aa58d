// What the entities of a scope have in common.
#pragma once

#include <string>

#include <caf/actor_addr.hpp>

#include "actors/base/limits.hpp"
#include "actors/fabric/node_environment.hpp"
#include "actors/runtime/defaults.hpp"
#include "actors/runtime/parked.hpp"
#include "actors/runtime/tree.hpp"

namespace swarm {

/// How an entity is made: where it lives and what stands below it.
struct entity_place {
  node_links links;
  std::string scope;
  std::string id;         // task id, lock path, session id, spawn id
  caf::actor_addr around; // the scope's actor, which makes it
};

/// Sends `exec` to the writer and hands the reply, or the error, to `on_reply`/`on_error` inside the actor.
template <class Self, class OnReply, class OnError>
void ask_writer(Self self, const writer_actor& writer, execution_ptr exec, OnReply on_reply, OnError on_error) {
  self->request(writer, limits::call_deadline_default(), std::move(exec))
    .then([on_reply](const reply_ptr& r) { on_reply(r); }, [on_error](caf::error& e) { on_error(e); });
}

/// The key a waiting request is known by: principal, client, number.
std::string wait_key(const v1::Principal& principal, const v1::RequestId& id);

} // namespace swarm
