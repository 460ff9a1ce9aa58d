// gRPC clients of a test node: connections of their own, request ids of their own, an optional session token.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "swarm/v1/coordination.grpc.pb.h"
#include "swarm/v1/node.grpc.pb.h"
#include "swarm/v1/pty.grpc.pb.h"
#include "tests/support/node_process.hpp"

namespace swarm::testing {

class node_client {
public:
  /// The token is the hex text of SWARM_TOKEN; empty: the process decides who calls. The scope, unless named, is the node's working directory.
  explicit node_client(const test_node&, std::string token = {}, std::string scope = {});

  v1::Coordination::Stub& coordination() { return *coordination_; }
  v1::Node::Stub& node() { return *node_; }
  v1::Ptys::Stub& ptys() { return *ptys_; }
  /// With the token and a deadline.
  void prepare(grpc::ClientContext&, std::chrono::milliseconds deadline = patience) const;
  v1::RequestId next_id();
  /// From the node's working directory.
  v1::Command command(const std::string& actor = {}) const;
  v1::Query query() const;
  /// A new session there, with nothing yet that it lives by.
  v1::Command registration(const std::string& label = {}) const;
  /// One that lives with a process.
  v1::Command registration_of_process(pid_t, const std::string& label = {}) const;
  /// One that lives by a lease of ten minutes and calls with this token.
  v1::Command registration_with_token(const std::string& token, const std::string& label = {}) const;

  grpc::Status execute(const v1::ExecuteRequest&, v1::Reply&, std::chrono::milliseconds deadline = patience);
  /// Fails the test when the call itself fails. A refusal is an answer.
  v1::Reply execute(const v1::Command&, std::chrono::milliseconds deadline = patience);
  v1::Answer ask(const v1::Query&);

private:
  std::string token_;
  std::string directory_;
  std::string scope_;
  std::string name_;
  std::uint64_t seq_ = 0;
  std::unique_ptr<v1::Coordination::Stub> coordination_;
  std::unique_ptr<v1::Node::Stub> node_;
  std::unique_ptr<v1::Ptys::Stub> ptys_;
};

/// A fresh 32-byte token as hex text, and the hash that registration takes.
std::string make_token();
std::string token_hash(const std::string& hex);

} // namespace swarm::testing
