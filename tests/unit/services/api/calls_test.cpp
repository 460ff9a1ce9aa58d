#include <grpcpp/completion_queue.h>

#include "tests/unit/services/service_world.hpp"

using namespace swarm;
using test::eventually;
using test::fabric_world;
using test::service_world;
using test::session_named;
using namespace std::chrono_literals;

namespace {

/// A wait_for_activity that is under way.
struct pending_wait {
  grpc::ClientContext ctx;
  v1::Activity activity;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Activity>> reader;
};

class waits {
public:
  ~waits() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  pending_wait& start(v1::Coordination::Stub& stub, const std::string& session, std::chrono::milliseconds deadline = 60s) {
    auto& w = *all.emplace_back(std::make_unique<pending_wait>());
    w.ctx.set_deadline(std::chrono::system_clock::now() + deadline);
    v1::WaitRequest r;
    r.set_scope("s");
    r.set_session_id(session);
    w.reader = stub.AsyncWaitForActivity(&w.ctx, r, &queue_);
    w.reader->Finish(&w.activity, &w.status, &w);
    return w;
  }
  /// The next one to finish, or null at the deadline.
  pending_wait* next(std::chrono::milliseconds patience = 20s) {
    void* tag = nullptr;
    bool ok = false;
    auto got = queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + patience);
    return got == grpc::CompletionQueue::GOT_EVENT ? static_cast<pending_wait*>(tag) : nullptr;
  }

  std::vector<std::unique_ptr<pending_wait>> all;

private:
  grpc::CompletionQueue queue_;
};

} // namespace

TEST_CASE("a command is decided once however often its request is repeated") {
  service_world f;
  auto r = f.request(fabric_world::set_kv("k", "v"));
  v1::Reply first, again;
  REQUIRE(f.execute(r, first).ok());
  REQUIRE(f.execute(r, again).ok());
  CHECK_FALSE(first.repeated());
  CHECK(again.repeated());
  CHECK(again.revision() == first.revision());
  auto other = r;
  other.mutable_command()->mutable_set_kv()->set_value("other");
  v1::Reply refused;
  REQUIRE(f.execute(other, refused).ok());
  CHECK(refused.refusal().code() == v1::Refusal::INVALID);
  auto q = fabric_world::query();
  q.mutable_get_kv()->set_key("k");
  CHECK(f.ask(q).kv().value() == "v");
}

