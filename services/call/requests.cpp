#include "services/call/requests.hpp"

#include "actors/base/environment.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"

namespace swarm {

namespace {

std::optional<std::string> wrong_bounds(const google::protobuf::Message& m) {
  auto refusal = domain::check_bounds(m);
  return refusal ? std::optional{refusal->text()} : std::nullopt;
}

template <class Message>
std::optional<std::string> wrong_without_scope(const Message& m, const char* text) {
  return m.scope().empty() ? std::optional<std::string>{text} : wrong_bounds(m);
}

} // namespace

std::optional<std::string> wrong_scope(std::string_view scope, scope_is rule) {
  if (scope.empty() && rule == scope_is::required)
    return "a command needs a scope";
  if (scope.size() > limits::path_bytes_max())
    return "the scope is longer than " + std::to_string(limits::path_bytes_max() / limits::kib) + " KiB";
  return std::nullopt;
}

std::optional<std::string> wrong_with(const v1::WatchRequest& m) {
  if (m.scope().empty() && !m.subscription().empty())
    return "a subscription is of one scope; name it";
  return wrong_bounds(m);
}

std::optional<std::string> wrong_with(const v1::WaitRequest& m) {
  return m.session_id().empty() ? std::optional<std::string>{"waiting needs a session"} : wrong_without_scope(m, "waiting needs a scope");
}

std::optional<std::string> wrong_with(const v1::AttachRequest& m) {
  return m.session_id().empty() ? std::optional<std::string>{"attaching needs a session"} : wrong_without_scope(m, "attaching needs a scope");
}

std::optional<std::string> wrong_with(const v1::ReadConversationRequest& m) {
  return m.conversation_id().empty() ? std::optional<std::string>{"reading needs a conversation"} : wrong_without_scope(m, "reading needs a scope");
}

std::optional<std::string> wrong_with(const v1::CreatePtyRequest& m) {
  if (m.scope().empty() || m.scope().size() > limits::path_bytes_max())
    return "a terminal needs a scope of at most " + std::to_string(limits::path_bytes_max()) + " bytes";
  if (m.name().size() > limits::id_bytes_max)
    return "the name of a terminal is longer than " + std::to_string(limits::id_bytes_max) + " bytes";
  if (m.identity().size() > limits::id_bytes_max)
    return "the identity of a terminal is longer than " + std::to_string(limits::id_bytes_max) + " bytes";
  return std::nullopt;
}

std::optional<std::string> wrong_with(const v1::ListPtysRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::ReadPtyRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::SendPtyRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::ResizePtyRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::KillPtyRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::ForgetPtyRequest& m) { return wrong_bounds(m); }
std::optional<std::string> wrong_with(const v1::AttachFrame& m) { return wrong_bounds(m); }

v1::ExecuteRequest spawn_request(const v1::CreatePtyRequest& req) {
  v1::ExecuteRequest out;
  *out.mutable_id() = req.id();
  *out.mutable_environment() = req.environment();
  auto* cmd = out.mutable_command();
  cmd->set_scope(req.scope());
  cmd->mutable_caller()->set_identity(req.identity());
  // A session that was granted `spawn` says here, as with its other commands, that it means to use it.
  cmd->mutable_caller()->set_allow_spawn(std::any_of(req.environment().begin(), req.environment().end(),
                                                     [](const auto& v) { return v.name() == "SWARM_MCP_ALLOW_SPAWN" && v.value() == "1"; }));
  auto* s = cmd->mutable_request_spawn();
  s->set_role("terminal");
  s->set_key("pty/" + req.id().client() + "/" + std::to_string(req.id().seq()));
  s->set_intent(req.name());
  s->set_harness("shell");
  *s->mutable_argv() = req.argv();
  s->set_directory(req.directory());
  s->set_columns(req.size().columns());
  s->set_rows(req.size().rows());
  s->set_on(req.on());
  *s->mutable_where() = req.where();
  s->set_here(true); // unless another node is asked for
  return out;
}

std::optional<std::vector<std::string>> worker_environment(const google::protobuf::RepeatedPtrField<v1::EnvironmentVariable>& variables,
                                                           std::string_view harness) {
  std::vector<std::string> out;
  std::size_t bytes = 0;
  for (const auto& v : variables) {
    bytes += v.name().size() + v.value().size();
    if (bytes > limits::environment_bytes_max())
      return std::nullopt;
    using namespace std::string_view_literals;
    const bool wanted = v.asked_for() && !v.name().empty() && !v.name().starts_with("SWARM_");
    if ((inheritable(v.name(), harness) || wanted) && v.name().find_first_of("=\0"sv) == std::string::npos &&
        v.value().find('\0') == std::string::npos)
      out.push_back(v.name() + "=" + v.value());
  }
  return out;
}

} // namespace swarm
