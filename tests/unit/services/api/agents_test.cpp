// Callers below agents, over a real socket: all of them are this process, and what the node sees above it is of our making.
#include <doctest/doctest.h>

#include "services/call/principals.hpp"
#include "tests/unit/services/service_world.hpp"

using namespace swarm;
using namespace swarm::test;

namespace {

/// The test's process becomes the child of claude 20.
void put_claude_above(service_world& w) {
  w.processes.add(20, {.session = 20, .executable = "/opt/claude"});
  w.processes.change(getpid(), [](auto& p) { p.parent = 20; });
}

v1::Explanation explain(service_world& w, const std::string& token = {}) {
  grpc::ClientContext ctx;
  if (!token.empty())
    ctx.AddMetadata(token_metadata, to_hex(token));
  v1::Explanation out;
  auto stub = v1::Node::NewStub(w.connect());
  auto status = stub->Explain(&ctx, {}, &out);
  REQUIRE_MESSAGE(status.ok(), status.error_message());
  return out;
}

grpc::Status shut_down(const std::shared_ptr<grpc::Channel>& over) {
  grpc::ClientContext ctx;
  v1::ShutdownReply reply;
  return v1::Node::NewStub(over)->Shutdown(&ctx, {}, &reply);
}

} // namespace

TEST_CASE("a person is told that nothing stands above him") {
  service_world w;
  auto e = explain(w);
  CHECK(e.rule() == v1::Explanation::USER);
  CHECK(e.principal().kind() == v1::Principal::OPERATOR);
  CHECK(e.ways_out().empty());
  REQUIRE(e.chain_size() >= 1);
  CHECK(e.chain(0).pid() == getpid());
  CHECK(e.chain(0).program() == "test");
}

TEST_CASE("what runs below an agent without a session is an agent, and is told the way out") {
  service_world w;
  put_claude_above(w);
  auto e = explain(w);
  CHECK(e.rule() == v1::Explanation::AGENT_UNREGISTERED);
  CHECK(e.principal().kind() == v1::Principal::AGENT);
  CHECK(e.principal().id() == "20.20");
  CHECK_FALSE(e.ways_out().empty());
  REQUIRE(e.chain_size() == 2);
  CHECK(e.chain(1).role() == "agent claude");
  CHECK(e.chain(1).matched());
  auto refused = shut_down(w.connect());
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(refused.error_message() ==
        "This process runs below an agent program that has no live session: it may register and look, nothing else. Run: swarmctl register. This "
        "process was started by the agent claude (process 20); see: swarmctl whoami --explain");
}

TEST_CASE("what is registered below an agent is the agent's session, until it ends, and then there is an agent without one") {
  service_world w;
  put_claude_above(w);
  w.channel = w.connect();
  w.coordination = v1::Coordination::NewStub(w.channel);
  auto id = w.session();
  REQUIRE_FALSE(id.empty());
  auto e = explain(w);
  CHECK(e.rule() == v1::Explanation::AGENT_ROOT);
  CHECK(e.principal().kind() == v1::Principal::SESSION);
  CHECK(e.principal().id() == id);
  CHECK_FALSE(e.scope().empty());
  CHECK(shut_down(w.connect()).error_message() == "Only the operator may do that, outside every worker and agent. This process was started by the "
                                                  "agent claude (process 20); see: swarmctl whoami --explain");
  auto end = fabric_world::command();
  end.mutable_deregister_session()->set_session_id(id);
  auto gone = w.run(end);
  CHECK_FALSE(gone.has_refusal());
  CHECK(eventually([&] { return explain(w).rule() == v1::Explanation::AGENT_UNREGISTERED; }));
}

TEST_CASE("a connection that is older than the agent above it is judged anew once the agent is found") {
  service_world w;
  auto old = w.connect();
  grpc::ClientContext ctx;
  v1::NodeStatus status;
  REQUIRE(v1::Node::NewStub(old)->Status(&ctx, {}, &status).ok()); // it is connected, as a person's
  put_claude_above(w);
  explain(w); // another one finds the agent
  CHECK(shut_down(old).error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("an agent's process that has lost its agent is no person's on the connection that it had") {
  service_world w;
  put_claude_above(w);
  auto old = w.connect();
  CHECK(shut_down(old).error_code() == grpc::StatusCode::PERMISSION_DENIED);
  w.processes.end(20);
  w.watch.end(20);
  CHECK(shut_down(old).error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("an orphan and a marked process are told so") {
  service_world w;
  w.processes.change(getpid(), [](auto& p) { p.session = 999; });
  CHECK(explain(w).rule() == v1::Explanation::ORPHAN);
  CHECK(explain(w).principal().kind() == v1::Principal::ORPHAN);
  CHECK(shut_down(w.connect()).error_message() ==
        "Nobody who could be asked has started this process: it runs in the background, without a terminal. So it may not do what only a person may. "
        "Run it from a terminal. `swarmctl whoami --explain` says who this process is to the node.");
  w.processes.change(getpid(), [](auto& p) {
    p.session = getpid();
    p.environment = {"CLAUDECODE=1"};
  });
  auto e = explain(w);
  CHECK(e.rule() == v1::Explanation::MARK);
  CHECK(e.principal().kind() == v1::Principal::AGENT);
  CHECK(e.reason().find("CLAUDECODE=1") != std::string::npos);
}

TEST_CASE("a token that counts for nothing here is explained, not refused") {
  service_world w;
  auto e = explain(w, std::string(32, 'x'));
  CHECK(e.rule() == v1::Explanation::TOKEN_UNKNOWN);
  CHECK_FALSE(e.has_principal());
  CHECK_FALSE(e.reason().empty());
  const std::string token(32, 't');
  auto session = w.session(100, token);
  CHECK(explain(w, token).rule() == v1::Explanation::TOKEN);
  CHECK(explain(w, token).principal().id() == session);
}

TEST_CASE("the token of a worker counts for nothing in another worker's process") {
  service_world w;
  const std::string token(32, 't');
  w.workers.put(4711, session_named("worker-1"), sha256(token));
  CHECK(explain(w, token).rule() == v1::Explanation::TOKEN);
  w.workers.put(getpid(), session_named("worker-2"), sha256("other"));
  auto e = explain(w, token);
  CHECK(e.rule() == v1::Explanation::TOKEN_ELSEWHERE);
  CHECK_FALSE(e.has_principal());
  w.workers.erase(getpid());
  put_claude_above(w);
  CHECK(explain(w, token).rule() == v1::Explanation::TOKEN_ELSEWHERE);
}
