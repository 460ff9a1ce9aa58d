// The two ways to end another actor.
#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/exit_reason.hpp>
#include <caf/make_message.hpp>
#include <caf/message_id.hpp>
#include <caf/system_messages.hpp>

namespace swarm::runtime {

namespace detail {

template <class Handle>
void send_exit(const Handle& who, caf::exit_reason reason, caf::message_priority priority) {
  if (auto target = caf::actor_cast<caf::strong_actor_ptr>(who))
    target->enqueue(nullptr, caf::make_message_id(priority), caf::make_message(caf::exit_msg{target->address(), reason}), nullptr);
}

} // namespace detail

/// Queues behind the mail that is already there; the actor's exit handler decides.
template <class Handle>
void ask_to_end(const Handle& who) {
  detail::send_exit(who, caf::exit_reason::user_shutdown, caf::message_priority::normal);
}

/// Overtakes the mail, and no exit handler runs. An actor inside a handler ends when that handler returns.
template <class Handle>
void kill(const Handle& who) {
  detail::send_exit(who, caf::exit_reason::kill, caf::message_priority::high);
}

} // namespace swarm::runtime
