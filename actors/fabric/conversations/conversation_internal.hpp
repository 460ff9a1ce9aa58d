// What the files of a conversation's actor share.
#pragma once

#include <chrono>
#include <functional>

#include "actors/base/limits.hpp"
#include "actors/fabric/conversations/conversation.hpp"

namespace swarm::conversation_internal {

using self_ptr = conversation_actor::stateful_pointer<conversation_state>;

inline std::int64_t now_ms(self_ptr self) { return self->state.place.links.node->clock->unix_ms(); }

/// Nothing of what it has told is left but what the log has.
inline constexpr const char* ended_with_node = "its driver and its node ended together";

inline constexpr auto again_soon = limits::conversation_again_soon;
inline constexpr auto again_later = limits::conversation_again_later;

// conversation.cpp
void after(self_ptr, std::chrono::milliseconds delay, std::function<void()> then);
/// Ends this actor. The scope makes another one, which reads log and rows again and asks the driver for what they do not have.
void give_up(self_ptr, const char* what, const caf::error&);
/// Does what the dialogue wants done.
void pump(self_ptr);
/// For the followers.
void show_row(self_ptr, const v1::Conversation&);
void tell_followers(self_ptr);
void begin_generation(self_ptr, log_tail);

// conversation_driver.cpp
/// Once its gate is open.
void connect(self_ptr);
void lose_pipes(self_ptr);
void read_output(self_ptr);
/// Writes what waits for the driver's input.
void type(self_ptr);
void enqueue(self_ptr, conversation_state::frame);
void enqueue(self_ptr, conversation_state::sent_file);

// conversation_rows.cpp
void load(self_ptr);
void on_batch(self_ptr, const v1::Batch&);
template <class Fill, class Then, class Failed>
void ask_reader(self_ptr self, Fill fill, Then then, Failed failed) {
  const auto& place = self->state.place;
  self->request(place.links.readers.front(), limits::call_deadline_default(), internal_query(*place.links.node, place.scope, fill))
    .then([then](const answer_ptr& a) { then(*a); }, [failed](caf::error& e) { failed(e); });
}

// conversation_locks.cpp
void judge_hook(self_ptr, const internal::HookQuestion&);
void judge_answer(self_ptr, const dialogue::judge_answer&);
/// They may be others than the driver knows. Without locks it reads them.
void refresh_locks(self_ptr, scope_locks_ptr = nullptr);

} // namespace swarm::conversation_internal
