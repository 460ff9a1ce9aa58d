// Whether something in a scope is alive that could not be found any more once the scope is another node's, or another name's.
#pragma once

#include <functional>
#include <string>

#include <caf/event_based_actor.hpp>

#include "services/call/service_environment.hpp"

namespace swarm {

/// Goes on with `next` when nothing of the scope is alive; otherwise the caller is refused. `root`: only sessions that stand there count.
void if_unused(caf::event_based_actor* self, const service_environment& service, const std::string& scope, const std::string& root,
               std::function<void()> next, unary_ptr answer);

/// Goes on with `next` when no session of this host holds a lock of the scope, or may wait for one, whose path is `renamed`; otherwise the caller is
/// refused, and told who.
void if_locks_keep_names(caf::event_based_actor* self, const service_environment& service, const std::string& scope,
                         std::function<bool(const std::string& path)> renamed, std::function<void()> next, unary_ptr answer);

enum class use_of_scope : std::uint8_t { locks, anything };

/// What is alive in this node's own named scopes, for people: by scope, with names. Empty = nothing.
void find_named_in_use(caf::event_based_actor* self, const service_environment& service, use_of_scope what, std::function<void(std::string)> done,
                       unary_ptr answer);

} // namespace swarm
