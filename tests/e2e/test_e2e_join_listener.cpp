// Hosts that ask to be let in, at the join listener of a home and at what pretends to be one.
#include <atomic>
#include <csignal>
#include <future>
#include <set>
#include <thread>

#include "actors/base/clock.hpp"
#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "services/federation/links.hpp"
#include "services/security/join_token.hpp"
#include "services/security/openssl.hpp"
#include "services/security/tls_probe.hpp"
#include "tests/support/refusing_home.hpp"
#include "tests/support/scripted_node.hpp"
#include "tests/support/tcp_proxy.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

/// Shows a home's name under an authority of its own, and keeps all that is said to it within TLS.
class false_home {
public:
  false_home(const authority& ca, const member_identity& shown)
    : key_(value_of(key_pair::from_pem(shown.key_pem))), thread_([this, certificate = value_of(certificate_from_pem(shown.chain_pem)),
                                                                  of_authority = ca.certificate()] { run(certificate, of_authority); }) {}
  ~false_home() {
    shutdown(at_.fd.get(), SHUT_RDWR);
    thread_.join();
  }
  false_home(const false_home&) = delete;
  false_home& operator=(const false_home&) = delete;
  const std::string& address() const { return at_.address; }
  std::string heard() const {
    std::lock_guard guard{mutex_};
    return heard_;
  }
  /// Connections that have come so far and are over.
  int served() const { return served_; }

private:
  void run(const std::string& certificate, const std::string& of_authority) {
    sigset_t broken_pipe; // OpenSSL writes to a socket that may be closed
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    openssl::ssl_context_ptr context{SSL_CTX_new(TLS_server_method())};
    SSL_CTX_use_certificate(context.get(), openssl::read_x509(certificate).get());
    SSL_CTX_use_PrivateKey(context.get(), key_.native());
    SSL_CTX_add_extra_chain_cert(context.get(), openssl::read_x509(of_authority).release());
    SSL_CTX_set_alpn_select_cb(
      context.get(),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in, unsigned int, void*) {
        *out = in + 1;
        *size = in[0];
        return SSL_TLSEXT_ERR_OK;
      },
      nullptr);
    while (unique_fd fd{accept4(at_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)}) {
      openssl::ssl_ptr ssl{SSL_new(context.get())};
      SSL_set_fd(ssl.get(), fd.get());
      // An HTTP/2 server begins with its settings; gRPC asks nothing before it has seen them.
      constexpr char settings[9] = {0, 0, 0, 4};
      if (SSL_accept(ssl.get()) == 1 && SSL_write(ssl.get(), settings, sizeof settings) > 0) {
        char bytes[4096];
        for (int n = 0; (n = SSL_read(ssl.get(), bytes, sizeof bytes)) > 0;) {
          std::lock_guard guard{mutex_};
          heard_.append(bytes, static_cast<std::size_t>(n));
        }
      }
      ERR_clear_error();
      ++served_;
    }
  }

  listener at_;
  key_pair key_;
  mutable std::mutex mutex_;
  std::string heard_;
  std::atomic<int> served_ = 0;
  std::thread thread_;
};

/// A host at the join listener that its token names, which says there what it likes.
struct joining_host {
  join_token token;
  std::shared_ptr<grpc::Channel> channel;

  explicit joining_host(const std::string& text) : token(value_of(parse_join_token(text))) {
    believe(value_of(probe_authority(token.address, token.ca_sha256, patience)));
  }
  joining_host(join_token t, const std::string& authority_der) : token(std::move(t)) { believe(authority_der); }

  v1::JoinRequest request(const std::string& name) const {
    v1::JoinRequest r;
    r.set_token_id(to_hex(token.id));
    r.set_secret(token.key.view().data(), token.key.size());
    r.set_csr(value_of(make_csr(value_of(key_pair::generate()), "a node")));
    r.set_node_id(random_uuid());
    r.set_node_name(name);
    r.set_version("scripted");
    return r;
  }
  grpc::Status ask(const v1::JoinRequest& r) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1::JoinReply said;
    return v1::Enrollment::NewStub(channel)->Join(&context, r, &said);
  }

private:
  void believe(const std::string& authority_der) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = value_of(certificate_to_pem(authority_der));
    grpc::ChannelArguments arguments;
    set_link_arguments(arguments);
    arguments.SetSslTargetNameOverride(node_dns_name(token.home_id));
    channel = grpc::CreateCustomChannel(token.address, grpc::SslCredentials(tls), arguments);
  }
};

} // namespace

TEST_CASE("a token that has run out lets nobody in, while another one does") {
  cluster_of_nodes c;
  auto made = c.home.ctl_json({"join-token", "create", "--ttl", "1"});
  auto good = c.token();
  auto ends = made["expires_at_ms"].get<std::int64_t>();
  REQUIRE(eventually([&] { return system_clock_port().unix_ms() > ends; }));
  test_node b;
  auto late = b.ctl({"join", made["token"].get<std::string>(), "--node-name", "b"});
  CAPTURE(late.err);
  CHECK(late.status != 0);
  CHECK(late.err.find("expired") != std::string::npos);
  CHECK(nodes_of(c.home) == 1);
  CHECK(b.ctl({"join", made["token"].get<std::string>(), "--node-name", "b"}).status != 0);
  CHECK(lines_with(c.home, "a node was not let in: it wants to join: the join token has expired") == 1);
  CHECK(eventually([&] { return counted(c.home, federation) == 2; }));
  CHECK(b.ctl({"join", good, "--node-name", "b"}).status == 0);
}

