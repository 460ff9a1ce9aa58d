#include "gateway/session/register.hpp"

namespace swarm::mcp {

v1::Reply register_in_its_scope(v1::Command& command, const std::function<v1::Reply(const v1::Command&)>& call) {
  auto reply = call(command);
  if (reply.has_refusal() || reply.session().session().scope() == command.scope())
    return reply;
  command.set_scope(reply.session().session().scope());
  return call(command);
}

} // namespace swarm::mcp
