#include "tests/support/node_client.hpp"

#include <stdexcept>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"

namespace swarm::testing {

namespace {

/// Every client gets a connection of its own; gRPC would otherwise share one between channels to the same address.
std::shared_ptr<grpc::Channel> connect_to(const test_node& node) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Not GRPC_ARG_MIN_RECONNECT_BACKOFF_MS: that is how long connecting may take, and a busy machine is slow.
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  args.SetMaxReceiveMessageSize(static_cast<int>(limits::grpc_message_bytes_max));
  return grpc::CreateCustomChannel("unix:" + node.dir().socket().string(), grpc::InsecureChannelCredentials(), args);
}

} // namespace

node_client::node_client(const test_node& node, std::string token, std::string scope)
  : token_(std::move(token)), directory_(node.work()), scope_(scope.empty() ? directory_ : std::move(scope)), name_(to_hex(random_bytes(16))) {
  auto channel = connect_to(node);
  coordination_ = v1::Coordination::NewStub(channel);
  node_ = v1::Node::NewStub(channel);
  ptys_ = v1::Ptys::NewStub(channel);
}

void node_client::prepare(grpc::ClientContext& context, std::chrono::milliseconds deadline) const {
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  if (!token_.empty())
    context.AddMetadata("swarm-token", token_);
}

v1::RequestId node_client::next_id() {
  v1::RequestId id;
  id.set_client(name_);
  id.set_seq(++seq_);
  return id;
}

v1::Command node_client::command(const std::string& actor) const {
  v1::Command out;
  out.set_scope(scope_);
  out.set_actor(actor);
  out.mutable_caller()->set_directory(directory_);
  return out;
}

v1::Query node_client::query() const {
  v1::Query out;
  out.set_scope(scope_);
  out.mutable_caller()->set_directory(directory_);
  return out;
}

v1::Command node_client::registration(const std::string& label) const {
  auto out = command();
  out.mutable_register_session()->set_directory(directory_);
  out.mutable_register_session()->set_label(label);
  return out;
}

v1::Command node_client::registration_of_process(pid_t pid, const std::string& label) const {
  auto out = registration(label);
  out.mutable_register_session()->set_pid(pid);
  out.mutable_register_session()->set_pid_start(pid_start_time(pid).value_or(0));
  return out;
}

v1::Command node_client::registration_with_token(const std::string& token, const std::string& label) const {
  auto out = registration(label);
  out.mutable_register_session()->set_lease_ms(600'000);
  out.mutable_register_session()->set_token_hash(token_hash(token));
  return out;
}

grpc::Status node_client::execute(const v1::ExecuteRequest& request, v1::Reply& reply, std::chrono::milliseconds deadline) {
  grpc::ClientContext context;
  prepare(context, deadline);
  return coordination_->Execute(&context, request, &reply);
}

v1::Reply node_client::execute(const v1::Command& command, std::chrono::milliseconds deadline) {
  v1::ExecuteRequest request;
  *request.mutable_id() = next_id();
  *request.mutable_command() = command;
  v1::Reply reply;
  auto status = execute(request, reply, deadline);
  if (!status.ok())
    throw std::runtime_error("Execute: " + std::to_string(status.error_code()) + " " + status.error_message());
  return reply;
}

v1::Answer node_client::ask(const v1::Query& query) {
  grpc::ClientContext context;
  prepare(context);
  v1::Answer answer;
  auto status = coordination_->Ask(&context, query, &answer);
  if (!status.ok())
    throw std::runtime_error("Ask: " + std::to_string(status.error_code()) + " " + status.error_message());
  return answer;
}

std::string make_token() { return to_hex(random_bytes(32)); }

std::string token_hash(const std::string& hex) { return sha256(from_hex(hex)); }

} // namespace swarm::testing
