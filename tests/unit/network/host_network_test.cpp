// The network of the fault tests over several hosts: it lets through what is not cut, and cuts each direction by itself.
#include <cstdint>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/host_network.hpp"

using namespace swarm;
using namespace swarm::testing;

namespace {

constexpr int port = 7400;
constexpr int silence_ms = 150; // how long nothing is looked at, where nothing must come
constexpr int soon_ms = 10'000; // only ever used up by a failure

/// One datagram is sent, and arrives or does not.
struct mailbox {
  unique_fd fd;
  std::string host;
  mailbox(const host_network& net, std::size_t place, std::string at) : host(std::move(at)) {
    net.inside(place, [&] {
      fd.reset(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      auto a = address(host);
      if (bind(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) != 0)
        throw std::runtime_error("cannot bind to " + host);
    });
  }
  static sockaddr_in address(const std::string& of) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    inet_pton(AF_INET, of.c_str(), &a.sin_addr);
    return a;
  }
  bool reaches(const mailbox& other, int within_ms) const {
    auto a = address(other.host);
    if (sendto(fd.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&a), sizeof a) != 1)
      return false;
    pollfd p{other.fd.get(), POLLIN, 0};
    char byte = 0;
    return poll(&p, 1, within_ms) == 1 && recv(other.fd.get(), &byte, 1, 0) == 1;
  }
};

} // namespace

TEST_CASE("hosts reach each other and the router, and each direction is cut and mended by itself") {
  host_network net{3};
  if (!net.separate()) {
    std::cerr << "SKIPPED: " << net.kind() << "\n";
    std::_Exit(77);
  }
  mailbox a{net, 0, net.address(0)}, b{net, 1, net.address(1)}, c{net, 2, net.address(2)};
  mailbox at_router{net, host_network::router, net.router_address(2)};
  CHECK(a.reaches(b, soon_ms));
  CHECK(b.reaches(a, soon_ms));
  CHECK(c.reaches(at_router, soon_ms));
  net.cut(0, 1);
  net.cut(0, 1);
  CHECK_FALSE(a.reaches(b, silence_ms));
  CHECK(b.reaches(a, soon_ms));
  CHECK(a.reaches(c, soon_ms));
  net.cut(2, host_network::router);
  CHECK_FALSE(c.reaches(at_router, silence_ms));
  CHECK(at_router.reaches(c, soon_ms));
  CHECK(c.reaches(a, soon_ms));
  net.mend(0, 1);
  CHECK(a.reaches(b, soon_ms));
  net.cut(1, 0);
  net.mend_all();
  CHECK(b.reaches(a, soon_ms));
  CHECK(c.reaches(at_router, soon_ms));
}
