// Whether somebody who was prompted has heard of it. Shared by the MCP server and the command line.
#pragma once

#include <string>

#include "swarm/v1/coordination.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;

/// Somebody is woken now: whether that works can be heard.
bool wakes_somebody(const v1::PromptResult&);
/// What to watch after the prompt: any of these events may be the one.
v1::WatchRequest nudge_events(const std::string& scope, const v1::PromptResult&, std::uint64_t revision);
/// What one of these events says of the prompt. Unclear: it names as many messages as it may, so that this one may be among the others.
enum class hearing { no, unclear, yes };
hearing heard_in(const v1::Event&, const v1::PromptResult&);
/// For what no event has told: completes a query of the sender's for was_nudged.
void ask_for_nudge(v1::Query&, const v1::PromptResult&);
/// The recipient was woken for it, or has read it. Not so, too, when the message is not in the answer: then nothing is known.
bool was_nudged(const v1::Answer&, const v1::PromptResult&);
/// Why, as far as is known, nobody heard of it within limits::nudge_wait().
std::string nudge_error(const v1::PromptResult&);

} // namespace swarm::mcp
