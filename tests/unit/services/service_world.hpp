// A node with threads, gRPC and a real socket inside the test program; the keeper and the watched processes are fakes.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <grpcpp/grpcpp.h>

#include "actors/runtime/shutdown.hpp"
#include "actors/runtime/system.hpp"
#include "services/server.hpp"
#include "swarm/v1/pty.grpc.pb.h"
#include "tests/support/fabric_world.hpp"
#include "tests/support/process_tree.hpp"

namespace swarm::test {

using namespace std::chrono_literals;

/// True as soon as the condition holds, false when it does not within the deadline.
template <class Condition>
bool eventually(Condition holds, std::chrono::milliseconds deadline = 20s) {
  for (auto end = std::chrono::steady_clock::now() + deadline; std::chrono::steady_clock::now() < end;) {
    if (holds())
      return true;
    std::this_thread::yield();
  }
  return holds();
}

/// The machine's time, plus what a test adds.
class shifted_clock final : public clock_port {
public:
  std::int64_t unix_ms() const override { return system_clock_port().unix_ms() + ahead_ms; }
  std::int64_t boot_ms() const override { return system_clock_port().boot_ms(); }
  std::atomic<std::int64_t> ahead_ms{0};
};

class service_world {
public:
  service_world() : cfg_(runtime::make_config<caf::id_block::swarm_store, caf::id_block::swarm_fabric>(2)), sys(cfg_) {
    auto environment = std::make_shared<node_environment>();
    environment->facts.node_id = "node-1";
    environment->facts.node_name = "test";
    environment->facts.user_identity = "user:ada";
    environment->facts.version = "0-test";
    environment->facts.dir = state.dir;
    environment->facts.program_dir = "/opt/swarm/bin";
    environment->facts.token_key = std::string(32, 'k');
    environment->facts.base_environment = {"PATH=/usr/bin:/bin"};
    environment->clock = &clock;
    environment->processes = &keeper;
    environment->watch = &watch;
    environment->workers = &workers;
    environment->tokens = &tokens;
    clustered = cluster::open(state.dir, environment->facts, clock);
    transport = std::make_unique<links>(clustered->authority(), clock);
    environment->cluster = clustered.get();
    environment->links = transport.get();
    node = environment;
    node_options options;
    options.environment = environment;
    options.ledger.clock = &clock;
    options.ledger.new_uuid = random_uuid;
    options.ledger.node_id = "node-1";
    options.ledger.user_identity = "user:ada";
    options.ledger.free_disk_bytes = [] { return std::uint64_t{1} << 40; };
    options.supervision.max_restarts = 1'000;
    {
      sqlite::connection file{environment->facts.dir.database().string(), sqlite::open_options{}};
      migrate(file);
    }
    root = start_node(sys, options, board);
    REQUIRE(eventually([&] { return booted(); }));
    roots = std::make_unique<agent_roots>(state.dir.agents_file(), watch, processes, "boot-1");
    tokens.on_session_gone([this](const std::string& id) { roots->session_gone(id); });
    server = std::make_unique<node_server>(sys, environment, board, workers, tokens, *roots, *clustered, *transport, root,
                                           node_service::hooks{[] { return std::int64_t{0}; }, [](bool) {}});
    channel = connect();
    coordination = v1::Coordination::NewStub(channel);
    ptys = v1::Ptys::NewStub(channel);
    nodes = v1::Node::NewStub(channel);
  }
  ~service_world() {
    server = nullptr;
    runtime::stop_actor(sys, caf::actor_cast<caf::actor>(root), 5s);
    root = nullptr;
    board->clear();
    keeper.listener = nullptr;
  }

  /// A connection of its own, so that the node identifies the caller process again.
  std::shared_ptr<grpc::Channel> connect() const {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("unix:" + state.dir.socket().string(), grpc::InsecureChannelCredentials(), args);
  }