TEST_CASE("requests that break an outer bound are refused before anything is asked") {
  service_world f;
  auto code = [&](const v1::ExecuteRequest& r) {
    v1::Reply reply;
    return f.execute(r, reply).error_code();
  };
  auto before = f.commands();
  auto r = f.request(fabric_world::set_kv("k", "v"));
  r.mutable_command()->clear_scope();
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  r = f.request(fabric_world::set_kv("k", "v"));
  r.mutable_command()->set_scope(std::string(limits::path_bytes_max() + 1, 's'));
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  r = f.request(fabric_world::set_kv("k", "v"));
  r.mutable_id()->set_client("short");
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  r = f.request(fabric_world::set_kv("k", "v"));
  r.mutable_id()->set_seq(0);
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  r = f.request(fabric_world::set_kv("k", std::string(limits::command_encoded_bytes_max + 1, 'v')));
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  r = f.request(fabric_world::set_kv("k", "v"));
  auto* v = r.add_environment();
  v->set_name("PATH");
  v->set_value(std::string(limits::environment_bytes_max() + 1, 'x'));
  CHECK(code(r) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(f.commands() == before);
}

TEST_CASE("what a client writes about who it is has no effect") {
  service_world f;
  // Only the node itself may report a process.
  auto r = fabric_world::command();
  r.mutable_principal()->set_kind(v1::Principal::NODE);
  r.mutable_spawn_running()->set_spawn_id("x");
  CHECK(f.run(r).refusal().code() == v1::Refusal::FORBIDDEN);
}

TEST_CASE("a token makes the caller its session, an unknown one is no way back to more rights") {
  service_world f;
  auto token = random_bytes(32);
  auto mine = f.session(100, token), other = f.session(101);
  auto call = [&](const std::string& shown, v1::Command c, v1::Reply& reply) {
    grpc::ClientContext ctx;
    ctx.AddMetadata(token_metadata, shown);
    c.clear_actor();
    return f.coordination->Execute(&ctx, f.request(std::move(c)), &reply);
  };
  v1::Reply reply;
  REQUIRE(call(to_hex(token), fabric_world::acquire("", "/repo/x"), reply).ok());
  CHECK(reply.lock().lock().session_id() == mine);
  auto as_other = fabric_world::acquire(other, "/repo/y");
  {
    grpc::ClientContext ctx;
    ctx.AddMetadata(token_metadata, to_hex(token));
    v1::Reply r;
    REQUIRE(f.coordination->Execute(&ctx, f.request(as_other), &r).ok());
    CHECK(r.refusal().code() == v1::Refusal::FORBIDDEN);
  }
  for (const auto& shown : {to_hex(random_bytes(32)), std::string{"not hex"}, std::string{}, to_hex(token).substr(2)})
    CHECK(call(shown, fabric_world::set_kv("k", "v"), reply).error_code() == grpc::StatusCode::UNAUTHENTICATED);
}

TEST_CASE("a process in a worker's tree is that worker's session and never the operator") {
  service_world f;
  auto mine = f.session(100), other = f.session(101);
  f.workers.put(getpid(), session_named(mine), "hash");
  // Known when it connects, hence a new connection.
  auto stub = v1::Coordination::NewStub(f.connect());
  v1::Reply reply;
  grpc::ClientContext a, b, c;
  REQUIRE(stub->Execute(&a, f.request(fabric_world::acquire("", "/repo/x")), &reply).ok());
  CHECK(reply.lock().lock().session_id() == mine);
  REQUIRE(stub->Execute(&b, f.request(fabric_world::acquire(other, "/repo/y")), &reply).ok());
  CHECK(reply.refusal().code() == v1::Refusal::FORBIDDEN);
  v1::ShutdownReply done;
  CHECK(v1::Node::NewStub(f.connect())->Shutdown(&c, {}, &done).error_code() == grpc::StatusCode::PERMISSION_DENIED);
  f.workers.erase(getpid());
}

TEST_CASE("a wait ends with what happened, or at its client's deadline, and leaves no slot behind") {
  service_world f;
  auto a = f.session(100);
  waits w;
  auto& woken = w.start(*f.coordination, a);
  REQUIRE(eventually([&] { return f.waiting() == 1; }));
  f.run(fabric_world::set_kv("k", "v"));
  REQUIRE(w.next() == &woken);
  CHECK(woken.status.ok());
  CHECK_FALSE(woken.activity.timed_out());
  auto& late = w.start(*f.coordination, a, 200ms);
  REQUIRE(w.next() == &late);
  CHECK(late.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("a client that leaves takes no message with it") {
  service_world f;
  auto a = f.session(100), b = f.session(101);
  waits w;
  auto& vanished = w.start(*f.coordination, b);
  REQUIRE(eventually([&] { return f.waiting() == 1; }));
  vanished.ctx.TryCancel();
  REQUIRE(w.next() == &vanished);
  REQUIRE(eventually([&] { return f.is_idle(); }));
  auto c = fabric_world::command(a);
  c.mutable_send_message()->set_recipient(b);
  c.mutable_send_message()->set_content("hello");
  f.run(c);
  auto& second = w.start(*f.coordination, b);
  REQUIRE(w.next() == &second);
  REQUIRE(second.activity.messages_size() == 1);
  CHECK(second.activity.messages(0).content() == "hello");
}

TEST_CASE("a client that goes leaves the line for a lock, however it goes, but not when the node stops") {
  service_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(fabric_world::acquire(a, "/repo/x"));
  auto in_line = [&] {
    auto q = fabric_world::query();
    q.mutable_get_lock()->set_path("/repo/x");
    return f.ask(q).lock().active().waiters();
  };
  auto wait_for_it = [&](v1::Coordination::Stub& stub, grpc::ClientContext& ctx, const v1::ExecuteRequest& r) {
    return std::thread{[&stub, &ctx, r] {
      v1::Reply reply;
      CHECK_FALSE(stub.Execute(&ctx, r, &reply).ok());
    }};
  };
  auto request = [&] { return f.request(fabric_world::acquire(b, "/repo/x", 60'000)); };
  SUBCASE("it gives the call up") {
    grpc::ClientContext ctx;
    auto client = wait_for_it(*f.coordination, ctx, request());
    REQUIRE(eventually([&] { return in_line() == 1; }));
    ctx.TryCancel();
    client.join();
    CHECK(eventually([&] { return in_line() == 0; }));
  }
  SUBCASE("its stream breaks off") {
    auto ctx = std::make_unique<grpc::ClientContext>();
    auto stream = f.coordination->Pipeline(ctx.get());
    REQUIRE(stream->Write(request()));
    REQUIRE(eventually([&] { return in_line() == 1; }));
    ctx->TryCancel();
    stream->Finish();
    CHECK(eventually([&] { return in_line() == 0; }));
  }
  SUBCASE("the node stops") {
    grpc::ClientContext ctx;
    auto client = wait_for_it(*f.coordination, ctx, request());
    REQUIRE(eventually([&] { return in_line() == 1; }));
    f.server->stop(100ms);
    client.join();
    // The fabric itself still runs. What the end of the call might have set off goes the same way, before this question of the holder.
    caf::scoped_actor me{f.sys};
    me->request(f.board->get().short_calls, 20s, tree_atom_v)
      .receive([](const std::vector<runtime::tree_entry>&) {}, [](caf::error& e) { FAIL(to_string(e)); });
    auto question = std::make_shared<execution>();
    question->id = f.request({}).id();
    question->command = fabric_world::acquire(a, "/repo/x", 1'000);
    auto holder = std::make_shared<call>();
    holder->what = question;
    me->request(f.board->get().front, 20s, call_ptr{holder})
      .receive(
        [](const reply_ptr& r) {
          CHECK(r->refusal().code() == v1::Refusal::CONFLICT);
          CHECK(r->lock().active().waiters() == 1);
        },
        [](caf::error& e) { FAIL(to_string(e)); });
  }
}

TEST_CASE("storms of clients that cancel in mid-call leave nothing behind, and others are served") {
  service_world f;
  auto a = f.session(100), b = f.session(101);
  f.run(fabric_world::acquire(a, "/repo/x"));
  std::mt19937_64 dice{7};
  for (int round = 0; round < 5; ++round) {
    waits w;
    auto stub = v1::Coordination::NewStub(f.connect());
    for (int i = 0; i < 100; ++i) {
      auto& one = w.start(*stub, i % 2 ? a : b);
      if (dice() % 2)
        one.ctx.TryCancel(); // perhaps before it has been sent
    }
    for (auto& one : w.all)
      one->ctx.TryCancel();
    for (int i = 0; i < 100; ++i)
      REQUIRE(w.next() != nullptr);
    for (const auto& one : w.all)
      CHECK(one->status.error_code() == grpc::StatusCode::CANCELLED);
    // The connection itself goes too.
    stub = nullptr;
    CHECK_FALSE(f.run(fabric_world::set_kv("k", std::to_string(round))).has_refusal());
  }
  CHECK(eventually([&] { return f.is_idle(); }));
  CHECK(eventually([&] { return f.waiting() == 0; }));
}

TEST_CASE("calls beyond a caller's share are refused at once, and let in again when others have ended") {
  service_world f;
  auto a = f.session(100);
  waits w;
  // Two connections: one alone may not open so many streams.
  std::vector<std::unique_ptr<v1::Coordination::Stub>> stubs;
  for (int i = 0; i < 2; ++i)
    stubs.push_back(v1::Coordination::NewStub(f.connect()));
  const auto share = limits::calls_in_flight_per_principal_max();
  for (std::size_t i = 0; i < share + 10; ++i)
    w.start(*stubs[i % 2], a);
  for (int i = 0; i < 10; ++i) {
    auto* refused = w.next();
    REQUIRE(refused);
    CHECK(refused->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    CHECK_FALSE(refused->status.error_message().empty());
  }
  v1::Reply reply;
  CHECK(f.execute(f.request(fabric_world::set_kv("k", "v")), reply).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Somebody else has a share of his own.
  f.workers.put(getpid(), session_named(a), "hash");
  auto other = v1::Coordination::NewStub(f.connect());
  grpc::ClientContext mine;
  CHECK(other->Execute(&mine, f.request(fabric_world::acquire("", "/repo/x")), &reply).ok());
  f.workers.erase(getpid());
  for (auto& one : w.all)
    one->ctx.TryCancel();
  for (std::size_t i = 0; i < share; ++i)
    REQUIRE(w.next() != nullptr);
  CHECK(eventually([&] { return f.execute(f.request(fabric_world::set_kv("k", "v")), reply).ok(); }));
  CHECK(eventually([&] { return f.is_idle(); }));
}

TEST_CASE("callers are answered whatever part of the node is killed under them, and retries happen once") {
  service_world f;
  std::atomic<bool> over{false};
  std::atomic<int> done{0};
  std::vector<std::thread> clients;
  for (int n = 0; n < 4; ++n)
    clients.emplace_back([&, n] {
      auto stub = v1::Coordination::NewStub(f.connect());
      for (int i = 0; !over; ++i) {
        v1::ExecuteRequest r;
        r.mutable_id()->set_client("client-number-" + std::to_string(n));
        r.mutable_id()->set_seq(static_cast<std::uint64_t>(i) + 1);
        *r.mutable_command() = fabric_world::command();
        r.mutable_command()->mutable_append_kv()->set_key("k" + std::to_string(n));
        r.mutable_command()->mutable_append_kv()->set_json(std::to_string(i));
        for (;;) {
          grpc::ClientContext ctx;
          ctx.set_deadline(std::chrono::system_clock::now() + 20s);
          v1::Reply reply;
          auto s = stub->Execute(&ctx, r, &reply);
          if (s.ok())
            break;
          if (s.error_code() != grpc::StatusCode::UNAVAILABLE && s.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
            ADD_FAIL_CHECK_AT(__FILE__, __LINE__, s.error_message());
            return;
          }
        }
        ++done;
      }
    });
  for (const auto* path : {"node/scopes/s", "node/writer", "node/scopes", "node/reader-0", "node/short-calls", "node/watch"}) {
    auto reached = done + 20;
    REQUIRE(eventually([&] { return done >= reached; }, 40s));
    grpc::ClientContext ctx;
    v1::KillActorRequest kill;
    kill.set_path(path);
    v1::KillActorReply killed;
    f.nodes->KillActor(&ctx, kill, &killed);
  }
  auto reached = done + 20;
  CHECK(eventually([&] { return done >= reached; }, 40s));
  over = true;
  for (auto& c : clients)
    c.join();
  for (int n = 0; n < 4; ++n) {
    auto q = fabric_world::query();
    q.mutable_get_kv()->set_key("k" + std::to_string(n));
    auto value = f.ask(q).kv().value();
    // Every number once, in order.
    int expected = 0;
    for (std::size_t at = 1; at < value.size();) {
      CHECK(std::stoi(value.substr(at)) == expected++);
      auto comma = value.find(',', at);
      if (comma == std::string::npos)
        break;
      at = comma + 1;
    }
    CHECK(expected > 0);
  }
}
