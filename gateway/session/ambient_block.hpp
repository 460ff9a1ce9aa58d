// The ambient context: what an agent should know of the swarm without asking, as a short block for its prompt. Byte for byte the same as
// long as nothing it shows changes, so that prompt caches hold: no times, no ages, everything in a fixed order. What others wrote is
// quoted, on one line, cut, and without characters that cannot be seen.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/base/limits.hpp"

#include "swarm/v1/coordination.pb.h"

namespace swarm::mcp {

namespace v1 = ::swarm::v1;
using json = nlohmann::ordered_json;

/// What the block is made of. The last three are a gateway's.
struct ambient {
  v1::Status status;
  bool gateway = false;
  std::vector<v1::Spawn> workers;  // live, in order of their request
  std::vector<v1::Task> completed; // the newest first
};

/// One status query, and for a gateway a few more. `base` has scope, viewer and caller; `ask` may throw and leaves refusals in the
/// answer. Nothing when the viewer is not registered.
std::optional<ambient> gather_ambient(const v1::Query& base, const std::function<v1::Answer(const v1::Query&)>& ask);

struct ambient_block {
  json value;       // the same facts, for programs
  std::string text; // at most limits::ambient_bytes_max bytes, with a newline at its end
};
ambient_block make_ambient_block(const ambient&);

/// The messages that a session has not read, for the prompt of an agent that learns of them in no other way; empty when there are none. Has the same
/// bounds, and is the same to the byte as long as no message comes or is read.
std::string make_mail_block(const v1::Status&);

/// Foreign text as the block shows it, quotes included: one line, at most that many bytes of it.
std::string quoted_foreign(std::string_view text, std::size_t bytes_max = limits::ambient_text_bytes_max);

} // namespace swarm::mcp
