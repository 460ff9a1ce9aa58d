// Oversized, malformed, unknown and hostile requests: a typed error that names the fix, and a node that goes on.
#include <algorithm>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "actors/base/limits.hpp"
#include "tests/support/node_client.hpp"

using namespace swarm::testing;
namespace v1 = swarm::v1;
namespace limits = swarm::limits;

namespace {

struct running_node {
  test_node node;
  std::unique_ptr<node_client> client;
  std::string me;
  running_node() {
    node.start();
    client = std::make_unique<node_client>(node);
    me = node.session("name:me");
  }
  v1::Command command() const { return client->command(me); }
  std::size_t changes() const { return lines_of(node.ctl({"events", "--since", "0", "--json"}).out).size(); }
};

/// Refused by a decision or by the call, with a text; nothing may have happened.
void check_refused(running_node& world, const v1::Command& command, const char* what) {
  CAPTURE(what);
  auto before = world.changes();
  v1::ExecuteRequest request;
  *request.mutable_id() = world.client->next_id();
  *request.mutable_command() = command;
  v1::Reply reply;
  auto status = world.client->execute(request, reply);
  if (status.ok()) {
    REQUIRE(reply.has_refusal());
    CHECK(reply.refusal().code() != v1::Refusal::CODE_UNSPECIFIED);
    CHECK(reply.refusal().text().size() > 10);
  } else {
    CHECK((status.error_code() == grpc::StatusCode::INVALID_ARGUMENT || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED));
    CHECK(status.error_message().size() > 10);
  }
  CHECK(world.changes() == before);
}

std::string big(std::size_t size) { return std::string(size, 'x'); }

} // namespace

TEST_CASE("what is longer than its bound is refused, and what is exactly as long is not") {
  running_node world;
  auto c = world.command();
  c.mutable_send_message()->set_recipient(world.me);
  c.mutable_send_message()->set_relaxed(true);
  c.mutable_send_message()->set_content(big(limits::message_bytes_max() + 1));
  check_refused(world, c, "message");
  c.mutable_send_message()->set_content(big(limits::message_bytes_max()));
  CHECK_FALSE(world.client->execute(c).has_refusal());

  c = world.command();
  c.mutable_set_kv()->set_key("k");
  c.mutable_set_kv()->set_value(big(limits::kv_value_bytes_max() + 1));
  check_refused(world, c, "value");
  c.mutable_set_kv()->set_value(big(limits::kv_value_bytes_max()));
  CHECK_FALSE(world.client->execute(c).has_refusal());
  c.mutable_set_kv()->set_value("v");
  c.mutable_set_kv()->set_key(big(limits::kv_key_bytes_max() + 1));
  check_refused(world, c, "key");
  c.mutable_set_kv()->set_key("");
  check_refused(world, c, "empty key");

  c = world.command();
  c.mutable_acquire_lock()->set_path("/" + big(limits::path_bytes_max()));
  check_refused(world, c, "path");
  c = world.command();
  auto* task = c.mutable_create_tasks()->add_tasks();
  task->set_type("fix");
  task->set_title(big(limits::title_bytes_max() + 1));
  check_refused(world, c, "title");
  task->set_title("t");
  task->set_description(big(limits::description_bytes_max() + 1));
  check_refused(world, c, "description");
  task->clear_description();
  for (std::size_t i = 0; i <= limits::task_files_max(); ++i)
    task->add_files("/f" + std::to_string(i));
  check_refused(world, c, "files");
  c = world.command();
  c.mutable_register_session()->set_directory(world.node.work());
  c.mutable_register_session()->set_label(big(limits::label_bytes_max() + 1));
  check_refused(world, c, "label");
  c = world.command();
  c.mutable_set_kv()->set_key("k");
  c.mutable_set_kv()->set_value(big(limits::command_encoded_bytes_max + 1));
  check_refused(world, c, "command");
  c.mutable_set_kv()->set_value(big(limits::grpc_message_bytes_max + 1));
  check_refused(world, c, "gRPC message");
}

