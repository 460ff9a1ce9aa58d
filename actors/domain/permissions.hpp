// The words for what the agent of a conversation may do unasked.
#pragma once

#include "swarm/v1/state.pb.h"

namespace swarm::domain {

namespace v1 = ::swarm::v1;

/// "ask", "auto-edit", "auto", "plan", "deny".
const char* to_text(v1::Conversation::Permissions) noexcept;

} // namespace swarm::domain
