// bare-echo-server SOCKET                 a callback server that sends back what comes, until it is killed
// bare-echo-server HOST:PORT DIRECTORY    the same as nodes are linked: over TCP, with TLS on both sides by the *.pem in the directory
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

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
  grpc::ServerWriteReactor<swarm::bench::Payload>* Stream(grpc::CallbackServerContext*, const swarm::bench::Script* script) override {
    return new writer{*script};
  }

  class writer final : public grpc::ServerWriteReactor<swarm::bench::Payload> {
  public:
    explicit writer(const swarm::bench::Script& script) : script_(script) {
      message_.set_data(std::string(script.bytes(), 'x'));
      next();
    }
    void OnWriteDone(bool ok) override { ok ? next() : Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }

  private:
    void next() {
      if (done_++ == script_.count())
        return Finish(grpc::Status::OK);
      if (script_.period_us() != 0)
        std::this_thread::sleep_for(std::chrono::microseconds{script_.period_us()});
      message_.set_sent_ns(std::chrono::steady_clock::now().time_since_epoch().count());
      StartWrite(&message_);
    }
    swarm::bench::Script script_;
    swarm::bench::Payload message_;
    std::uint32_t done_ = 0;
  };
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
