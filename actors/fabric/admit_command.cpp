#include "actors/fabric/admit_command.hpp"

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/domain/decide.hpp"

namespace swarm {

namespace {

/// What only the node knows is written over whatever the caller sent.
void complete(v1::Command& cmd, const way_in& in) {
  *cmd.mutable_principal() = in.principal;
  if (in.principal.kind() == v1::Principal::SESSION && cmd.actor().empty())
    cmd.set_actor(in.principal.id());
  if (cmd.has_register_session()) {
    cmd.mutable_register_session()->set_node_id(in.node_id);
    cmd.mutable_register_session()->set_node_name(in.node_name);
    if (!in.of_other_node) {
      cmd.mutable_register_session()->clear_checkout();
      cmd.mutable_register_session()->clear_agent();
    }
    if (in.agent)
      *cmd.mutable_register_session()->mutable_agent() = *in.agent;
  }
  if (!in.of_other_node) {
    if (cmd.has_dispatch())
      cmd.mutable_dispatch()->clear_order();
    if (cmd.has_request_spawn())
      cmd.mutable_request_spawn()->clear_order();
  }
  const auto& directory = cmd.caller().directory();
  if (cmd.has_dispatch() && cmd.dispatch().directory().empty())
    cmd.mutable_dispatch()->set_directory(directory);
  if (cmd.has_request_spawn() && cmd.request_spawn().directory().empty())
    cmd.mutable_request_spawn()->set_directory(directory);
  if (!cmd.has_start_conversation())
    return;
  if (!in.of_other_node)
    cmd.mutable_start_conversation()->set_node_id(in.node_id);
  if (cmd.start_conversation().directory().empty())
    cmd.mutable_start_conversation()->set_directory(directory);
}

} // namespace

void hide_variables(v1::Command& cmd, const std::string& key) {
  if (!cmd.has_dispatch() || cmd.dispatch().variables_digest().empty())
    return;
  auto& digest = *cmd.mutable_dispatch()->mutable_variables_digest();
  digest = to_hex(keyed_hash(key, digest));
}

admitted_command admit_command(const v1::RequestId& id, const v1::Command& command, const way_in& in) {
  if (id.client().size() > limits::request_client_bytes_max)
    return {nullptr, std::nullopt, "a request id has a client name of 8 to 64 bytes and a number from 1"};
  if (command.ByteSizeLong() > limits::command_encoded_bytes_max)
    return {nullptr, std::nullopt, "the command is larger than 256 KiB"};
  auto what = std::make_shared<execution>();
  what->id = id;
  what->command = command;
  auto& cmd = what->command;
  complete(cmd, in);
  if (in.to_store)
    in.to_store(cmd);
  // What a repeated request is known by is what the client has sent, not where its worker was to start that time.
  what->digest = domain::digest_of(cmd);
  auto refusal = in.place ? in.place(cmd) : std::nullopt;
  what->valid = !domain::validate(cmd);
  return {std::move(what), std::move(refusal), {}};
}

} // namespace swarm
