// The locks of scopes as rows have them: for all conversations of a scope at once, and for what an agent is about to write.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/base/limits.hpp"
#include "actors/fabric/messages/conversations.hpp"
#include "actors/fabric/node_environment.hpp"
#include "swarm/v1/query.pb.h"

namespace swarm {

/// Puts a question about `scope` to a reader; `answered` or `failed` follows.
using ask_rows = std::function<void(const std::string& scope, const std::function<void(v1::Query&)>& fill,
                                    std::function<void(const v1::Answer&)> answered, std::function<void()> failed)>;
/// From within `self`: `reader()` names the reader.
template <class Self, class Reader>
ask_rows asks(Self self, node_environment_ptr node, Reader reader) {
  return [self, node, reader](const std::string& scope, const auto& fill, auto answered, auto failed) {
    self->request(reader(), limits::call_deadline_default(), internal_query(*node, scope, fill))
      .then([answered](const answer_ptr& a) { answered(*a); }, [failed](caf::error&) { failed(); });
  };
}

/// All of the scope, as far as the bound goes.
void read_scope_locks(const ask_rows&, const node_environment&, const std::string& scope, std::function<void(scope_locks_ptr)> then,
                      std::function<void()> failed);
/// Of the other scopes of this node in whose directories the tool writes, one after the other.
void read_locks_around(const ask_rows&, const node_environment_ptr&, const std::string& scope, const internal::HookQuestion&,
                       std::function<void(std::vector<scope_locks_ptr>)> then, std::function<void()> failed);

} // namespace swarm
