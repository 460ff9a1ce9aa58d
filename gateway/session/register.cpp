#include "gateway/session/register.hpp"

#include "actors/base/text.hpp"

namespace swarm::mcp {

v1::Reply register_in_its_scope(v1::Command& command, const std::function<v1::Reply(const v1::Command&)>& call) {
  auto reply = call(command);
  if (reply.has_refusal() || reply.session().session().scope() == command.scope())
    return reply;
  command.set_scope(reply.session().session().scope());
  return call(command);
}

std::string kept_text(const v1::Session& session, const wished_session& wished) {
  std::string out;
  auto compare = [&](const char* what, const std::string& is, const std::string& wanted) {
    if (!wanted.empty() && is != wanted)
      out += concat({out.empty() ? "it keeps its " : ", and its ", what, " ", escape_control(is.empty() ? "(none)" : is, false), " instead of ",
                     escape_control(wanted, false)});
  };
  compare("directory", session.directory(), wished.directory);
  compare("label", session.label(), wished.label);
  compare("scope", session.scope(), wished.scope);
  compare("file root", session.file_root(), wished.file_root);
  return out;
}

} // namespace swarm::mcp
