// Which agent's program runs us: its hooks and its tool server are told by it to belong together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/process.hpp"
#include "swarm/v1/state.pb.h"

namespace swarm::cli {

namespace v1 = ::swarm::v1;

/// The program that started this process, over shells in between. Nothing when it has gone or cannot be seen.
std::optional<process_stat> starter_of(pid_t);

/// The session for which the tool server of our agent speaks, of all the sessions of a scope; nothing when it has none, or when it is not
/// plain which one is meant: the agent may run several sessions at once. `me`: the session our hooks know, or empty. `is_anothers`: it is
/// that of other hooks.
std::optional<v1::Session> tool_server_session(const std::vector<v1::Session>& sessions, const std::string& me,
                                               const std::function<bool(const std::string& id)>& is_anothers);

} // namespace swarm::cli