TEST_CASE("a batch that is too long, empty or wrong in one place is refused as a whole") {
  running_node world;
  auto c = world.command();
  c.mutable_create_tasks()->set_batch(true);
  check_refused(world, c, "empty");
  for (std::size_t i = 0; i <= limits::batch_tasks_max(); ++i) {
    auto* task = c.mutable_create_tasks()->add_tasks();
    task->set_type("fix");
    task->set_title("t");
  }
  check_refused(world, c, "too long");
  c.mutable_create_tasks()->mutable_tasks()->RemoveLast();
  c.mutable_create_tasks()->mutable_tasks(49)->set_type("nonsense");
  check_refused(world, c, "one wrong");
  c.mutable_create_tasks()->mutable_tasks(49)->set_type("fix");
  c.mutable_create_tasks()->mutable_tasks(0)->add_depends_on("$50");
  check_refused(world, c, "depends on a later one");
  CHECK(world.node.ctl_json({"tasks"}).empty());
}

TEST_CASE("request ids that are missing, short, long or reused for something else are refused") {
  running_node world;
  auto command = world.command();
  command.mutable_set_kv()->set_key("k");
  command.mutable_set_kv()->set_value("v");
  auto status_of = [&](const std::string& name, std::uint64_t seq) {
    v1::ExecuteRequest request;
    request.mutable_id()->set_client(name);
    request.mutable_id()->set_seq(seq);
    *request.mutable_command() = command;
    v1::Reply reply;
    auto status = world.client->execute(request, reply);
    return status.ok() && reply.has_refusal() ? grpc::StatusCode::INVALID_ARGUMENT : status.error_code();
  };
  CHECK(status_of("", 1) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status_of("short", 1) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status_of(big(limits::request_client_bytes_max + 1), 1) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(status_of("long-enough", 0) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(world.node.ctl({"kv", "get", "k"}).status == 1);
  CHECK(status_of("long-enough", 1) == grpc::StatusCode::OK);
  CHECK(status_of("long-enough", 1) == grpc::StatusCode::OK); // the same again: the first answer
  command.mutable_set_kv()->set_value("other");
  CHECK(status_of("long-enough", 1) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(world.node.ctl({"kv", "get", "k"}).out == "v\n");
  command.mutable_set_kv()->set_key("n");
  CHECK(status_of(std::string("nul\0in the name", 15), 1) == grpc::StatusCode::OK); // a name is bytes
}

TEST_CASE("an empty command, an unknown body, an empty scope and unknown fields are answered") {
  running_node world;
  check_refused(world, world.command(), "no body");
  auto c = world.command();
  c.mutable_set_kv()->set_key("k");
  c.set_scope("");
  check_refused(world, c, "no scope");
  c.set_scope(big(limits::path_bytes_max() + 1));
  check_refused(world, c, "long scope");
  c.set_scope(std::string("/a\0b", 4));
  check_refused(world, c, "NUL in the scope");

  v1::Command later;
  REQUIRE(later.ParseFromString(world.command().SerializeAsString() + std::string("\xfa\x7f\x03new", 6))); // field 2047 of a later version
  check_refused(world, later, "body of a later version");

  v1::Query query;
  grpc::ClientContext context;
  world.client->prepare(context);
  v1::Answer answer;
  auto status = world.client->coordination().Ask(&context, query, &answer);
  CHECK((!status.ok() || answer.has_refusal()));
  auto named = world.node.ctl({"kv", "set", "k", "v", "--scope", "weird name \xc3\xa4 *?%"});
  CHECK(named.status == 0);
}

TEST_CASE("NUL bytes and broken UTF-8 in names and texts are refused or kept as they are, and never cut") {
  running_node world;
  auto c = world.command();
  c.mutable_acquire_lock()->set_path(std::string("/a\0b", 4));
  check_refused(world, c, "NUL in a path");
  c = world.command();
  c.mutable_set_kv()->set_key(std::string("a\0b", 3));
  c.mutable_set_kv()->set_value("v");
  check_refused(world, c, "NUL in a key");
  c = world.command();
  c.mutable_dispatch()->set_title("t");
  c.mutable_dispatch()->set_harness("exec");
  c.mutable_dispatch()->add_argv("sh");
  c.mutable_dispatch()->add_argv(std::string("-c\0x", 4));
  check_refused(world, c, "NUL in an argument");
  auto broken = world.node.ctl({"kv", "set", "bytes", "\xff\xfe"});
  CHECK(broken.status == 2);
  CHECK(broken.err.find("not UTF-8") != std::string::npos);
  CHECK(world.node.ctl_json({"dispatch", "t", "--harness", "exec", "--", "true"}, {.env = {{"TZ", "\xff"}}}).at("exit_status") == 0);
  CHECK(world.node.ctl({"kv", "list"}).status == 0);
}

TEST_CASE("what does not exist is refused by name in every family") {
  running_node world;
  const std::string nobody = "00000000-0000-4000-8000-000000000000";
  auto c = world.command();
  c.mutable_claim_task()->set_task_id(nobody);
  check_refused(world, c, "claim");
  c = world.command();
  c.mutable_update_task()->set_task_id(nobody);
  c.mutable_update_task()->set_status(v1::DONE);
  check_refused(world, c, "update");
  c = world.command();
  c.mutable_send_message()->set_recipient(nobody);
  c.mutable_send_message()->set_content("x");
  check_refused(world, c, "send");
  c = world.command();
  c.set_actor(nobody);
  c.mutable_acquire_lock()->set_path("/a");
  check_refused(world, c, "actor");
  c = world.command();
  c.mutable_remove_session()->set_session_id(nobody);
  check_refused(world, c, "remove");
  c = world.command();
  c.mutable_acquire_lock()->set_path("/a");
  c.mutable_acquire_lock()->set_ttl_ms(-1);
  check_refused(world, c, "negative ttl");
  c.mutable_acquire_lock()->set_ttl_ms(limits::lock_ttl_max().count() + 1);
  check_refused(world, c, "ttl");
  c.mutable_acquire_lock()->set_ttl_ms(0);
  c.mutable_acquire_lock()->set_wait_ms(limits::lock_wait_max().count() + 1);
  check_refused(world, c, "wait");
  CHECK(world.node.ctl({"pty", "kill", nobody}).status == 1);
  grpc::ClientContext context;
  world.client->prepare(context);
  v1::SendPtyRequest send;
  *send.mutable_id() = world.client->next_id();
  send.set_pty_id(nobody);
  send.set_data("x");
  v1::SendPtyReply sent;
  CHECK_FALSE(world.client->ptys().Send(&context, send, &sent).ok());
}

TEST_CASE("ten thousand connections opened and closed, some with garbage, leave a node that answers") {
  running_node world;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto path = world.node.dir().socket().string();
  REQUIRE(path.size() < sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  const std::string garbage = "GET / HTTP/1.1\r\n\r\n" + std::string("\0\xff\x10", 3);
  int opened = 0;
  for (int i = 0; i < 10'000; ++i) {
    swarm::unique_fd fd{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    REQUIRE(fd);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      continue;
    ++opened;
    if (i % 3 == 0)
      (void)!send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  CHECK(opened > 9'000);
  auto r = world.node.ctl({"kv", "set", "still", "here", "--no-autostart"});
  CHECK_MESSAGE(r.status == 0, r.err);
  // Nothing of them is held.
  auto descriptors = [&] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator{"/proc/" + std::to_string(world.node.node_pid()) + "/fd"})
      ++n;
    return n;
  };
  CHECK(eventually([&] { return descriptors() < 200; }));
}

TEST_CASE("calls beyond the bound of one principal are refused at once, and the node goes on") {
  running_node world;
  constexpr int many = 1'200;
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<v1::Activity> replies(many);
  std::vector<grpc::Status> statuses(many);
  for (int i = 0; i < many; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    world.client->prepare(*contexts.back());
    v1::WaitRequest request;
    request.set_scope(world.node.work());
    request.set_session_id(world.me);
    request.set_timeout_ms(15'000);
    auto call = world.client->coordination().AsyncWaitForActivity(contexts.back().get(), request, &queue);
    auto at = static_cast<std::size_t>(i);
    call->Finish(&replies[at], &statuses[at], reinterpret_cast<void*>(at));
  }
  int refused = 0;
  int answered = 0;
  for (int i = 0; i < many; ++i) {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    const auto& s = statuses[reinterpret_cast<std::size_t>(tag)];
    refused += s.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
    answered += s.ok() ? 1 : 0;
  }
  CHECK(refused >= many - static_cast<int>(limits::calls_in_flight_per_principal_max()));
  CHECK(refused + answered == many);
  CHECK(answered > 0);
  CHECK(world.node.ctl({"kv", "set", "still", "here"}).status == 0);
}
