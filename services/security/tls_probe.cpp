#include "services/security/tls_probe.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "actors/base/crypto.hpp"
#include "actors/base/limits.hpp"
#include "actors/base/unique_fd.hpp"
#include "services/security/join_token.hpp"
#include "services/security/openssl.hpp"

namespace swarm {

using namespace openssl;

namespace {

using time_point = std::chrono::steady_clock::time_point;

/// A handshake of ours has 2 KiB.
constexpr std::size_t received_bytes_max = 64 * limits::kib;
constexpr unsigned char alpn[] = {2, 'h', '2'};

struct give_back_addresses {
  void operator()(addrinfo* a) const noexcept { freeaddrinfo(a); }
};

int left_ms(time_point until) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

/// An error of the system, ETIMEDOUT when the time is over, else 0.
int wait_for(int fd, short what, time_point until) {
  for (;;) {
    pollfd p{fd, what, 0};
    auto n = poll(&p, 1, left_ms(until));
    if (n > 0)
      return 0;
    if (n == 0)
      return ETIMEDOUT;
    if (errno != EINTR)
      return errno;
  }
}

int connect_to(const addrinfo& to, unique_fd& fd, time_point until) {
  fd.reset(socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (!fd)
    return errno;
  if (connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (auto error = wait_for(fd.get(), POLLOUT, until))
    return error;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// TLS over a socket that never blocks for longer than there is time, and never takes in more than a handshake has.
class handshake {
public:
  handshake(int fd, time_point until) : fd_(fd), until_(until), context_(SSL_CTX_new(TLS_client_method())) {
    if (!context_)
      return;
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_NONE, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    bio_ptr in{BIO_new(BIO_s_mem())}, out{BIO_new(BIO_s_mem())};
    if (!ssl_ || !in || !out || SSL_set_min_proto_version(ssl_.get(), TLS1_3_VERSION) != 1 ||
        SSL_set_alpn_protos(ssl_.get(), alpn, sizeof alpn) != 0) {
      ssl_.reset();
      return;
    }
    in_ = in.get();
    out_ = out.get();
    SSL_set_bio(ssl_.get(), in.release(), out.release()); // they are the SSL's now
  }

  /// Why it failed.
  std::optional<std::string> run() {
    if (!ssl_)
      return "OpenSSL refused; the machine may be short of memory";
    for (;;) {
      auto n = SSL_connect(ssl_.get());
      auto wants = n == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), n);
      if (auto error = send_all())
        return said(error);
      if (wants == SSL_ERROR_NONE)
        return std::nullopt;
      if (wants != SSL_ERROR_WANT_READ)
        return "it does not speak TLS 1.3";
      if (auto why = receive())
        return why;
    }
  }

  STACK_OF(X509) * chain() const { return SSL_get_peer_cert_chain(ssl_.get()); }

private:
  static std::string said(int error) { return error == ETIMEDOUT ? "it did not answer in time" : std::strerror(error); }

  int send_all() {
    char* bytes = nullptr;
    auto n = BIO_get_mem_data(out_, &bytes);
    for (long sent = 0; sent < n;) {
      auto now = send(fd_, bytes + sent, static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
      if (now >= 0)
        sent += now;
      else if (errno == EAGAIN) {
        if (auto error = wait_for(fd_, POLLOUT, until_))
          return error;
      } else if (errno != EINTR)
        return errno;
    }
    BIO_reset(out_);
    return 0;
  }

  std::optional<std::string> receive() {
    if (auto error = wait_for(fd_, POLLIN, until_))
      return said(error);
    char bytes[4096];
    auto n = recv(fd_, bytes, sizeof bytes, 0);
    if (n < 0)
      return errno == EAGAIN || errno == EINTR ? std::nullopt : std::optional{said(errno)};
    if (n == 0)
      return "it closed the connection";
    received_ += static_cast<std::size_t>(n);
    if (received_ > received_bytes_max)
      return "it says more than a node would";
    return BIO_write(in_, bytes, static_cast<int>(n)) == n ? std::nullopt : std::optional<std::string>{"OpenSSL refused"};
  }

  int fd_;
  time_point until_;
  ssl_context_ptr context_;
  ssl_ptr ssl_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
  std::size_t received_ = 0;
};

/// Gives `take` the chain that the server shows.
template <class Take>
security_result<std::string> probe(const std::string& address, std::chrono::milliseconds timeout, Take take) {
  no_errors_left clean;
  auto until = std::chrono::steady_clock::now() + timeout;
  auto at = parse_address(address);
  if (!at)
    return security_failure{security_error::malformed, "an address must be host:port"};
  auto unreachable = [&address](const std::string& why) {
    return security_failure{security_error::unreachable, "the home cannot be reached at " + address + ": " + why +
                                                           ". Is its swarmd running, and do firewalls let this host through?"};
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (auto error = getaddrinfo(at->host.c_str(), at->port.c_str(), &hints, &found))
    return unreachable(gai_strerror(error));
  std::unique_ptr<addrinfo, give_back_addresses> addresses{found};
  unique_fd fd;
  int error = EADDRNOTAVAIL;
  for (const auto* a = found; a && error != 0 && left_ms(until) > 0; a = a->ai_next)
    error = connect_to(*a, fd, until);
  if (error != 0)
    return unreachable(error == ETIMEDOUT ? "it did not answer in time" : std::strerror(error));
  handshake tls{fd.get(), until};
  if (auto why = tls.run())
    return unreachable(*why);
  return take(tls.chain());
}

} // namespace

security_result<std::string> probe_authority(const std::string& address, std::string_view wanted, std::chrono::milliseconds timeout) {
  return probe(address, timeout, [&](const STACK_OF(X509) * chain) -> security_result<std::string> {
    for (int i = 0; i < sk_X509_num(chain); ++i)
      if (auto der = der_of<X509>(i2d_X509, sk_X509_value(chain, i)); sha256(der) == wanted)
        return der;
    return security_failure{security_error::other_cluster,
                            "the server at " + address +
                              " is not of the cluster that the join token is for; nothing was sent to it. Is the address right?"};
  });
}

security_result<std::string> probe_node(const std::string& address, std::chrono::milliseconds timeout) {
  return probe(address, timeout, [&](const STACK_OF(X509) * chain) -> security_result<std::string> {
    if (sk_X509_num(chain) < 1)
      return security_failure{security_error::malformed, "the server at " + address + " shows no certificate"};
    return der_of<X509>(i2d_X509, sk_X509_value(chain, 0));
  });
}

} // namespace swarm
