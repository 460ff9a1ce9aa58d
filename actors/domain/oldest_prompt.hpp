// A prompt that has no id yet.
#pragma once

namespace swarm::domain {

/// In ReportConversation.sending: whichever prompt waits longest.
inline constexpr auto oldest_prompt = "oldest";

} // namespace swarm::domain
