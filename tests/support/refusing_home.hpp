// What tests look at in a home that refuses nodes, and sockets by hand.
#pragma once

#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "services/security/openssl.hpp"
#include "tests/support/cluster_of_nodes.hpp"

namespace swarm::testing {

inline std::size_t lines_with(const test_node& node, const std::string& text) {
  std::size_t n = 0;
  for (const auto& line : lines_of(file_text(node.dir().log_dir() / "swarmd.log")))
    n += line.find(text) != std::string::npos;
  return n;
}

/// What an actor of the home says of itself.
inline std::string detail_of(const test_node& node, const std::string& path) {
  const auto rows = node.ctl_json({"graph", "--here"})["nodes"];
  for (const auto& row : rows)
    if (row["path"].get<std::string>().ends_with(path))
      return row["detail"];
  return {};
}

/// How many connections were refused: a node's own, or (federation) anybody's. Or how often a node was not reached.
inline int counted(const test_node& node, const std::string& path, const std::string& what = "refused") {
  auto detail = detail_of(node, path);
  auto end = detail.find(" " + what + ", last: ");
  if (end == std::string::npos)
    return 0;
  auto begin = detail.find_last_not_of("0123456789", end - 1);
  return std::stoi(detail.substr(begin == std::string::npos ? 0 : begin + 1));
}

inline const std::string federation = "/federation";
inline std::string peer_row(const std::string& name) { return federation + "/" + name; }

inline std::size_t nodes_of(const test_node& node) { return node.ctl_json({"nodes"})["nodes"].size(); }

template <class T>
T value_of(security_result<T> f) {
  if (!f)
    throw std::runtime_error(f.failure().text);
  return *std::move(f);
}

inline sockaddr_in loopback(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  return a;
}

/// Nobody there: none.
inline unique_fd connected_to(int port) {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto a = loopback(port);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) != 0)
    fd.reset();
  return fd;
}

inline int port_of(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

struct listener {
  unique_fd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address;
  listener() {
    auto a = loopback(0);
    socklen_t n = sizeof a;
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&a), n) != 0 || listen(fd.get(), 16) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&a), &n) != 0)
      throw std::runtime_error("cannot listen");
    address = "127.0.0.1:" + std::to_string(ntohs(a.sin_port));
  }
  unique_fd next() const {
    pollfd p{fd.get(), POLLIN, 0};
    return poll(&p, 1, static_cast<int>(patience.count())) == 1 ? unique_fd{accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)} : unique_fd{};
  }
};

} // namespace swarm::testing
