#include "tools/bench.d/peers.hpp"

#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "actors/base/clock.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/process.hpp"
#include "services/security/authority.hpp"
#include "tools/bench.d/measure.hpp"

namespace swarm::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;

/// Every client has a connection of its own.
std::shared_ptr<grpc::Channel> connected(const std::string& target,
                                         const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials(),
                                         const std::string& name = {}) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!name.empty())
    args.SetSslTargetNameOverride(name);
  auto channel = grpc::CreateCustomChannel(target, credentials, args);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + patience))
    throw std::runtime_error("nobody answers at " + target);
  return channel;
}

} // namespace

void check(const grpc::Status& s, const char* what) {
  if (!s.ok())
    throw std::runtime_error(std::string{what} + ": " + std::to_string(s.error_code()) + " " + s.error_message());
}

// -- echo ----------------------------------------------------------------------------------

echo_server::echo_server(const std::filesystem::path& bin, const std::filesystem::path& dir)
  : socket_(dir / "echo.sock"), process_({bin / "bare-echo-server", socket_}) {
  connect();
}

std::unique_ptr<Echo::Stub> echo_server::connect() const { return Echo::NewStub(connected("unix:" + socket_)); }

namespace {

/// One authority, and one certificate of it for both sides, written where the server looks for them.
grpc::SslCredentialsOptions make_certificates(const std::filesystem::path& dir, const std::string& node_id) {
  auto made = [](auto result) {
    if (!result)
      throw std::runtime_error("no certificates for the echo: " + result.failure().text);
    return *std::move(result);
  };
  const auto now_ms = system_clock_port().unix_ms();
  const auto ca = made(authority::create(random_uuid(), now_ms));
  const auto key = made(key_pair::generate());
  const auto certificate = made(ca.issue(made(make_csr(key, "bench")), node_id, now_ms));
  grpc::SslCredentialsOptions out;
  out.pem_root_certs = made(certificate_to_pem(ca.certificate()));
  out.pem_private_key = std::string{made(key.to_pem()).view()};
  out.pem_cert_chain = made(certificate_to_pem(certificate)) + out.pem_root_certs;
  std::ofstream{dir / "authority.pem"} << out.pem_root_certs;
  std::ofstream{dir / "key.pem"} << out.pem_private_key;
  std::ofstream{dir / "chain.pem"} << out.pem_cert_chain;
  return out;
}

} // namespace

tls_echo_server::tls_echo_server(const std::filesystem::path& bin, const std::filesystem::path& dir)
  : address_("127.0.0.1:" + std::to_string(free_port())) {
  const auto node_id = random_uuid();
  tls_ = make_certificates(dir, node_id);
  name_ = node_dns_name(node_id);
  process_ = child{{bin / "bare-echo-server", address_, dir}};
  connect();
}

std::unique_ptr<Echo::Stub> tls_echo_server::connect() const { return Echo::NewStub(connected(address_, grpc::SslCredentials(tls_), name_)); }

// -- etcd ----------------------------------------------------------------------------------

etcd_server::etcd_server(const std::filesystem::path& dir) : port_(free_port()) {
  auto clients = "http://127.0.0.1:" + std::to_string(port_);
  auto peers = "http://127.0.0.1:" + std::to_string(free_port());
  process_ = child{{"etcd", "--data-dir", dir, "--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                    "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers}};
  auto stub = connect();
  etcd::RangeRequest nothing;
  nothing.set_key("nothing");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  etcd::RangeResponse out;
  check(stub->Range(&context, nothing, &out), "etcd");
}

std::unique_ptr<etcd::KV::Stub> etcd_server::connect() const { return etcd::KV::NewStub(connected("127.0.0.1:" + std::to_string(port_))); }

etcd::TxnRequest etcd_acquire(const std::string& key) {
  etcd::TxnRequest txn;
  auto* compare = txn.add_compare();
  compare->set_key(key);
  compare->set_target(etcd::Compare::CREATE);
  compare->set_create_revision(0);
  auto* put = txn.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value("5b5c61a4-9bd8-4d0c-a9b0-0f6b9a3a5c11 actively editing");
  return txn;
}

etcd::TxnRequest etcd_release(const std::string& key, std::int64_t created) {
  etcd::TxnRequest txn;
  auto* compare = txn.add_compare();
  compare->set_key(key);
  compare->set_target(etcd::Compare::CREATE);
  compare->set_create_revision(created);
  txn.add_success()->mutable_request_delete_range()->set_key(key);
  return txn;
}

etcd::TxnRequest etcd_step(const std::string& key, std::int64_t seen, const std::string& value) {
  etcd::TxnRequest txn;
  auto* compare = txn.add_compare();
  compare->set_key(key);
  compare->set_target(etcd::Compare::MOD);
  compare->set_mod_revision(seen);
  auto* put = txn.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  return txn;
}

std::int64_t etcd_execute(etcd::KV::Stub& stub, const etcd::TxnRequest& txn) {
  grpc::ClientContext context;
  etcd::TxnResponse out;
  check(stub.Txn(&context, txn, &out), "etcd's Txn");
  if (!out.succeeded())
    throw std::runtime_error("etcd: a comparison failed");
  return out.header().revision();
}

// -- one client of the node ------------------------------------------------------------------

