// The gRPC client against a server that keeps it waiting: what cancel() ends, and what works afterwards.
#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>

#include <grpcpp/grpcpp.h>

#include "actors/base/crypto.hpp"
#include "gateway/client/client.hpp"
#include "gateway/client/failure.hpp"
#include "swarm/v1/coordination.grpc.pb.h"
#include "swarm/v1/node.grpc.pb.h"
#include "swarm/v1/pty.grpc.pb.h"

using namespace std::chrono_literals;
using namespace swarm;
using namespace swarm::cli;

namespace {

constexpr auto patience = 20s;

/// Reports one thing and then stays silent; answers questions, or keeps them.
class silent_node final : public v1::Coordination::CallbackService {
public:
  std::atomic<bool> keeps_questions = false;
  std::promise<void> asked; // of the first question that is kept
  std::mutex mutex;
  std::deque<grpc::Status> ends; // of the commands to come

  grpc::ServerWriteReactor<v1::WatchReply>* Watch(grpc::CallbackServerContext*, const v1::WatchRequest*) override {
    struct stream final : grpc::ServerWriteReactor<v1::WatchReply> {
      v1::WatchReply one;
      stream() { StartWrite(&one); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new stream;
  }
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* ctx, const v1::Query*, v1::Answer*) override {
    if (!keeps_questions) {
      auto* answer = ctx->DefaultReactor();
      answer->Finish(grpc::Status::OK);
      return answer;
    }
    struct kept final : grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    asked.set_value();
    return new kept;
  }
  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* ctx, const v1::ExecuteRequest*, v1::Reply*) override {
    std::lock_guard guard{mutex};
    auto* reactor = ctx->DefaultReactor();
    auto end = ends.empty() ? grpc::Status::OK : ends.front();
    if (!ends.empty())
      ends.pop_front();
    reactor->Finish(end);
    return reactor;
  }
};

/// Is stopping for another reason.
class stopping_node final : public v1::Node::CallbackService {
public:
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* ctx, const v1::ShutdownRequest*, v1::ShutdownReply*) override {
    auto* reactor = ctx->DefaultReactor();
    reactor->Finish({grpc::StatusCode::CANCELLED, "CANCELLED"});
    return reactor;
  }
};

/// Ends reads of terminals as it is told, and keeps those that come after.
class unable_node final : public v1::Ptys::CallbackService {
public:
  std::atomic<int> reads = 0;
  std::mutex mutex;
  std::deque<grpc::Status> ends;

  grpc::ServerWriteReactor<v1::PtyChunk>* Read(grpc::CallbackServerContext*, const v1::ReadPtyRequest*) override {
    struct stream final : grpc::ServerWriteReactor<v1::PtyChunk> {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    auto* out = new stream;
    std::lock_guard guard{mutex};
    ++reads;
    if (!ends.empty()) {
      out->Finish(ends.front());
      if (ends.size() > 1)
        ends.pop_front();
    }
    return out;
  }
};

/// The client, and a watch of it that is under way. The server goes first at the end, so that nothing waits for ever when it fails.
struct fixture {
  state_dir dir;
  std::unique_ptr<client> caller;
  std::future<stream_end> watched;
  silent_node node;
  stopping_node stopping;
  unable_node terminals;
  std::unique_ptr<grpc::Server> server;

  fixture() {
    dir.root = std::filesystem::temp_directory_path() / ("swarm-client-" + random_uuid().substr(0, 8));
    prepare(dir);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + dir.socket().string(), grpc::InsecureServerCredentials());
    builder.RegisterService(&node);
    builder.RegisterService(&stopping);
    builder.RegisterService(&terminals);
    server = builder.BuildAndStart();
    REQUIRE(server);
    client_settings settings;
    settings.dir = dir;
    settings.may_start = false;
    caller = std::make_unique<client>(settings);
  }
  ~fixture() {
    server->Shutdown(std::chrono::system_clock::now());
    if (watched.valid())
      watched.wait();
    caller = nullptr;
    std::filesystem::remove_all(dir.root);
  }
  void watch(std::function<bool(const v1::WatchReply&)> on) {
    watched = std::async(std::launch::async, [this, on = std::move(on)] { return caller->watch({}, on); });
  }
  bool is_over() { return watched.wait_for(patience) == std::future_status::ready; }
};

} // namespace

