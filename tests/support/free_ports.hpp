// Ports of loopback that nobody listens on.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "actors/base/unique_fd.hpp"

namespace swarm::testing {

/// One with a free one after it, for a node and its join listener.
inline int free_ports() {
  auto bound = [](int port) {
    unique_fd s{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t n = sizeof a;
    if (bind(s.get(), reinterpret_cast<sockaddr*>(&a), n) != 0 || getsockname(s.get(), reinterpret_cast<sockaddr*>(&a), &n) != 0)
      return 0;
    return static_cast<int>(ntohs(a.sin_port));
  };
  for (int i = 0; i < 100; ++i)
    if (auto port = bound(0); port != 0 && port < 65'535 && bound(port + 1) != 0)
      return port;
  throw std::runtime_error("no two free ports side by side");
}

} // namespace swarm::testing
