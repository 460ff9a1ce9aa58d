// What the requests that are no commands or queries must hold before anybody is asked: lengths, counts, required fields.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "swarm/v1/conversation.pb.h"
#include "swarm/v1/coordination.pb.h"
#include "swarm/v1/pty.pb.h"

namespace swarm {

/// What is wrong with the scope of a command or query: too long to be routed, or missing.
enum class scope_is { required, optional };
std::optional<std::string> wrong_scope(std::string_view scope, scope_is);

/// A text for the caller, whose call ends with INVALID_ARGUMENT, when a bound of the contract is broken; nothing otherwise. Sizes and
/// signals are the terminal's to judge.
std::optional<std::string> wrong_with(const v1::WatchRequest&);
std::optional<std::string> wrong_with(const v1::WaitRequest&);
std::optional<std::string> wrong_with(const v1::AttachRequest&);
std::optional<std::string> wrong_with(const v1::ReadConversationRequest&);
std::optional<std::string> wrong_with(const v1::CreatePtyRequest&);
std::optional<std::string> wrong_with(const v1::ListPtysRequest&);
std::optional<std::string> wrong_with(const v1::ReadPtyRequest&);
std::optional<std::string> wrong_with(const v1::SendPtyRequest&);
std::optional<std::string> wrong_with(const v1::ResizePtyRequest&);
std::optional<std::string> wrong_with(const v1::KillPtyRequest&);
std::optional<std::string> wrong_with(const v1::ForgetPtyRequest&);
std::optional<std::string> wrong_with(const v1::AttachFrame&);

/// The command that starts a terminal, under the request's own id. What is not checked above is checked with the command.
v1::ExecuteRequest spawn_request(const v1::CreatePtyRequest&);

/// What a worker of the harness gets of its caller's environment, as NAME=value; nothing when it is longer than limits::environment_bytes_max().
std::optional<std::vector<std::string>> worker_environment(const google::protobuf::RepeatedPtrField<v1::EnvironmentVariable>&,
                                                           std::string_view harness);

} // namespace swarm