TEST_CASE("a watch can be ended after a call was made from within it") {
  fixture f;
  std::promise<void> done;
  f.watch([&](const v1::WatchReply&) {
    f.caller->ask({});
    done.set_value();
    return true;
  });
  REQUIRE(done.get_future().wait_for(patience) == std::future_status::ready);
  f.caller->cancel();
  REQUIRE(f.is_over());
  CHECK(f.watched.get() == stream_end::stopped);
}

TEST_CASE("what ends a call that was made from within a watch ends the watch, and nothing that comes later") {
  fixture f;
  f.node.keeps_questions = true;
  SUBCASE("the call's failure is passed on") {
    f.watch([&](const v1::WatchReply&) {
      f.caller->ask({});
      return true;
    });
    REQUIRE(f.node.asked.get_future().wait_for(patience) == std::future_status::ready);
    f.caller->cancel();
    REQUIRE(f.is_over());
    try {
      f.watched.get();
      FAIL("it went on");
    } catch (const failure& e) {
      CHECK(e.exit_status == code::interrupted);
    }
  }
  SUBCASE("the call's failure is kept") {
    f.watch([&](const v1::WatchReply&) {
      CHECK_THROWS_AS(f.caller->ask({}), failure);
      return true;
    });
    REQUIRE(f.node.asked.get_future().wait_for(patience) == std::future_status::ready);
    f.caller->cancel();
    REQUIRE(f.is_over());
    CHECK(f.watched.get() == stream_end::stopped);
  }
  f.node.keeps_questions = false;
  CHECK_NOTHROW(f.caller->ask({}));
}

TEST_CASE("a call that the node gave up is told of in words of ours") {
  fixture f;
  CHECK_THROWS_WITH_AS(f.caller->shutdown({}), "the node gave this call up, as it does when it stops; see: swarmctl status", failure);
}

TEST_CASE("a home that is away is told at once, and that an earlier try may have come to it") {
  const grpc::Status away{grpc::StatusCode::FAILED_PRECONDITION, "the home of this scope, a, has not been reached for 4.0 s"};
  auto failure_of = [](std::deque<grpc::Status> ends) {
    fixture f;
    f.node.ends = std::move(ends);
    try {
      f.caller->execute({}, {}, 0);
      FAIL("it went through");
      return std::string{};
    } catch (const call_failed& e) {
      CHECK(e.exit_status == code::refused);
      return std::string{e.what()};
    }
  };
  CHECK(failure_of({away}) == away.error_message());
  CHECK(failure_of({{grpc::StatusCode::RESOURCE_EXHAUSTED, "full"}, away}) == away.error_message());
  CHECK(failure_of({{grpc::StatusCode::UNAVAILABLE, "the outcome is unknown"}, away}) ==
        away.error_message() + ". An earlier try of this call may have arrived: its outcome is unknown");
  const grpc::Status sentence{grpc::StatusCode::FAILED_PRECONDITION, "It cannot be done. Do something else."};
  CHECK(failure_of({{grpc::StatusCode::UNAVAILABLE, "the outcome is unknown"}, sentence}) ==
        sentence.error_message() + " An earlier try of this call may have arrived: its outcome is unknown");
}

TEST_CASE("who reads a terminal is told by the deadline of a call why it cannot be read, and is not kept") {
  fixture f;
  f.caller->set_timeout_ms(200);
  std::string reason;
  SUBCASE("the node says that it cannot") {
    f.terminals.ends = {{grpc::StatusCode::UNAVAILABLE, "the program in this terminal is about to start"}};
    reason = "the program in this terminal is about to start";
  }
  SUBCASE("it says nothing") { reason = "no answer by the deadline"; }
  try {
    f.caller->read({}, [](const v1::PtyChunk&) { return true; });
    FAIL("it was read");
  } catch (const call_failed& e) {
    CHECK(e.exit_status == code::deadline);
    CHECK_MESSAGE(std::string{e.what()}.find(reason) != std::string::npos, e.what());
  }
}

TEST_CASE("a terminal that can be read a moment later is read") {
  fixture f;
  f.terminals.ends = {{grpc::StatusCode::UNAVAILABLE, "not yet"}, {grpc::StatusCode::UNAVAILABLE, "not yet"}, grpc::Status::OK};
  CHECK(f.caller->read({}, [](const v1::PtyChunk&) { return true; }) == stream_end::complete);
  CHECK(f.terminals.reads == 3);
}
