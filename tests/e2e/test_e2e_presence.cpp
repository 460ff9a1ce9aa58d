// What ends a session, and what its end sets free.
#include <csignal>
#include <thread>

#include <doctest/doctest.h>

#include "tests/support/node_client.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;

namespace {

std::string register_process(node_client& client, pid_t pid) {
  auto reply = client.execute(client.registration_of_process(pid, "name:held"));
  REQUIRE_MESSAGE(!reply.has_refusal(), reply.refusal().text());
  return reply.session().session().id();
}

bool is_listed(const test_node& node, const std::string& id) {
  for (const auto& row : node.ctl_json({"instances"}))
    if (row.at("id") == id)
      return true;
  return false;
}

child_process sleeper(const test_node& node) { return {{"/bin/sleep", "1000"}, node.env(), "/"}; }

} // namespace

TEST_CASE("a session registered with a process ends with it: its locks are free, its tasks are open, the next in line is served") {
  test_node node;
  node.start();
  node_client client{node};
  auto process = sleeper(node);
  auto id = register_process(client, process.pid());
  auto other = node.session("name:other");
  REQUIRE(node.ctl({"lock", "a", "--as", id}).status == 0);
  REQUIRE(node.ctl({"lock", "b", "--as", id}).status == 0);
  auto task = node.ctl_json({"request-task", "fix", "it"}).at("id").get<std::string>();
  REQUIRE(node.ctl({"claim", task, "--as", id}).status == 0);
  auto waiter = node.ctl_start({"lock", "a", "--wait", "60", "--as", other});
  auto query = client.query();
  query.mutable_get_lock()->set_path(node.work() + "/a");
  REQUIRE(eventually([&] { return client.ask(query).lock().active().waiters() == 1; }));
  CHECK(is_listed(node, id));
  process.signal(SIGKILL);
  process.finish();
  CHECK(waiter.finish(std::chrono::seconds{10}).status == 0);
  CHECK(eventually([&] { return !is_listed(node, id); }));
  auto locks = node.ctl_json({"locks"});
  REQUIRE(locks.size() == 1);
  CHECK(locks[0].at("instance_id") == other);
  auto row = node.ctl_json({"task", task});
  CHECK(row.at("status") == "open");
  CHECK(row.at("assignee").is_null());
}

TEST_CASE("a session whose process ended while no node ran is ended by the next node") {
  test_node node;
  node.start();
  node_client client{node};
  auto process = sleeper(node);
  auto id = register_process(client, process.pid());
  auto stays = sleeper(node);
  auto alive = register_process(client, stays.pid());
  REQUIRE(node.ctl({"lock", "a", "--as", id}).status == 0);
  node.kill_node();
  process.signal(SIGKILL);
  process.finish();
  node.start();
  CHECK(eventually([&] { return !is_listed(node, id); }));
  CHECK(node.ctl_json({"locks"}).empty());
  CHECK(is_listed(node, alive));
}

TEST_CASE("a row registered with a lease lives by its lease") {
  test_node node;
  node.start();
  // Nothing expires right after a start, so the lease is longer than that grace.
  auto brief = node.ctl_json({"register", "--lease-seconds", "1", "--label", "name:short"}).at("id").get<std::string>();
  auto longer = node.session("name:long");
  REQUIRE(node.ctl({"lock", "a", "--as", brief}).status == 0);
  CHECK(is_listed(node, brief));
  CHECK(eventually([&] { return !is_listed(node, brief); }, std::chrono::seconds{40}));
  CHECK(is_listed(node, longer));
  CHECK(node.ctl_json({"locks"}).empty());
}

TEST_CASE("a session that lives by its connection ends with the stream") {
  test_node node;
  node.start();
  node_client client{node};
  auto token = make_token();
  auto command = client.registration();
  command.mutable_register_session()->set_attached(true);
  command.mutable_register_session()->set_token_hash(token_hash(token));
  auto reply = client.execute(command);
  REQUIRE_MESSAGE(!reply.has_refusal(), reply.refusal().text());
  auto id = reply.session().session().id();
  {
    node_client holder{node, token};
    grpc::ClientContext context;
    holder.prepare(context);
    v1::AttachRequest request;
    request.set_scope(node.work());
    request.set_session_id(id);
    auto stream = holder.coordination().Attach(&context, request);
    v1::AttachReply hello;
    REQUIRE(stream->Read(&hello));
    CHECK(hello.attached());
    REQUIRE(node.ctl({"lock", "a", "--as", id}).status == 0);
    CHECK(is_listed(node, id));
    context.TryCancel();
    CHECK_FALSE(stream->Read(&hello));
    stream->Finish();
  }
  CHECK(eventually([&] { return !is_listed(node, id); }));
  CHECK(node.ctl_json({"locks"}).empty());
}

TEST_CASE("nobody attaches another's session") {
  test_node node;
  node.start();
  auto other = node.session("name:other");
  node_client operator_client{node};
  auto token = make_token();
  REQUIRE_FALSE(operator_client.execute(operator_client.registration_with_token(token)).has_refusal());
  node_client holder{node, token};
  grpc::ClientContext context;
  holder.prepare(context);
  v1::AttachRequest request;
  request.set_scope(node.work());
  request.set_session_id(other);
  auto stream = holder.coordination().Attach(&context, request);
  v1::AttachReply hello;
  CHECK_FALSE(stream->Read(&hello));
  CHECK(stream->Finish().error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("a worker's session ends with the worker: what it locked is free and what it claimed is open") {
  test_node node;
  auto task = node.ctl_json({"request-task", "fix", "it"}).at("id").get<std::string>();
  auto ctl = program("swarmctl").string();
  auto ran = node.ctl({"dispatch", "worker", "--harness", "exec", "--", "sh", "-c", ctl + " lock a && " + ctl + " claim " + task + " --force"});
  CAPTURE(ran.out);
  REQUIRE(ran.status == 0);
  CHECK(eventually([&] { return node.ctl_json({"locks"}).empty(); }));
  CHECK(node.ctl_json({"task", task}).at("status") == "open");
  CHECK(node.ctl_json({"instances"}).empty());
}
