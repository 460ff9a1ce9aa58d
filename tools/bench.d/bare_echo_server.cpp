// bare-echo-server SOCKET    a callback server that sends back what comes, until it is killed
#include <iostream>

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "echo.grpc.pb.h"

namespace {

class echo final : public swarm::bench::Echo::CallbackService {
  grpc::ServerUnaryReactor* Say(grpc::CallbackServerContext* ctx, const swarm::bench::Payload* in, swarm::bench::Payload* out) override {
    *out = *in;
    auto* reactor = ctx->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bare-echo-server SOCKET\n";
    return 2;
  }
  echo service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string{"unix:"} + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) {
    std::cerr << "bare-echo-server: cannot listen on " << argv[1] << "\n";
    return 1;
  }
  server->Wait();
}
