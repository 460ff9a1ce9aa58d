// The servers that are compared, each with the same kind of client: synchronous C++ gRPC, every client on a channel of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "echo.grpc.pb.h"
#include "etcd/v3/rpc.grpc.pb.h"
#include "swarm/v1/coordination.grpc.pb.h"
#include "swarm/v1/node.grpc.pb.h"
#include "tools/bench.d/child.hpp"

namespace swarm::bench {

/// Throws unless the call succeeded.
void check(const grpc::Status&, const char* what);

// -- echo ----------------------------------------------------------------------------------

class echo_server {
public:
  echo_server(const std::filesystem::path& bin, const std::filesystem::path& dir);
  std::string socket() const { return socket_; }
  std::unique_ptr<Echo::Stub> connect() const;

private:
  std::string socket_;
  child process_;
};

/// The same over a loopback port, with TLS as nodes have it: each side shows a certificate of one authority.
class tls_echo_server {
public:
  tls_echo_server(const std::filesystem::path& bin, const std::filesystem::path& dir);
  std::unique_ptr<Echo::Stub> connect() const;

private:
  std::string address_;
  grpc::SslCredentialsOptions tls_; // of a client
  std::string name_;                // in the certificate
  child process_;
};

// -- etcd ----------------------------------------------------------------------------------

namespace etcd = etcdserverpb;

class etcd_server {
public:
  explicit etcd_server(const std::filesystem::path& dir);
  std::unique_ptr<etcd::KV::Stub> connect() const;

private:
  int port_;
  child process_;
};

/// "Take it if nobody has it" and "give back what I took": each one transaction.
etcd::TxnRequest etcd_acquire(const std::string& key);
etcd::TxnRequest etcd_release(const std::string& key, std::int64_t created);
/// "Write if it is as I saw it last": each step of a task is one transaction.
etcd::TxnRequest etcd_step(const std::string& key, std::int64_t seen, const std::string& value);
/// Executes; the revision it was executed at. Throws when the comparison failed.
std::int64_t etcd_execute(etcd::KV::Stub&, const etcd::TxnRequest&);

// -- the node --------------------------------------------------------------------------------

/// One client of the node: a channel, a stub, request ids. Not for two threads at once.
class node_client {
public:
  explicit node_client(const std::string& socket);
  v1::ExecuteRequest request(const v1::Command&);
  /// Throws when the call fails or the command is refused.
  v1::Reply execute(const v1::Command&);
  v1::Answer ask(const v1::Query&);
  v1::NodeStatus status();
  v1::Coordination::Stub& stub() { return *stub_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }

private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordination::Stub> stub_;
  std::string name_;
  std::uint64_t seq_ = 0;
};

class node {
public:
  node(std::filesystem::path bin, std::filesystem::path dir, std::string name = "bench")
    : bin_(std::move(bin)), dir_(std::move(dir)), name_(std::move(name)) {}
  ~node() { stop(); }
  /// Returns when the node says it is ready.
  void start();
  void stop();
  void kill();
  pid_t pid() const { return process_.pid(); }
  std::string socket() const { return (dir_ / "swarmd.sock").string(); }
  const std::filesystem::path& dir() const { return dir_; }
  const std::filesystem::path& bin() const { return bin_; }

private:
  std::filesystem::path bin_, dir_;
  std::string name_;
  child process_;
};

/// A command in `scope`, a directory or a name, on behalf of `session` (empty: the operator).
v1::Command command(const std::string& scope, const std::string& session = {});
/// A session that lives as long as this benchmark; its id.
std::string register_session(node_client&, const std::string& scope);
/// Makes tasks, 50 per command and many commands at once; their ids in order of creation.
std::vector<std::string> make_tasks(node_client&, const std::string& scope, std::size_t count, const std::string& assignee = {});

/// Executes commands on one stream with a window of 256; the replies, in order. `next` fills a command and says whether there was one.
void pipeline(node_client&, const std::function<bool(v1::Command&)>& next, const std::function<void(const v1::Reply&)>& on);

} // namespace swarm::bench