TEST_CASE("the join listener takes a request of 16 KiB and nothing larger") {
  cluster_of_nodes c;
  joining_host host{c.token()};
  auto ask = host.request("b");
  auto of_size = [&](std::size_t bytes) {
    constexpr std::size_t some = 10'000;
    ask.set_version(std::string(some, 'x'));
    ask.set_version(std::string(some + bytes - ask.ByteSizeLong(), 'x'));
    REQUIRE(ask.ByteSizeLong() == bytes);
    return ask;
  };
  auto refused = host.ask(of_size(limits::join_request_bytes_max + 1));
  CAPTURE(refused.error_message());
  CHECK(refused.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(nodes_of(c.home) == 1);
  auto taken = host.ask(of_size(limits::join_request_bytes_max));
  CAPTURE(taken.error_message());
  CHECK(taken.ok());
  CHECK(nodes_of(c.home) == 2);
}

TEST_CASE("five wrong tries to join are answered alike and the next ones not at all, whatever they say") {
  cluster_of_nodes c;
  joining_host host{c.token()};
  std::set<std::string> answers;
  for (std::size_t i = 0; i < limits::join_attempts_per_minute_max; ++i) {
    // Who has no secret does not learn what the nodes are called.
    auto wrong = host.request(i % 2 == 0 ? "a" : "b");
    wrong.set_secret(std::string(join_token_secret_bytes, 'x'));
    if (i > 1)
      wrong.set_token_id(to_hex(std::string(join_token_id_bytes, 'x')));
    auto status = host.ask(wrong);
    CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
    answers.insert(status.error_message());
  }
  CHECK(answers.size() == 1);
  auto right = host.ask(host.request("b"));
  CHECK(right.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(right.error_message().find("too many") != std::string::npos);
  CHECK(nodes_of(c.home) == 1);
  CHECK(lines_with(c.home, "it wants to join: the home knows no such join token") == 1);
  CHECK(eventually([&] { return counted(c.home, federation) == static_cast<int>(limits::join_attempts_per_minute_max) + 1; }));
}

TEST_CASE("the join listener is open while a token is valid, and at no other time") {
  cluster_of_nodes c;
  auto at = port_of(c.address) + 1;
  CHECK(!connected_to(at));
  // A token may be over before a busy machine has looked.
  REQUIRE(eventually([&] { return c.home.ctl({"join-token", "create", "--ttl", "2"}).status == 0 && connected_to(at); }));
  CHECK(eventually([&] { return !connected_to(at); }));
  auto token = c.token();
  CHECK(connected_to(at));
  CHECK(joining_host{token}.token.address == "127.0.0.1:" + std::to_string(at));
}

TEST_CASE("the join listener turns nobody away because the home's certificate is renewed") {
  cluster_of_nodes c{"node_certificate_lifetime = 120000\nnode_certificate_renewal = 117000\n"};
  auto ends = [&] { return cluster_of_nodes::row_seen_by(c.home, "a")["certificate_ends_ms"].get<std::int64_t>(); };
  joining_host host{c.token()};
  auto before = ends();
  auto coming = connected_to(port_of(c.address) + 1);
  REQUIRE(coming);
  REQUIRE(eventually([&] { return ends() > before; }));
  // Answered under the lock under which the listener hears of the new certificate.
  c.token();
  auto joined = host.ask(host.request("b"));
  CAPTURE(joined.error_message());
  CHECK(joined.ok());
  pollfd said{coming.get(), POLLIN, 0};
  CHECK(poll(&said, 1, 0) == 0);
}

TEST_CASE("a host says nothing within TLS to a server that its token does not mean") {
  cluster_of_nodes c;
  auto token = value_of(parse_join_token(c.token()));
  auto now = system_clock_port().unix_ms();
  auto other = value_of(authority::create(random_uuid(), now));
  member_identity home;
  home.node_id = token.home_id;
  constexpr std::int64_t hour_ms = 3'600'000;
  false_home there{other, certified_by(other, home, now - hour_ms, now + hour_ms)};
  token.address = there.address();
  test_node b;
  auto joined = b.ctl({"join", std::string{value_of(encode_join_token(token)).view()}, "--node-name", "b"});
  CHECK(joined.status != 0);
  CHECK(joined.err.find("nothing was sent to it") != std::string::npos);
  CHECK(b.ctl_json({"nodes"})["nodes"].empty());
  CHECK(eventually([&] { return there.served() > 0; }));
  CHECK(there.heard().empty());
  // It would have heard a host that believes it.
  joining_host gullible{std::move(token), other.certificate()};
  auto ask = gullible.request("b");
  grpc::ClientContext context;
  v1::JoinReply said;
  std::promise<void> over;
  v1::Enrollment::NewStub(gullible.channel)->async()->Join(&context, &ask, &said, [&](const grpc::Status&) { over.set_value(); });
  CHECK(eventually([&] { return there.heard().find(ask.secret()) != std::string::npos; }));
  context.TryCancel();
  over.get_future().get();
}

TEST_CASE("a node that joins while the home reopens its join listener comes in all the same") {
  cluster_of_nodes c;
  // Cut off as it looks who is there, and as it asks to be let in.
  for (auto let_in : {0, 1}) {
    CAPTURE(let_in);
    auto token = value_of(parse_join_token(c.token()));
    auto at = parse_address(token.address).value();
    tcp_proxy between{"127.0.0.1", 0, "127.0.0.1", std::stoi(at.port), 1};
    between.refuse_one_after(static_cast<std::size_t>(let_in));
    token.address = "127.0.0.1:" + std::to_string(between.port());
    auto name = "late" + std::to_string(let_in);
    auto in = join_as_member(std::string{value_of(encode_join_token(token)).view()}, name);
    CHECK(between.so_far().refused == 1);
    CHECK(cluster_of_nodes::row_seen_by(c.home, name)["node_id"] == in.node_id);
  }
}