node_client::node_client(const std::string& socket)
  : channel_(connected("unix:" + socket)), stub_(v1::Coordination::NewStub(channel_)), name_(to_hex(random_bytes(16))) {}

v1::ExecuteRequest node_client::request(const v1::Command& c) {
  v1::ExecuteRequest out;
  out.mutable_id()->set_client(name_);
  out.mutable_id()->set_seq(++seq_);
  out.mutable_id()->set_acked_below(seq_);
  *out.mutable_command() = c;
  return out;
}

v1::Reply node_client::execute(const v1::Command& c) {
  grpc::ClientContext context;
  v1::Reply out;
  check(stub_->Execute(&context, request(c), &out), "Execute");
  if (out.has_refusal())
    throw std::runtime_error("refused: " + out.refusal().text());
  return out;
}

v1::Answer node_client::ask(const v1::Query& q) {
  grpc::ClientContext context;
  v1::Answer out;
  check(stub_->Ask(&context, q, &out), "Ask");
  if (out.has_refusal())
    throw std::runtime_error("refused: " + out.refusal().text());
  return out;
}

v1::NodeStatus node_client::status() {
  grpc::ClientContext context;
  v1::NodeStatus out;
  check(v1::Node::NewStub(channel_)->Status(&context, {}, &out), "Status");
  return out;
}

// -- the node --------------------------------------------------------------------------------

void node::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe");
  unique_fd in{ends[0]}, out{ends[1]};
  std::filesystem::create_directories(dir_);
  process_ = child{{bin_ / "swarmd", "--state-dir", dir_, "--node-name", name_, "--ready-fd", std::to_string(out.get())}, {}, out.get()};
  out.reset();
  pollfd p{in.get(), POLLIN, 0};
  char byte = 0;
  if (poll(&p, 1, 60'000) != 1 || read(in.get(), &byte, 1) != 1)
    throw std::runtime_error("swarmd does not start; see " + (dir_ / "log").string());
}

void node::stop() { process_.end(SIGTERM); }
void node::kill() { process_.end(SIGKILL); }

// -- commands --------------------------------------------------------------------------------

v1::Command command(const std::string& scope, const std::string& session) {
  v1::Command c;
  c.set_scope(scope);
  c.set_actor(session);
  c.mutable_caller()->set_directory(scope.starts_with('/') ? scope : "/");
  return c;
}

std::string register_session(node_client& client, const std::string& scope) {
  auto c = command(scope);
  auto* r = c.mutable_register_session();
  r->set_directory(c.caller().directory());
  r->set_pid(getpid());
  r->set_pid_start(pid_start_time(getpid()).value_or(0));
  return client.execute(c).session().session().id();
}

void pipeline(node_client& client, const std::function<bool(v1::Command&)>& next, const std::function<void(const v1::Reply&)>& on) {
  constexpr int window = 256;
  grpc::ClientContext context;
  auto stream = client.stub().Pipeline(&context);
  std::mutex mutex;
  std::condition_variable room;
  int outstanding = 0;
  // What there is room for goes in one message.
  std::jthread sender{[&] {
    for (bool over = false; !over;) {
      int room_for = 0;
      {
        std::unique_lock lock{mutex};
        room.wait(lock, [&] { return outstanding < window; });
        room_for = window - outstanding;
      }
      v1::ExecuteRequest message;
      v1::Command c;
      int packed = 0;
      std::size_t bytes = 0;
      for (; packed < room_for && bytes < limits::mib && !(over = !next(c)); ++packed) {
        bytes += c.ByteSizeLong();
        *(packed == 0 ? &message : message.add_more()) = client.request(c);
      }
      {
        std::lock_guard lock{mutex};
        outstanding += packed;
      }
      if (packed > 0 && !stream->Write(message))
        break;
    }
    stream->WritesDone();
  }};
  auto take = [&](const v1::PipelineReply& reply) {
    if (reply.status() != 0 || reply.reply().has_refusal())
      throw std::runtime_error("pipelined command: " + reply.status_text() + reply.reply().refusal().text());
    on(reply.reply());
  };
  v1::PipelineReply replies;
  while (stream->Read(&replies)) {
    take(replies);
    for (const auto& further : replies.more())
      take(further);
    {
      std::lock_guard lock{mutex};
      outstanding -= 1 + replies.more_size();
    }
    room.notify_one();
  }
  sender.join();
  check(stream->Finish(), "Pipeline");
}

std::vector<std::string> make_tasks(node_client& client, const std::string& scope, std::size_t count, const std::string& assignee) {
  constexpr std::size_t per_command = 50;
  std::vector<std::string> ids;
  ids.reserve(count);
  std::size_t asked = 0;
  pipeline(
    client,
    [&](v1::Command& c) {
      c = command(scope);
      for (std::size_t i = 0; i < per_command && asked < count; ++i, ++asked) {
        auto* t = c.mutable_create_tasks()->add_tasks();
        t->set_type("implement");
        t->set_title("Task number " + std::to_string(asked) + " of the benchmark");
        t->set_description("Read the file, change what the title says, run the tests, say what was changed and why.");
        t->set_assignee(assignee);
      }
      return c.has_create_tasks();
    },
    [&](const v1::Reply& r) {
      for (const auto& t : r.tasks_created().tasks())
        ids.push_back(t.task().id());
    });
  return ids;
}

} // namespace swarm::bench
