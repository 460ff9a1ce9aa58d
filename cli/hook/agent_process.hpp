// Finds the agent program that started this process. Hooks and the tool server of one agent recognise each other by it.
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

/// The program that started the process, not counting shells in between. Nothing when it is gone or not visible.
std::optional<process_stat> starter_of(pid_t);

/// The session that our agent's tool server has registered, among all sessions of a scope. Nothing when there is none, or when it is ambiguous
/// because the agent runs several sessions. `me`: the session that our hooks know, or empty. `is_anothers`: whether other hooks use a session.
std::optional<v1::Session> tool_server_session(const std::vector<v1::Session>& sessions, const std::string& me,
                                               const std::function<bool(const std::string& id)>& is_anothers);

} // namespace swarm::cli
