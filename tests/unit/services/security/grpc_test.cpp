// The certificates as gRPC uses them: what authority_store hands out is enough for mutual TLS between two nodes.
#include <chrono>
#include <mutex>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "actors/base/clock.hpp"
#include "services/security/authority_store.hpp"
#include "services/security/tls_probe.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;
using namespace std::chrono_literals;

namespace {

struct node {
  temp_dir dir;
  std::unique_ptr<authority_store> store = value_of(authority_store::open(dir.path / "cluster"));
};

/// gRPC looks at the real clock.
std::int64_t real_ms() { return system_clock_port().unix_ms(); }

void found(node& n) { (void)value_of(n.store->found({cluster_id, node_a, node_a, "a", "127.0.0.1:1", "127.0.0.1:1"}, std::nullopt, real_ms())); }

void join(node& n, node& home) {
  auto certificate = value_of(home.store->issue(value_of(n.store->request_certificate(node_b)), node_b, real_ms()));
  auto why =
    n.store->join({cluster_id, node_b, node_a, "a", "127.0.0.1:1", ""}, certificate, value_of(home.store->credentials()).authority_der, real_ms());
  REQUIRE(!why);
}

/// Takes every call and refuses it, but first notes who calls.
class server : public grpc::CallbackGenericService {
public:
  explicit server(const node_credentials& c, bool of_nodes = true) {
    grpc::SslServerCredentialsOptions options{of_nodes ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE};
    options.pem_root_certs = c.authority_pem;
    options.pem_key_cert_pairs.push_back({std::string{c.key_pem.view()}, c.chain_pem});
    grpc::ServerBuilder b;
    b.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port_);
    b.RegisterCallbackGenericService(this);
    server_ = b.BuildAndStart();
    REQUIRE(server_);
  }
  ~server() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  std::string peer_pem() const {
    std::lock_guard lock{mutex_};
    return peer_pem_;
  }
  int calls() const {
    std::lock_guard lock{mutex_};
    return calls_;
  }

private:
  struct refusing : grpc::ServerGenericBidiReactor {
    refusing() { Finish(grpc::Status{grpc::StatusCode::UNIMPLEMENTED, "seen"}); }
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    auto pem = context->auth_context()->FindPropertyValues("x509_pem_cert");
    std::lock_guard lock{mutex_};
    ++calls_;
    peer_pem_ = pem.empty() ? std::string{} : std::string{pem[0].data(), pem[0].size()};
    return new refusing;
  }

  int port_ = 0;
  mutable std::mutex mutex_;
  std::string peer_pem_;
  int calls_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

/// The server's answer is a refusal with the text "seen": what else there is, is TLS's.
grpc::Status call_as(const server& s, const std::string& authority_pem, const node_credentials* own, const std::string& server_id) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority_pem;
  if (own) {
    options.pem_private_key = std::string{own->key_pem.view()};
    options.pem_cert_chain = own->chain_pem;
  }
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(node_dns_name(server_id));
  auto channel = grpc::CreateCustomChannel(s.address(), grpc::SslCredentials(options), arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 20s);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer reply;
  grpc::Status status;
  grpc::Slice nothing;
  auto calling = grpc::GenericStub{channel}.PrepareUnaryCall(&context, "/x.Y/Z", grpc::ByteBuffer{&nothing, 1}, &queue);
  calling->StartCall();
  calling->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  REQUIRE(queue.Next(&tag, &ok));
  return status;
}

} // namespace

TEST_CASE("two nodes of a cluster call each other with what they keep, and the one called knows which node calls") {
  node home, member;
  found(home);
  join(member, home);
  auto of_home = value_of(home.store->credentials());
  auto of_member = value_of(member.store->credentials());
  server s{of_home};
  CHECK(call_as(s, of_member.authority_pem, &of_member, node_a).error_message() == "seen");
  CHECK(value_of(home.store->verify(value_of(certificate_from_pem(s.peer_pem())), real_ms())) == node_b);
}

TEST_CASE("gRPC lets nobody in without a certificate of the cluster, and nobody be taken for another node") {
  node home, member, other_home, other_member;
  found(home);
  join(member, home);
  found(other_home);
  join(other_member, other_home);
  auto of_home = value_of(home.store->credentials());
  auto of_member = value_of(member.store->credentials());
  auto stranger = value_of(other_member.store->credentials());
  server s{of_home};
  auto refused = [&](const std::string& believed, const node_credentials* own, const std::string& server_id) {
    auto status = call_as(s, believed, own, server_id);
    return status.error_code() == grpc::StatusCode::UNAVAILABLE && s.calls() == 0;
  };
  CHECK(refused(of_member.authority_pem, nullptr, node_a));
  CHECK(refused(of_member.authority_pem, &stranger, node_a));
  CHECK(refused(stranger.authority_pem, &of_member, node_a));
  CHECK(refused(of_member.authority_pem, &of_member, node_b)); // it is a's
  CHECK(call_as(s, of_member.authority_pem, &of_member, node_a).error_message() == "seen");
}

TEST_CASE("a host that joins finds the home's authority by its hash and can then call it without a certificate of its own") {
  node home;
  found(home);
  auto of_home = value_of(home.store->credentials());
  server s{of_home, false};
  // The probe speaks TLS 1.3 and nothing older.
  auto der = value_of(probe_authority(s.address(), value_of(read_certificate(of_home.authority_der)).sha256, 20s));
  CHECK(der == of_home.authority_der);
  CHECK(call_as(s, value_of(certificate_to_pem(der)), nullptr, node_a).error_message() == "seen");
  server of_nodes{of_home};
  CHECK(probe_authority(of_nodes.address(), value_of(read_certificate(der)).sha256, 20s));
}
