// bare-echo-server SOCKET                 a callback server that sends back what comes, until it is killed
// bare-echo-server HOST:PORT DIRECTORY    the same as nodes are linked: over TCP, with TLS on both sides by the *.pem in the directory
#include <fstream>
#include <iostream>
#include <sstream>

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

std::string text_of(const std::string& file) {
  std::ostringstream out;
  out << std::ifstream{file}.rdbuf();
  return out.str();
}

std::shared_ptr<grpc::ServerCredentials> both_sides(const std::string& directory) {
  grpc::SslServerCredentialsOptions tls{GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY};
  tls.pem_root_certs = text_of(directory + "/authority.pem");
  tls.pem_key_cert_pairs.push_back({text_of(directory + "/key.pem"), text_of(directory + "/chain.pem")});
  return grpc::SslServerCredentials(tls);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: bare-echo-server SOCKET | HOST:PORT DIRECTORY\n";
    return 2;
  }
  echo service;
  grpc::ServerBuilder builder;
  if (argc == 2)
    builder.AddListeningPort(std::string{"unix:"} + argv[1], grpc::InsecureServerCredentials());
  else
    builder.AddListeningPort(argv[1], both_sides(argv[2]));
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) {
    std::cerr << "bare-echo-server: cannot listen on " << argv[1] << "\n";
    return 1;
  }
  server->Wait();
}