  v1::ExecuteRequest request(v1::Command cmd) {
    v1::ExecuteRequest r;
    r.mutable_id()->set_client("test-client");
    r.mutable_id()->set_seq(++seq_);
    *r.mutable_command() = std::move(cmd);
    return r;
  }
  grpc::Status execute(const v1::ExecuteRequest& r, v1::Reply& reply) {
    grpc::ClientContext ctx;
    ctx.set_deadline(std::chrono::system_clock::now() + 20s);
    return coordination->Execute(&ctx, r, &reply);
  }
  v1::Reply run(v1::Command cmd) {
    v1::Reply reply;
    auto status = execute(request(std::move(cmd)), reply);
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    return reply;
  }
  v1::Answer ask(const v1::Query& q) {
    grpc::ClientContext ctx;
    v1::Answer a;
    auto status = coordination->Ask(&ctx, q, &a);
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    return a;
  }
  std::string session(std::int64_t pid = 100, const std::string& token = {}) {
    auto c = fabric_world::command();
    auto& r = *c.mutable_register_session();
    r.set_directory("/repo");
    r.set_root("/repo");
    r.set_pid(pid);
    r.set_pid_start(static_cast<std::uint64_t>(pid));
    if (!token.empty())
      r.set_token_hash(sha256(token));
    return run(c).session().session().id();
  }
  std::uint64_t in_flight() {
    grpc::ClientContext ctx;
    v1::NodeStatus s;
    REQUIRE(nodes->Status(&ctx, {}, &s).ok());
    return s.calls_in_flight();
  }
  std::uint64_t commands() {
    grpc::ClientContext ctx;
    v1::NodeStatus s;
    REQUIRE(nodes->Status(&ctx, {}, &s).ok());
    return s.commands();
  }
  /// No call but the one that asks.
  bool is_idle() { return in_flight() == 1; }
  /// How many wait for activity, by the word of the mailboxes: these waits see everything that is sent after this answer. That a call
  /// is in flight says less, it may not have reached its mailbox yet.
  std::size_t waiting() {
    grpc::ClientContext ctx;
    v1::ActorGraph graph;
    REQUIRE(nodes->Graph(&ctx, {}, &graph).ok());
    std::size_t sum = 0;
    for (const auto& n : graph.nodes())
      if (n.kind() == "mailbox" && n.detail().ends_with(" waiting"))
        sum += std::stoul(n.detail());
    return sum;
  }

private:
  /// The test is a person's program in a terminal.
  static testing::process_tree with_this_process() {
    testing::process_tree out;
    out.add(getpid(), {.session = getpid(), .executable = "/bin/test", .start = pid_start_time(getpid()).value_or(0)});
    return out;
  }

  bool booted() {
    auto front = board->get().front;
    auto up = false;
    caf::scoped_actor me{sys};
    if (front)
      me->request(front, 5s, boot_atom_v).receive([&](bool) { up = true; }, [](caf::error&) {});
    return up;
  }

  caf::actor_system_config cfg_;
  std::uint64_t seq_ = 0;

public:
  quiet log;
  scratch_state state;
  shifted_clock clock;
  std::shared_ptr<entry_actors> board = std::make_shared<entry_actors>();
  fake_keeper keeper;
  fake_process_watch watch;
  /// What the node sees of its callers, all of which are this process.
  testing::process_tree processes = with_this_process();
  std::unique_ptr<agent_roots> roots;
  worker_registry workers;
  token_cache tokens{[] { return system_clock_port().boot_ms(); }};
  std::unique_ptr<cluster> clustered;
  std::unique_ptr<links> transport;
  caf::actor_system sys;
  node_environment_ptr node;
  runtime::supervisor_actor root;
  std::unique_ptr<node_server> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Coordination::Stub> coordination;
  std::unique_ptr<v1::Ptys::Stub> ptys;
  std::unique_ptr<v1::Node::Stub> nodes;
};

} // namespace swarm::test
