// What tools/tsan must see, and what it must not: races planted where the program's own could be, and correct code beside each.
// Without an argument it prints the names; "correct-..." must not be reported, everything else must.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <grpcpp/grpcpp.h>

#include "actors/runtime/system.hpp"
#include "services/call/bridge.hpp"
#include "swarm/v1/node.grpc.pb.h"

namespace {

using namespace swarm;

/// A value that two threads touch at the same time. The meeting point is relaxed, so that it does not order what it brings together.
class shared_value {
public:
  void touch() {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    while (arrived_.load(std::memory_order_relaxed) < 2) {
    }
    // The sanitizer does not see two accesses that happen at the very same moment.
    for (int i = 0; i < 1000; ++i)
      value_ = value_ + 1;
  }

private:
  std::atomic<int> arrived_{0};
  volatile int value_ = 0;
};

// Two workers at least: the two touching actors wait for each other.
caf::actor_system_config config() { return runtime::make_config<>(2); }

void race_of_threads() {
  shared_value v;
  std::thread other{[&v] { v.touch(); }};
  v.touch();
  other.join();
}

void race_of_actors() {
  auto v = std::make_shared<shared_value>();
  auto cfg = config();
  caf::actor_system sys{cfg};
  for (int i = 0; i < 2; ++i)
    sys.spawn([v](caf::event_based_actor*) { v->touch(); });
}

// Values that wander: what one actor writes the next reads, and only the message says that it may.
void correct_actors() {
  auto cfg = config();
  caf::actor_system sys{cfg};
  auto adder = [](caf::event_based_actor*) -> caf::behavior {
    return {[](std::uint64_t address) {
      *reinterpret_cast<std::uint64_t*>(address) += 1; // NOLINT
      return address;
    }};
  };
  std::vector<caf::actor> ring{sys.spawn(adder), sys.spawn(adder), sys.spawn(adder)};
  caf::scoped_actor self{sys};
  auto value = std::make_unique<std::uint64_t>(0);
  for (int round = 0; round < 1000; ++round)
    for (const auto& a : ring)
      self->request(a, caf::infinite, reinterpret_cast<std::uint64_t>(value.get()))
        .receive([](std::uint64_t) {}, [](caf::error&) { std::abort(); }); // NOLINT
  if (*value != 3000)
    std::abort();
  for (const auto& a : ring)
    self->send_exit(a, caf::exit_reason::user_shutdown);
}

/// A node that only knows its state; the actor of the call answers.
class small_service final : public v1::Node::CallbackService {
public:
  small_service(caf::actor_system& sys, std::shared_ptr<shared_value> v) : sys_(sys), value_(std::move(v)) {}
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const v1::NodeStatusRequest*, v1::NodeStatus* reply) override {
    if (value_)
      value_->touch();
    return run_unary(sys_, nullptr, [reply](caf::event_based_actor*, unary_ptr answer) {
      reply->set_version("planted");
      answer->finish(grpc::Status::OK);
    });
  }

private:
  caf::actor_system& sys_;
  std::shared_ptr<shared_value> value_;
};

void with_server(const std::shared_ptr<shared_value>& planted, int calls) {
  auto cfg = config();
  caf::actor_system sys{cfg};
  small_service service{sys, planted};
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (planted)
    sys.spawn([planted](caf::event_based_actor*) { planted->touch(); });
  auto client = [&] {
    auto stub = v1::Node::NewStub(server->InProcessChannel({}));
    for (int i = 0; i < calls; ++i) {
      grpc::ClientContext ctx;
      v1::NodeStatus reply;
      if (!stub->Status(&ctx, {}, &reply).ok() || reply.version() != "planted")
        std::abort();
    }
  };
  std::thread other;
  if (!planted)
    other = std::thread{client};
  client();
  if (other.joinable())
    other.join();
  server->Shutdown();
  server->Wait();
}

const std::map<std::string, std::function<void()>> plants{
  {"threads", race_of_threads},
  {"actors", race_of_actors},
  {"grpc-handler", [] { with_server(std::make_shared<shared_value>(), 1); }},
  {"correct-actors", correct_actors},
  {"correct-grpc", [] { with_server(nullptr, 200); }},
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const auto& [name, run] : plants)
      std::puts(name.c_str());
    return 0;
  }
  auto found = plants.find(argv[1]);
  if (found == plants.end())
    return 2;
  found->second();
  return 0;
}
