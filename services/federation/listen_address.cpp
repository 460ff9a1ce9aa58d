#include "services/federation/listen_address.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <sys/socket.h>

#include "actors/base/limits.hpp"
#include "actors/base/text.hpp"
#include "actors/base/unique_fd.hpp"
#include "services/security/join_token.hpp"
#include "services/security/tls_probe.hpp"

namespace swarm {

namespace {

struct give_back_addresses {
  void operator()(addrinfo* a) const noexcept { freeaddrinfo(a); }
};

/// An error of the system, or 0.
int bind_error(const addrinfo& to) {
  unique_fd fd{socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, to.ai_protocol)};
  const int on = 1;
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd.get(), to.ai_addr, to.ai_addrlen) != 0)
    return errno;
  return 0;
}

} // namespace

bool names_no_host(const std::string& address) {
  const auto at = parse_address(address);
  return at && at->host.find_first_not_of(at->host.find(':') == std::string::npos ? "0." : "0:") == std::string::npos;
}

bool has_port_of(const std::string& address, const std::string& other) {
  const auto one = parse_address(address), two = parse_address(other);
  return one && two && one->port == two->port;
}

std::optional<std::string> listen_obstacle(const std::string& address, port_is now) {
  const auto at = parse_address(address);
  if (!at)
    return "it must be host:port";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (auto error = getaddrinfo(at->host.c_str(), at->port.c_str(), &hints, &found))
    return concat({at->host, ": ", gai_strerror(error)});
  std::unique_ptr<addrinfo, give_back_addresses> addresses{found};
  // One address of a name is enough, as for gRPC: localhost may have one of a family that this machine does not have.
  int error = 0;
  for (const auto* a = found; a; a = a->ai_next) {
    const auto here = bind_error(*a);
    if (here == 0 || (here == EADDRINUSE && now == port_is::ours))
      return std::nullopt;
    if (error == 0)
      error = here;
  }
  switch (error) {
    case EADDRINUSE: return "another program has the port";
    case EADDRNOTAVAIL: return "this machine does not have the address";
    case 0: return std::nullopt;
    default: return std::strerror(error);
  }
}

std::optional<std::string> twin_of_home(const authority_store& authority, std::int64_t now_ms) {
  const auto facts = authority.facts();
  if (!facts || !facts->is_home() || facts->listen.empty())
    return std::nullopt;
  auto shown = probe_node(facts->listen, limits::link_connect_timeout);
  if (!shown)
    return std::nullopt;
  if (auto who = authority.verify(*shown, now_ms); !who || *who != facts->node_id)
    return std::nullopt;
  return concat({"at ", facts->listen,
                 ", the address of this home, another node answers that shows the certificate of this one: one of the two state ",
                 "directories is a copy of the other, and only one node can be the home. To use this directory, stop that node first, with "
                 "`swarmctl down` for its own state directory; otherwise remove the copy"});
}

} // namespace swarm
