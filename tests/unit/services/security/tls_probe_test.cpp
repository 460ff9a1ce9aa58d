#include "services/security/tls_probe.hpp"

#include <csignal>
#include <functional>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/base/crypto.hpp"
#include "actors/base/unique_fd.hpp"
#include "tests/unit/services/security/forge.hpp"

using namespace swarm;
using namespace swarm::test;
using namespace std::chrono_literals;

namespace {

unique_fd listener_at(std::uint16_t& port) {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(listen(fd.get(), 8) == 0);
  REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  port = ntohs(at.sin_port);
  return fd;
}

/// Takes one connection and does with it what it is told to.
class server {
public:
  explicit server(std::function<void(int fd)> with) : listener_(listener_at(port_)) {
    thread_ = std::thread{[this, with = std::move(with)] {
      // OpenSSL writes to a socket that may be closed. Here only: the probe itself must do without.
      sigset_t broken_pipe;
      sigemptyset(&broken_pipe);
      sigaddset(&broken_pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
      unique_fd fd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (fd)
        with(fd.get());
    }};
  }
  ~server() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
  std::uint16_t port_ = 0;
  unique_fd listener_;
  std::thread thread_;
};

/// Until the other side goes.
void wait_for_end(int fd) {
  char bytes[4096];
  while (recv(fd, bytes, sizeof bytes, 0) > 0)
    ;
}

struct identity {
  authority ca = value_of(authority::create(cluster_id, now_ms));
  key_pair key = new_key();
  std::string certificate = value_of(ca.issue(request_of(key), node_a, now_ms));

  /// TLS as gRPC's server speaks it, with these after its own certificate.
  std::function<void(int)> serve(std::vector<std::string> further, int newest = TLS1_3_VERSION, std::string* alpn = nullptr) const {
    return [this, further = std::move(further), newest, alpn](int fd) {
      openssl::ssl_context_ptr context{SSL_CTX_new(TLS_server_method())};
      SSL_CTX_set_max_proto_version(context.get(), newest);
      SSL_CTX_use_certificate(context.get(), openssl::read_x509(certificate).get());
      SSL_CTX_use_PrivateKey(context.get(), key.native());
      for (const auto& der : further)
        SSL_CTX_add_extra_chain_cert(context.get(), openssl::read_x509(der).release());
      SSL_CTX_set_alpn_select_cb(
        context.get(),
        [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in, unsigned int n, void* seen) {
          if (seen)
            static_cast<std::string*>(seen)->assign(reinterpret_cast<const char*>(in), n);
          *out = in + 1;
          *size = in[0];
          return SSL_TLSEXT_ERR_OK;
        },
        alpn);
      openssl::ssl_ptr ssl{SSL_new(context.get())};
      SSL_set_fd(ssl.get(), fd);
      if (SSL_accept(ssl.get()) == 1)
        wait_for_end(fd);
      ERR_clear_error();
    };
  }
};

} // namespace

TEST_CASE("the authority that was told of is found in the chain of the server") {
  identity home;
  std::string alpn;
  {
    server s{home.serve({home.ca.certificate()}, TLS1_3_VERSION, &alpn)};
    CHECK(value_of(probe_authority(s.address(), sha256(home.ca.certificate()), 10s)) == home.ca.certificate());
  }
  CHECK(alpn == "\x02h2");
  CHECK(ERR_peek_error() == 0);
}

TEST_CASE("the certificate that a server shows as its own is found, whosever it is") {
  identity home;
  server s{home.serve({home.ca.certificate()})};
  CHECK(value_of(probe_node(s.address(), 10s)) == home.certificate);
}

TEST_CASE("a server of another cluster, or one that does not show its authority, is not taken for the home") {
  identity home, other;
  auto probe = [&](std::vector<std::string> chain, const std::string& wanted) {
    server s{other.serve(std::move(chain))};
    auto found = probe_authority(s.address(), wanted, 10s);
    CHECK(found.failure().text.find(s.address()) != std::string::npos);
    return code_of(found);
  };
  CHECK(probe({other.ca.certificate()}, sha256(home.ca.certificate())) == security_error::other_cluster);
  CHECK(probe({}, sha256(other.ca.certificate())) == security_error::other_cluster);
  CHECK(probe({other.ca.certificate()}, "") == security_error::other_cluster);
  CHECK(probe({other.ca.certificate()}, sha256(other.ca.certificate()).substr(0, 31)) == security_error::other_cluster);
}

TEST_CASE("where nobody answers, or not as a node does, the address is named") {
  identity home;
  auto wanted = sha256(home.ca.certificate());
  auto refused = [&](const std::string& address, std::chrono::milliseconds timeout) {
    auto found = probe_authority(address, wanted, timeout);
    CHECK(code_of(found) == security_error::unreachable);
    CHECK(found.failure().text.find(address) != std::string::npos);
    return found.failure().text;
  };
  SUBCASE("nobody listens") {
    std::uint16_t port = 0;
    listener_at(port).reset();
    CHECK(refused("127.0.0.1:" + std::to_string(port), 10s).find("refused") != std::string::npos);
  }
  SUBCASE("it takes the connection and is silent") {
    server s{wait_for_end};
    CHECK(refused(s.address(), 200ms).find("in time") != std::string::npos);
  }
  SUBCASE("it begins and stops") {
    server s{[](int fd) {
      send(fd, "\x16\x03\x03", 3, MSG_NOSIGNAL);
      wait_for_end(fd);
    }};
    CHECK(refused(s.address(), 200ms).find("in time") != std::string::npos);
  }
  SUBCASE("it hangs up") {
    server s{[](int fd) {
      char byte = 0;
      recv(fd, &byte, 1, 0);
    }};
    (void)refused(s.address(), 10s);
  }
  SUBCASE("it speaks something else") {
    server s{[](int fd) {
      send(fd, "SSH-2.0-OpenSSH_9.2p1\r\n", 23, MSG_NOSIGNAL);
      wait_for_end(fd);
    }};
    CHECK(refused(s.address(), 10s).find("TLS") != std::string::npos);
  }
  SUBCASE("it says more than a node has to say") {
    server s{home.serve(std::vector<std::string>(200, home.ca.certificate()))};
    CHECK(refused(s.address(), 10s).find("more than a node") != std::string::npos);
  }
  SUBCASE("its TLS is too old") {
    server s{home.serve({home.ca.certificate()}, TLS1_2_VERSION)};
    CHECK(refused(s.address(), 10s).find("TLS 1.3") != std::string::npos);
  }
  SUBCASE("the name is nobody's") { (void)refused("nobody.invalid:1", 10s); }
}

TEST_CASE("what is no address is not tried") {
  for (const auto* wrong : {"", "host", "host:0", "/run/socket:1"})
    CHECK(code_of(probe_authority(wrong, std::string(32, 'x'), 1s)) == security_error::malformed);
}
